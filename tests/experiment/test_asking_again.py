"""What arms are asked again, from servers that answer as they are told: exact numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from loadgen.analyze.quality import Parting
from loadgen.experiment.asking_again import SaidAgain, told_of_arms
from server_adapters.base import NextToken

ARMS = ("base", "cand")


def parting(ours: tuple[int | None, str], theirs: tuple[int | None, str], ended: Any = None) -> Parting:
    return Parting("c", ARMS, None, "text", ours, theirs, ended)


def said(one: Parting, tops: Mapping[int | str, float], chosen: int | str, ends: bool = False) -> SaidAgain:
    return SaidAgain(NextToken(tops, chosen, ends), one.ours, one.theirs)


def test_two_tokens() -> None:
    one = parting((None, " red"), (None, " blue"))
    told = {
        "base": said(one, {" red": -0.5, " blue": -0.6}, " red"),
        "cand": said(one, {" blue": -0.4, " x": -3.0}, " x"),
    }
    assert told_of_arms(one, told, set()) == [
        {"arm": "base", "ours": -0.5, "theirs": -0.6, "least": -0.6},
        {"arm": "cand", "ours": None, "theirs": -0.4, "least": -3.0},
    ]


def test_the_token_that_ends_is_the_one_an_arm_ended_with() -> None:
    """H3: an end against a token: its log probability is told by its name, which the ending arm tells."""
    one = parting((None, ""), (None, " and"), "ours")
    told = {"base": said(one, {"<end>": -0.1, " and": -2.5}, "<end>", ends=True),
            "cand": said(one, {"<end>": -0.2, " and": -1.9}, "<end>")}  # fmt: skip
    assert told_of_arms(one, told, set()) == [
        {"arm": "base", "ours": -0.1, "theirs": -2.5, "least": -2.5},
        {"arm": "cand", "ours": -0.2, "theirs": -1.9, "least": -1.9},
    ]


def test_an_end_seen_elsewhere_counts_where_both_arms_tell_it() -> None:
    one = parting((None, " and"), (None, ""), "theirs")
    base, cand = {"<end>": -1.0, " and": -0.9}, {"<end>": -0.8, " and": -1.1}
    told = {"base": said(one, base, " and"), "cand": said(one, cand, " and")}
    assert [t["theirs"] for t in told_of_arms(one, told, {"<end>", "</s>"})] == [-1.0, -0.8]
    lacking = {**told, "cand": said(one, {" and": -0.1, " x": -4.0}, " and")}
    for ends in ({"<end>"}, set[int | str]()):
        answers = told_of_arms(one, lacking, ends)
        assert all("which token ends it is not known" in t["reason"] for t in answers)


def test_a_server_that_cannot_tell_keeps_its_reason() -> None:
    one = parting((None, ""), (None, " and"), "ours")
    told: dict[str, Any] = {"base": "answered 400: no", "cand": said(one, {"</s>": -0.3, " and": -1.0}, "</s>", True)}
    assert told_of_arms(one, told, set()) == [
        {"arm": "base", "reason": "answered 400: no"},
        {"arm": "cand", "ours": -0.3, "theirs": -1.0, "least": -1.0},
    ]


@pytest.mark.parametrize("text", ["", " well"])
def test_a_word_that_goes_on_is_no_end(text: str) -> None:
    """Of texts: " well" ends, " welling" goes on: the end is behind the word."""
    one = Parting("c", ARMS, None, "text", (None, text), (None, f"{text}ing"), "ours")
    tops = {"<end>": -0.5, "ing": -0.7, " well": -0.1}
    told = {arm: said(one, tops, "<end>", True) for arm in ARMS}
    assert told_of_arms(one, told, set())[0]["ours"] == (-0.1 if text else -0.5)


def test_by_text_a_baseline_that_says_neither_was_asked_elsewhere() -> None:
    """The prompt and the answer's beginning as one text may be cut into other tokens: then nothing is known."""
    one = parting((None, " red"), (None, " blue"))
    told = {"base": said(one, {" x": -0.1, " blue": -2.0, " y": -3.0}, " x"), "cand": said(one, {" red": -0.1}, " red")}
    assert ["says neither" in t["reason"] for t in told_of_arms(one, told, set())] == [True, True]
    by_ids = Parting("c", ARMS, (1,), "text", (7, " red"), (8, " blue"))
    told = {"base": said(by_ids, {9: -0.1, 8: -2.0}, 9), "cand": said(by_ids, {7: -0.1, 8: -2.5}, 7)}
    assert told_of_arms(by_ids, told, set())[0] == {"arm": "base", "ours": None, "theirs": -2.0, "least": -2.0}
