"""Where outputs part and what kind of difference that is: exact answers from hand-made outputs."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.analyze import (
    Divergence,
    Format,
    Margin,
    NearTieLimit,
    Output,
    case_findings,
    compare_outputs,
    loop_in,
)

Make = Callable[..., Output]
EOS = 9
JSON = Format("json")


def one(a: Output, b: Output, margin: Margin | None = None) -> Divergence:
    return compare_outputs([(a, b)], margins={} if margin is None else {(a.case_id, a.repeat): margin})[0]


def test_first_divergence_has_token_character_and_context(output: Make) -> None:
    """H2: the index of the first divergence and the logprob gap are reported."""
    a, b = output("the cat sat down", [1, 2, 3, 4]), output("the cat ran off", [1, 2, 5, 6])
    found = one(a, b, Margin(0.4))
    assert (found.kind, found.token_index, found.char_index, found.at) == ("divergent", 2, 8, 2)
    assert (found.context.before, found.context.baseline, found.context.candidate) == (
        "the cat ",
        "sat down",
        "ran off",
    )
    assert found.margin == Margin(0.4)
    assert (found.also, found.why) == ((), "different from token 2")


def test_without_ids_the_character_is_the_place(output: Make) -> None:
    found = one(output("abcd", [1]), output("abxd"))
    assert (found.kind, found.token_index, found.char_index, found.at) == ("divergent", None, 2, 2)
    assert found.why == "different from character 2"


def test_a_near_tie_is_numerics_and_says_what_else_holds(output: Make) -> None:
    """H3, H8: a near tie is told from a real difference by the margin, not by the text."""
    a, b = output("x y", [1, 2], finish="stop"), output("z y", [3, 2], finish="length")
    near = one(a, b, Margin(0.09))
    assert (near.kind, near.also) == ("near_tie", ("first_token", "finish_reason"))
    assert one(a, b, Margin(0.11)).kind == "first_token"
    assert one(a, b, Margin(0.09, at_least=True)).kind == "first_token"
    wide = compare_outputs([(a, b)], margins={("c", 0): Margin(0.3)}, limit=NearTieLimit(0.3, 50))
    assert wide[0].kind == "near_tie"


def test_text_after_a_stop_is_never_a_near_tie(output: Make) -> None:
    """H3: an EOS accepted in the middle of a round, and the output goes on."""
    a = output("done", [1, EOS], stop_ids=(EOS,))
    junk = output("done and more", [1, EOS, 4, 5], stop_ids=(EOS,))
    assert one(a, junk, Margin(0.01)).kind == "text_after_stop"
    assert one(a, junk).why == "the candidate holds a stop and goes on after it"
    uncut = output("a END b", [1, 2, 3], stop=("END",))
    assert one(output("a ", [1, 2, 3], stop=("END",)), uncut).kind == "text_after_stop"
    # a stop string kept at the very end is not text after it
    assert one(output("a ", stop=("END",)), output("a END", stop=("END",))).why.startswith("goes on where")


def test_the_candidate_goes_on_where_the_baseline_ended(output: Make) -> None:
    """Text alone: it may have been a near tie between EOS and a word, so a margin counts."""
    a, b = output("It is Cairo."), output("It is Cairo. It is")
    assert one(a, b).kind == "text_after_stop"
    assert one(a, b, Margin(0.05)).kind == "near_tie"
    assert one(output("It is", [1, EOS]), output("It is so", [1, 4])).kind == "text_after_stop"


def test_early_stop(output: Make) -> None:
    a = output("one two three", [1, 2, 3, EOS], stop_ids=(EOS,))
    assert one(a, output("one", [1, EOS], stop_ids=(EOS,))).kind == "early_stop"
    assert one(a, output("one", [1], finish="abort")).why == "the candidate was cut off (abort)"
    assert one(a, output("one", [1])).why == "ended (stop) where the baseline goes on"
    assert one(output("one two three"), output("one")).kind == "early_stop"


def test_finish_reason_alone(output: Make) -> None:
    found = one(output("a", [1], finish="stop"), output("a", [1], finish="length"))
    assert (found.kind, found.at, found.why) == ("finish_reason", None, "finish reason stop became length")


def test_same_tokens_with_another_text(output: Make) -> None:
    found = one(output("a b", [1, 2]), output("ab", [1, 2]))
    assert (found.kind, found.token_index, found.char_index) == ("divergent", None, 1)


def test_same_text_from_other_tokens(output: Make) -> None:
    found = one(output("ab", [1, 2]), output("ab", [3]))
    assert (found.kind, found.token_index, found.char_index, found.context) == ("first_token", 0, None, None)


def test_looping_is_named_where_the_baseline_does_not_loop(output: Make) -> None:
    """D29: a repetition loop, told from a plain divergence."""
    loop = output(ids=[1, 2, *[3, 4, 5] * 9], finish="length")
    found = loop_in(loop)
    assert found is not None
    assert (found.start, found.period, found.times) == (2, 3, 9.0)
    plain = output(ids=range(1, 31))
    assert one(plain, loop).kind == "looping"
    other = output(ids=[1, 2, *[6, 7] * 14], finish="length")
    assert one(other, loop).kind == "divergent", "both loop: it is the model's way"


@pytest.mark.parametrize(
    ("ids", "loops"),
    [
        ([1] * 23, False),  # shorter than 24 tokens
        ([1] * 24, True),
        ([*range(10)] * 3, False),  # three times only
        ([*range(6)] * 4, True),
        ([*[1] * 40, 2], False),  # it came out of it
        ([*[1] * 24, EOS], True),
    ],
)
def test_what_a_loop_is(output: Make, ids: list[int], loops: bool) -> None:
    assert (loop_in(output(ids=ids, stop_ids=(EOS,))) is not None) is loops


def test_loops_of_words_where_ids_are_not_told(output: Make) -> None:
    found = loop_in(output("Well: " + "no I do not " * 8))
    assert found is not None
    assert (found.start, found.period) == (1, 4)


def test_format_broken_only_where_the_baseline_kept_it(output: Make) -> None:
    good, bad = output('{"a": 1}', format=JSON), output('{"b": 1', format=JSON)
    assert one(good, bad).kind == "format_broken"
    assert one(bad, output('{"c": 1', format=JSON)).kind == "divergent"
    assert one(good, output('{"b": 1', format=JSON, finish="length")).also == ("finish_reason",)


def test_a_pair_of_two_cases_is_refused(output: Make) -> None:
    with pytest.raises(ValueError, match="two cases: c and d"):
        one(output("a"), output("a", case="d"))


SHORT = st.lists(st.integers(0, 3), max_size=8)


@given(a=SHORT, b=SHORT)
@settings(max_examples=80, deadline=None)
def test_identical_and_symmetric(output: Make, a: list[int], b: list[int]) -> None:
    x, y = (output("".join("abcd"[i] for i in ids), ids) for ids in (a, b))
    assert one(x, x).kind == "identical"
    forth, back = one(x, y), one(y, x)
    assert (forth.kind == "identical") == (a == b)
    assert (forth.token_index, forth.char_index) == (back.token_index, back.char_index)
    if forth.token_index is not None:
        at = forth.token_index
        assert a[:at] == b[:at]
        assert a[at : at + 1] != b[at : at + 1]
    assert {forth.kind, back.kind} != {"early_stop"}, "one of two that begin alike is the longer"


def test_a_case_fails_only_if_it_is_repeatable_and_the_baseline_steady(output: Make) -> None:
    """H1, H5: the baseline's own unsteadiness is no finding, nor is a difference that comes and goes."""
    base, other, third = output("a b", [1, 2]), output("a c", [1, 3]), output("a d", [1, 4])

    def pairs(case: str, *candidates: Output) -> list[Divergence]:
        at = [(base, c) for c in candidates]
        return [
            Divergence(case, i, d.kind, d.token_index, d.char_index, d.context, None, d.also, d.why)
            for i, d in enumerate(compare_outputs(at))
        ]

    found = [*pairs("steady", other, other), *pairs("once", other), *pairs("goes", other, base)]
    found += [*pairs("unsteady", other, third), *pairs("same", base, base)]
    cases = {c.case_id: c for c in case_findings(found, floor=pairs("unsteady", third))}
    assert {name: c.repeatable for name, c in cases.items()} == {
        "steady": True, "once": None, "goes": False, "unsteady": False, "same": False,
    }  # fmt: skip
    assert (cases["steady"].kind, cases["steady"].pairs, cases["steady"].differing) == ("divergent", 2, 2)
    assert cases["same"].kind == "identical"
    first = cases["steady"].first
    assert first is not None
    assert first.at == 1
