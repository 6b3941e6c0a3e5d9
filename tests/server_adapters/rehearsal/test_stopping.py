"""Where outputs end."""

from __future__ import annotations

import pytest

from server_adapters.rehearsal.stopping import StopRule, find_stop, trim
from server_adapters.rehearsal.types import OutputFaults, SamplingParams

EOS = 0


@pytest.mark.parametrize(
    ("params", "position", "room", "expected"),
    [
        (SamplingParams(max_tokens=99), 0, 99, ([5, 6, EOS], "stop", None)),
        (SamplingParams(max_tokens=99, ignore_eos=True), 0, 99, ([5, 6, EOS, 7], None, None)),
        (SamplingParams(max_tokens=99, stop_token_ids=(6,)), 0, 99, ([5, 6], "stop", 6)),
        (SamplingParams(max_tokens=99, min_tokens=4), 0, 99, ([5, 6, EOS, 7], None, None)),
        (SamplingParams(max_tokens=99, min_tokens=3), 0, 99, ([5, 6, EOS], "stop", None)),
        (SamplingParams(max_tokens=11), 10, 99, ([5], "length", None)),
        (SamplingParams(max_tokens=99), 10, 2, ([5, 6], "length", None)),
        (SamplingParams(max_tokens=3), 0, 99, ([5, 6, EOS], "stop", None)),
    ],
    ids=[
        "eos",
        "ignored",
        "stop-id",
        "too-early",
        "just-late-enough",
        "max-tokens",
        "model-length",
        "eos-at-the-limit",
    ],
)
def test_trim(
    params: SamplingParams, position: int, room: int, expected: tuple[list[int], str | None, int | None]
) -> None:
    assert trim([5, 6, EOS, 7], position, room, params, EOS) == expected


def test_the_earliest_stop_string_wins() -> None:
    assert find_stop("one two three", ["three", "two"], 0) == ("two", 4)
    assert find_stop("one two three", ["four"], 0) is None
    assert find_stop("one one", ["one"], 1) == ("one", 4)


def cuts(rule: StopRule, *rounds: list[int]) -> list[tuple[list[int], str | None, int | str | None]]:
    """What each round leaves, until the output ends."""
    found, position = [], 0
    for tokens in rounds:
        found.append(rule.cut(tokens, position, 99))
        position += len(found[-1][0])
    return found


@pytest.mark.parametrize(
    ("params", "junk", "expected"),
    [
        (SamplingParams(max_tokens=99), 2, [([5, 6, EOS, 7], None, None), ([EOS], "stop", None)]),
        (SamplingParams(max_tokens=99), 1, [([5, 6, EOS, 7], "stop", None)]),
        (SamplingParams(max_tokens=99, stop_token_ids=(6,)), 3, [([5, 6, EOS, 7], None, None), ([EOS], "stop", 6)]),
        (SamplingParams(max_tokens=5), 40, [([5, 6, EOS, 7], None, None), ([EOS], "stop", None)]),
        (SamplingParams(max_tokens=99, ignore_eos=True), 2, [([5, 6, EOS, 7], None, None), ([EOS, 8], None, None)]),
    ],
    ids=["eos", "within-the-round", "stop-id", "max-tokens", "never-stops"],
)
def test_junk_after_a_stop(params: SamplingParams, junk: int, expected: list[object]) -> None:
    """H3: the output goes on past its stop, whose reason stays; a second stop means nothing."""
    rule = StopRule(params, EOS, OutputFaults(junk_after_stop=junk))
    assert cuts(rule, [5, 6, EOS, 7], [EOS, 8])[: len(expected)] == expected


def test_junk_after_a_stop_string() -> None:
    rule = StopRule(SamplingParams(max_tokens=99, stop=("b",)), EOS, OutputFaults(junk_after_stop=3))
    assert rule.has_strings
    assert rule.search("a", 2) is None
    assert rule.search("a b", 4) is None, "it should end here"
    assert not rule.has_strings
    assert rule.cut([1, 2, 3, 4], 4, 99) == ([1, 2, 3], "stop", "b")


def test_stop_strings_within_min_tokens_never_stop() -> None:
    rule = StopRule(SamplingParams(max_tokens=99, stop=("b",), min_tokens=3), EOS)
    assert rule.search("b", 2) is None
    assert rule.search("b b", 3) == ("b", 2)


@pytest.mark.parametrize(
    ("at", "max_tokens", "expected"),
    [(2, 99, ([5, 6], "stop", None)), (9, 4, ([5, 6, 8, 7], "length", None)), (4, 4, ([5, 6, 8, 7], "length", None))],
)
def test_an_early_stop(at: int, max_tokens: int, expected: tuple[list[int], str, None]) -> None:
    rule = StopRule(SamplingParams(max_tokens=max_tokens), EOS, OutputFaults(early_stop_at=at))
    assert rule.cut([5, 6, 8, 7], 0, 99) == expected
