"""Ends of answers: which are faults for certain, and which may be a near tie of the end with a token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loadgen.analyze import Evidence, Margin, Output, compare_answers, compare_outputs, decide_answers, questions
from loadgen.analyze.quality import Parting, parting_of

Make = Callable[..., Output]
EOS = 9


def standing(output: Make, base: dict[str, Any], cand: dict[str, Any], margin: Margin | None = None) -> tuple[str, str]:
    """(standing, state) of a case that differs so in both passes."""

    def one(arm: str, repeat: int, **more: Any) -> Output:
        return output(more.pop("text"), more.pop("ids", None), arm=arm, repeat=repeat, **more)

    outputs = [one("baseline", r, **base) for r in range(3)] + [one("candidate", r, **cand) for r in range(2)]
    evidence = Evidence("baseline", ("candidate",), {"greedy": outputs})
    if margin is not None:
        margins = {q.key: margin for q in questions(evidence)}
        evidence = Evidence("baseline", ("candidate",), {"greedy": outputs}, margins=margins)
    compared = compare_answers(evidence)
    (found,) = compared.answers
    return found.cases[0].standing, decide_answers(found, compared)[0]


PARIS, MORE = {"text": "Paris."}, {"text": "Paris. The capital of France"}


@pytest.mark.parametrize(("base", "cand"), [(PARIS, MORE), (MORE, PARIS)], ids=["goes on", "ends early"])
@pytest.mark.parametrize("hidden", [False, True], ids=["texts", "ids without the end"])
@pytest.mark.parametrize(
    ("margin", "expected"),
    [
        (None, ("unknown", "inconclusive")),
        (Margin(0.02), ("alike", "inconclusive")),  # too few cases and no sampler, as everywhere here
        (Margin(5.0), ("shown", "fail")),
        (Margin(0.02, at_least=True), ("unknown", "inconclusive")),
    ],
)
def test_an_end_against_a_token_is_known_by_log_probabilities_alone(
    output: Make, base: dict[str, Any], cand: dict[str, Any], hidden: bool, margin: Margin | None, expected: Any
) -> None:
    """H3: an end of stream that a token stands against may be a near tie, like two tokens."""
    ids = {PARIS["text"]: (1, 2), MORE["text"]: (1, 2, 3, 4)}
    sides = [{**side, "ids": ids[side["text"]]} if hidden else side for side in (base, cand)]
    assert standing(output, sides[0], sides[1], margin) == expected


@pytest.mark.parametrize(
    ("base", "cand", "why"),
    [
        ({"text": "a"}, {"text": "a END b", "stop": ("END",)}, "holds a stop and goes on"),
        ({"text": "a", "ids": (1, EOS), "stop_ids": (EOS,)}, {"text": "a b", "ids": (1, EOS, 2), "stop_ids": (EOS,)},
         "holds a stop and goes on"),
        ({"text": "a", "finish": "length", "n_tokens": 8}, {"text": "a b", "n_tokens": 9, "max_tokens": 8},
         "has 9 tokens where 8 were asked for at most"),
        ({"text": "a b", "ids": (1, 2), "finish": "length"}, {"text": "a b c", "ids": (1, 2, 3)},
         "goes on after 2 tokens, where the baseline ended by max_tokens"),
        ({"text": "a b c"}, {"text": "a b", "finish": "length", "n_tokens": 5, "max_tokens": 8},
         'says "length" after 5 of 8 tokens'),
        ({"text": "a b c", "ids": (1, 2, 3)}, {"text": "a b", "ids": (1, 2), "finish": "length"},
         'says "length" after 2 tokens; the baseline has more'),
        ({"text": "a b c"}, {"text": "a b", "finish": "abort"}, "was cut off (abort)"),
        ({"text": "a b c", "ids": (1, 2, 3, EOS)}, {"text": "a b", "ids": (1, 2), "stop_ids": (EOS,)},
         "ended without any token that ends an answer"),
        ({"text": "a b"}, {"text": "a b", "finish": "length", "n_tokens": 5, "max_tokens": 8},
         'says "length" after 5 of 8 tokens'),
    ],
)  # fmt: skip
def test_an_end_that_contradicts_what_was_asked_is_a_fault(
    output: Make, base: dict[str, Any], cand: dict[str, Any], why: str
) -> None:
    """H3: past a stop string, a stop id or max_tokens, and "length" where the limit was not reached: whatever the log
    probabilities are."""
    assert standing(output, base, cand) == ("shown", "fail")
    assert standing(output, base, cand, Margin(0.01))[0] == "shown"
    a, b = (output(s["text"], s.get("ids"), **{k: v for k, v in s.items() if k not in ("text", "ids")})
            for s in (base, cand))  # fmt: skip
    assert why in compare_outputs([(a, b)])[0].why


@pytest.mark.parametrize(
    ("base", "cand", "expected"),
    [
        # of texts, a token without text may stand where the other ended
        ({"text": "a"}, {"text": "a", "finish": "length"}, "unknown"),
        ({"text": "a"}, {"text": "a", "finish": "tool_calls"}, "shown"),
        ({"text": "a", "ids": (1,)}, {"text": "a", "ids": (1,), "finish": "length"}, "shown"),
        ({"text": "a b", "ids": (1, 2)}, {"text": "ab", "ids": (1, 2)}, "shown"),
        # by max_tokens, of texts: the same text may be more tokens
        ({"text": "a b", "finish": "length"}, {"text": "a b c", "finish": "length"}, "unknown"),
        ({"text": "a b c"}, {"text": "a b", "finish": None}, "unknown"),
        # a stop string may have ended it
        (
            {"text": "a b c", "ids": (1, 2, 3)},
            {"text": "a b", "ids": (1, 2), "stop_ids": (EOS,), "stop": ("X",)},
            "unknown",
        ),
        # the baseline does it, too
        ({"text": "a b", "n_tokens": 9}, {"text": "a b c", "n_tokens": 10, "max_tokens": 8}, "unknown"),
    ],
)
def test_other_ends(output: Make, base: dict[str, Any], cand: dict[str, Any], expected: str) -> None:
    assert standing(output, base, cand)[0] == expected


def test_what_is_asked_where_an_answer_ends(output: Make) -> None:
    def asked(a: Output, b: Output) -> Parting:
        found = parting_of(a, b)
        assert found is not None
        return found

    paris, more = output("It is Paris."), output("It is Paris. The rest", arm="b")
    one = asked(paris, more)
    assert (one.ids, one.text, one.ours, one.theirs, one.ended) == (
        None, "It is Paris.", (None, ""), (None, " The rest"), "ours",
    )  # fmt: skip
    one = asked(more, paris)
    assert (one.ours, one.theirs, one.ended) == ((None, " The rest"), (None, ""), "theirs")
    # inside a word: a token that both begin with must not be cut
    one = asked(output("to Par"), output("to Paris", arm="b"))
    assert (one.text, one.ours, one.theirs, one.ended) == ("to", (None, " Par"), (None, " Paris"), "ours")
    one = asked(output("x", (1, 2)), output("x y", (1, 2, 3), arm="b"))
    assert (one.ids, one.ours, one.theirs, one.ended) == ((1, 2), (None, ""), (3, " y"), "ours")
    # the token that ends is told: two tokens, as anywhere
    one = asked(output("x", (1, EOS)), output("x y", (1, 3), arm="b"))
    assert (one.ids, one.ours, one.theirs, one.ended) == ((1,), (EOS, ""), (3, " y"), None)
    # no token ended it
    assert parting_of(output("x", finish="length"), output("x y")) is None
    assert parting_of(output("x y"), output("x", finish=None)) is None
