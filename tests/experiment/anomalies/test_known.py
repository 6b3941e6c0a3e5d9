"""Witnesses: what is the same answer, another one, and somebody else's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.experiment.anomalies.known import Known, crossed, least_crossed, longest_shared
from loadgen.experiment.anomalies.witnesses import Witnesses
from loadgen.experiment.anomalies.work import prompts_of

OWN = "def add(a, b):\n    return a + b  # the sum of both numbers\n"
OTHER = "The capital of Norway is Oslo, which lies at the end of a fjord of its own name."
MARKER = "specload-0123abcd"


@pytest.mark.parametrize(
    ("text", "is_crossed"),
    [
        (OWN, False),
        (OWN[:20] + OTHER[20:60], True),
        (OTHER, True),
        (OWN[:20] + OTHER[20:45], False),  # 25 characters are too few
        (OWN[:20] + "something that nobody has ever said anywhere", False),
        (f"{OWN[:10]} {MARKER}", True),
        ("", False),
    ],
)
def test_crossed(text: str, is_crossed: bool) -> None:
    assert crossed(text, {OWN}, {OTHER}, MARKER) is is_crossed


def test_what_both_say_is_nobodys() -> None:
    """A common phrase, that one's own answer has too, is no sign."""
    phrase = "and that is all there is to say about it today."
    assert not crossed(f"Anyway, {phrase}", {f"Well, {phrase}"}, {f"So, {phrase}"}, MARKER)


def test_a_piece_that_answers_share_by_themselves_is_no_cross_talk() -> None:
    """Two prompts whose answers hold a common phrase, and a near tie at which one of them comes to it for once: it
    takes 16 characters more than what they shared in the time before."""
    phrase = "Let me know if there is anything else I can help you with!"
    own, others = {OWN}, {f"{OTHER} {phrase}"}
    learned = [own, others, {f"Something else. {phrase}"}]
    assert longest_shared(learned) == len(f"e. {phrase}")
    assert least_crossed(learned) == len(phrase) + 3 + 16
    assert crossed(f"{OWN[:20]}{phrase}", own, others, MARKER), "as 32 characters it would be one"
    assert not crossed(f"{OWN[:20]}{phrase}", own, others, MARKER, least_crossed(learned))
    assert crossed(f"{OWN[:20]}{OTHER} {phrase}", own, others, MARKER, least_crossed(learned))
    assert (longest_shared([]), longest_shared([{""}, {"a"}]), least_crossed([{"abc"}, {"abd"}])) == (0, 0, 32)


@given(st.lists(st.sets(st.text("ab", max_size=6), max_size=3), max_size=3))
def test_longest_shared_is_what_trying_all_gives(answers: list[set[str]]) -> None:
    pieces = [{t[i:j] for t in texts for i in range(len(t)) for j in range(i, len(t) + 1)} for texts in answers]
    both = [one & other for i, one in enumerate(pieces) for other in pieces[:i]]
    assert longest_shared(answers) == max((len(p) for shared in both for p in shared), default=0)


def known(text: str | None) -> Known:
    return Known(0, 1_000_000, text, None if text is not None else "status 503")


def test_learned_then_judged() -> None:
    noted: list[dict[str, Any]] = []
    witnesses = Witnesses(None, ["p0", "p1", "p2"], MARKER, 1.0, lambda *_, **data: noted.append(data))  # type: ignore[arg-type]
    for number, text in ((0, OWN), (0, OWN + "x"), (1, OTHER), (2, OTHER), (1, None)):
        assert witnesses._seen(number, known(text)) == ("learned" if text else "failed")
    assert witnesses.settle() == 1, "two prompts with one answer cannot be told apart"
    assert witnesses.least == 32
    assert [witnesses._seen(0, known(t)) for t in (OWN, OWN + "x", OWN + "y", None)] == [
        "same",
        "same",
        "new",
        "failed",
    ]


def test_a_prompt_without_answers_of_its_own_is_not_crossed() -> None:
    """Nothing was learned of it, so nothing can be another's; but for a marker."""
    assert not crossed(OTHER, set(), {OTHER}, MARKER)
    assert crossed(f"so {MARKER}", set(), {OTHER}, MARKER)


def test_the_digest_stands_for_the_text() -> None:
    assert known("a").digest == known("a").digest != known("b").digest
    assert known(None).digest is None
    assert known("half a pair: \ud800").digest


def test_prompts_are_fixed_and_all_different() -> None:
    assert prompts_of(8) == prompts_of(8)
    assert len(set(prompts_of(16))) == 16
