"""All answers compared as one, and what is decided from them: hand-made outputs, exact numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from loadgen.analyze import (
    Evidence,
    Margin,
    Output,
    Told,
    compare_answers,
    decide_answers,
    questions,
    to_ask,
)
from loadgen.analyze.quality import is_right, margin_of, parting_of, stop_ids_of
from loadgen.analyze.quality.whole import Standing

Make = Callable[..., Output]
CASES = 20
SAID = (1, 2, 3, 4, 5, 6)


def greedy(output: Make, candidate: Mapping[int, tuple[int, ...]], second: Mapping[int, tuple[int, ...]] | None = None,
           passes: int = 2, base: Mapping[int, tuple[int, ...]] | None = None) -> list[Output]:  # fmt: skip
    """The baseline says SAID to every case (in its later passes `base`); the candidate what stands under the case's
    number, in its second pass `second`."""

    def one(arm: str, repeat: int, case: int, ids: tuple[int, ...]) -> Output:
        return output(" ".join(map(str, ids)), ids, case=f"c{case}", arm=arm, repeat=repeat, stop_ids=(99,))

    found = []
    for case in range(CASES):
        own = (base or {}).get(case, SAID)
        found += [one("baseline", r, case, own if r else SAID) for r in range(passes + 1)]
        said = [candidate.get(case, SAID), (candidate if second is None else second).get(case, SAID)]
        found += [one("candidate", r, case, said[r]) for r in range(passes)]
    return found


def evidence(outputs: list[Output], nat: Margin | None = None, **more: Any) -> Evidence:
    """With this margin wherever answers part."""
    found = Evidence("baseline", ("candidate",), {"greedy": outputs}, **more)
    return found if nat is None else replace(found, margins={one.key: nat for one in questions(found)})


OTHER = {0: (1, 2, 9, 9, 9, 9)}
#: Goes on after the id that ends an answer.
PAST = {0: (1, 2, 99, 8, 8)}


@pytest.mark.parametrize(
    ("nat", "standing", "state"),
    [
        (Margin(3.0), "shown", "fail"),
        (Margin(0.05), "alike", "inconclusive"),  # the sampler was not tested
        (Margin(0.05, at_least=True), "unknown", "inconclusive"),
        (Margin(3.0, at_least=True), "shown", "fail"),
        (None, "unknown", "inconclusive"),
    ],
)
def test_a_repeatable_difference_fails_only_where_it_is_known_to_be_no_near_tie(
    output: Make, nat: Margin | None, standing: Standing, state: str
) -> None:
    """H1, H3, H8: METHOD's rule; without log probabilities nobody knows, and that is neither pass nor fail."""
    compared = compare_answers(evidence(greedy(output, OTHER), nat))
    (found,) = compared.answers
    (case,) = [c for c in found.cases if c.finding.kind != "identical"]
    assert case.standing == standing
    assert decide_answers(found, compared)[0] == state


@pytest.mark.parametrize(
    ("nat", "standing", "state"),
    [(Margin(3.0), "unsteady", "inconclusive"), (Margin(0.17), "passing", "pass"), (None, "passing", "pass")],
)
def test_a_difference_that_does_not_come_again_fails_nothing(
    output: Make, nat: Margin | None, standing: Standing, state: str
) -> None:
    """H5: what comes and goes under load; it is no pass where neither a near tie nor numerics makes it."""
    compared = compare_answers(evidence(greedy(output, OTHER, second={}), nat, repeated=second_tokens(output, 400)))
    (found,) = compared.answers
    assert [c.standing for c in found.cases if c.finding.kind != "identical"] == [standing]
    assert found.diagnoses == []
    got, reasons = decide_answers(found, compared)
    assert (got, len(reasons)) == (state, int(state == "inconclusive"))
    assert reasons == [] or reasons[0].startswith(
        "1 of 20 greedy cases differ by more than a near tie (0.1 nat) and than the candidate's numerics makes (1 nat)"
    )


def test_where_the_baseline_parts_from_itself_nothing_is_repeatable(output: Make) -> None:
    asked = evidence(greedy(output, OTHER, base={0: (1, 7, 7)}))
    margins = {q.key: Margin(0.05 if q.arms[1] == "baseline" else 3.0) for q in questions(asked)}
    (found,) = compare_answers(replace(asked, margins=margins)).answers
    assert [c.standing for c in found.cases if c.finding.kind != "identical"] == ["unsteady"]


def test_text_after_a_stop_needs_no_log_probabilities(output: Make) -> None:
    """H3: an EOS that was passed is no numerics."""
    compared = compare_answers(evidence(greedy(output, {0: (1, 2, 99, 8, 8)})))
    (found,) = compared.answers
    state, reasons = decide_answers(found, compared)
    assert (state, [d.fault for d in found.diagnoses]) == ("fail", ["text_after_stop"])
    assert reasons[0].startswith("1 of 20 cases go on after a stop")


def test_many_differences_alarm_unless_they_are_near_ties(output: Make) -> None:
    """The noise floor: 16 cases that differ in one pass are 2^-16 by chance; near ties are numerics, however many."""
    unsteady = greedy(output, dict.fromkeys(range(16), (1, 2, 9)), second={})
    broken = compare_answers(evidence(unsteady, Margin(3.0)))
    assert [d.fault for d in broken.answers[0].diagnoses] == ["differs_more_than_noise"]
    assert broken.answers[0].tests.alarms == ("noise_floor",)
    noise = broken.answers[0].greedy["greedy"].noise
    assert noise is not None
    assert (noise.candidate.value, noise.baseline.value) == (pytest.approx(16 / 40), 0.0)
    assert noise.excess.p == pytest.approx(2**-16)
    numerics = compare_answers(evidence(unsteady, Margin(0.01)))
    assert numerics.answers[0].diagnoses == []
    unknown = compare_answers(evidence(unsteady))
    state, reasons = decide_answers(unknown.answers[0], unknown)
    assert (state, unknown.answers[0].diagnoses) == ("inconclusive", [])
    assert any("in part by what may be near ties" in reason for reason in reasons)


def test_the_limit_of_near_ties_is_from_the_baselines_own(output: Make) -> None:
    own = greedy(output, OTHER, base={5: (1, 2, 3, 8)})
    found = evidence(own)
    asked = {q.arms: q for q in questions(found)}
    margins = {asked["baseline", "baseline"].key: Margin(0.4), asked["baseline", "candidate"].key: Margin(0.3)}
    compared = compare_answers(replace(found, margins=margins))
    assert (compared.limit.nat, compared.limit.n) == (0.4, 1)
    assert {c.standing for c in compared.answers[0].cases} == {"alike"}


def test_all_candidates_are_one_family(output: Make) -> None:
    """The same broken arm twice: every p is corrected for the tests of both."""
    some = greedy(output, dict.fromkeys(range(16), (1, 2, 9)), second={})
    twice = [*some, *(replace(o, arm="other") for o in some if o.arm == "candidate")]
    found = Evidence("baseline", ("candidate", "other"), {"greedy": twice})
    found = replace(found, margins={one.key: Margin(3.0) for one in questions(found)})
    one, both = compare_answers(evidence(some, Margin(3.0))), compare_answers(found)
    assert both.made == 2 * one.made
    corrected = [found.answers[-1].tests.adjusted["noise_floor"] for found in (one, both)]
    assert corrected[1] == pytest.approx(2 * corrected[0])
    assert [a.arm for a in both.answers] == ["candidate", "other"]


def test_known_answers_are_paired_with_as_many_passes(output: Make) -> None:
    known = {f"c{n}": ("9", "number") for n in range(CASES)}
    compared = compare_answers(evidence(greedy(output, dict.fromkeys(range(15), (1, 9))), Margin(0.01), known=known))
    (found,) = compared.answers
    assert (found.known.baseline, found.known.candidate, found.known.cases) == (0.0, 0.75, 20)
    assert found.known.p == pytest.approx(2 * 2**-15)
    assert [len(v) for v in found.right[0].values()] == [2] * CASES, "not the reference"
    assert "wrong_answers" in [d.fault for d in found.diagnoses]


def test_another_prompt_is_named_though_the_answers_agree(output: Make) -> None:
    told = {"baseline": {"c0": 10, "c1": 12}, "candidate": {"c0": 27, "c1": 29}}
    (found,) = compare_answers(evidence(greedy(output, {}), prompt_tokens=told)).answers
    (named,) = found.diagnoses
    assert (named.fault, named.cases) == ("wrong_template", ("c0", "c1"))
    assert "2 of 2 prompts have another number of tokens than in the baseline (+17)" in named.text


def test_too_little_is_inconclusive_with_its_numbers(output: Make) -> None:
    few = [o for o in greedy(output, {}) if o.case_id in ("c0", "c1")]
    compared = compare_answers(evidence(few))
    state, reasons = decide_answers(compared.answers[0], compared, ["candidate was not asked"])
    assert (state, reasons[0]) == ("inconclusive", "candidate was not asked")
    assert "2 greedy cases are too few: the test against the baseline's own noise needs 9" in reasons[1]
    assert reasons[2].startswith("the sampler was not tested")
    once = [o for o in greedy(output, {}) if (o.arm, o.repeat) != ("baseline", 1) and o.repeat < 2]
    unknown = compare_answers(evidence(once))
    state, reasons = decide_answers(unknown.answers[0], unknown)
    assert (unknown.made, state) == (0, "inconclusive")
    assert reasons[0] == "the baseline's own noise is not known: none of its cases was answered twice"
    nothing = compare_answers(Evidence("baseline", ("candidate",), {}))
    assert decide_answers(nothing.answers[0], nothing) == ("inconclusive", ["no greedy answer of it could be compared"])


@pytest.mark.parametrize(
    ("numerics", "standing", "state", "said"),
    [
        (
            [],
            "between",
            "inconclusive",
            "1 of 20 greedy cases differ repeatably by more than a near tie (0.1 nat), and not by more than the "
            "candidate's numerics may make (1 nat; numerics was compared at 0 positions, and 20 are needed): neither "
            "pass nor fail",
        ),
        ([0.02] * 100, "shown", "fail", "1 of 20 cases differ"),
        ([0.02, -0.09] * 50, "between", "inconclusive", "(0.18 nat; numerics was compared at 100 positions)"),
        ([2.0] * 100, "between", "inconclusive", "log probabilities are 2 nat apart (P99 of 100 positions"),
    ],
)
def test_steady_numerics_of_the_candidate(
    output: Make, numerics: list[float], standing: Standing, state: str, said: str
) -> None:
    """H1, H8: one repeatable case 0.17 nat apart is a fault only where the arms' numerics is known to be less."""
    asked = evidence(greedy(output, OTHER), Margin(0.17), numerics={"candidate": numerics})
    compared = compare_answers(asked)
    (found,) = compared.answers
    (case,) = [c for c in found.cases if c.finding.kind != "identical"]
    got, reasons = decide_answers(found, compared)
    assert (case.standing, got) == (standing, state)
    assert any(said in reason for reason in reasons), reasons
    assert not any("not known whether by a near tie" in reason for reason in reasons), "it is known to be none"
    assert compared.limit.nat == 0.1, "by the baseline alone"


@pytest.mark.parametrize(
    ("candidate", "second", "base", "standing", "state"),
    [
        (PAST, {}, {}, "wrong_end", "inconclusive"),  # in one pass of two
        ({}, PAST, {}, "wrong_end", "inconclusive"),
        (PAST, {0: (1, 99, 8)}, {}, "shown", "fail"),  # in both, elsewhere
        (PAST, PAST, {0: (1, 7, 7)}, "shown", "fail"),  # the baseline flips before it
        (PAST, PAST, {0: (1, 2, 3, 99, 4)}, "shown", "fail"),  # at one place, before that of the baseline's own
        (PAST, {0: (1, 99, 8)}, PAST, "wrong_end", "inconclusive"),  # the baseline has one, too
    ],
)
def test_an_end_that_is_wrong_for_certain_never_passes(
    output: Make,
    candidate: dict[int, tuple[int, ...]],
    second: dict[int, tuple[int, ...]],
    base: dict[int, tuple[int, ...]],
    standing: Standing,
    state: str,
) -> None:
    """H3: text past a stop fails where two passes have it, and is no pass where one has."""
    asked = evidence(greedy(output, candidate, second, base=base), Margin(0.05), repeated=second_tokens(output, 400))
    compared = compare_answers(asked)
    (found,) = compared.answers
    (case,) = [c for c in found.cases if c.finding.case_id == "c0"]
    got, reasons = decide_answers(found, compared)
    assert (case.standing, case.finding.kind, got) == (standing, "text_after_stop", state)
    said = "cases go on after a stop" if state == "fail" else "greedy cases have an end"
    assert reasons[0].startswith(f"1 of 20 {said}")
    assert all(c.standing == "alike" for c in found.cases if c is not case)


def test_one_wrong_end_that_was_asked_once_is_told_as_one(output: Make) -> None:
    asked = evidence(greedy(output, PAST, passes=1), repeated=second_tokens(output, 400))
    compared = compare_answers(asked)
    (found,) = compared.answers
    assert [c.standing for c in found.cases if c.finding.kind != "identical"] == ["wrong_end"]
    assert decide_answers(found, compared)[0] == "inconclusive"


@pytest.mark.parametrize(("widest", "state"), [(1.0, "pass"), (12.0, "inconclusive")])
def test_a_baseline_that_parts_by_more_than_rounding_lets_nothing_pass(output: Make, widest: float, state: str) -> None:
    """One garbled answer of the baseline would make a near tie of everything."""
    asked = evidence(greedy(output, OTHER, base={5: (1, 2, 3, 8)}), Margin(widest), repeated=second_tokens(output, 400))
    compared = compare_answers(asked)
    (found,) = compared.answers
    got, reasons = decide_answers(found, compared)
    assert (got, {c.standing for c in found.cases}) == (state, {"alike"})
    assert reasons == [] or reasons[0].startswith(
        "the baseline itself parts by more than rounding: its near ties reach to 12 nat (P99 of 1 of its own "
        "divergences)"
    )


def second_tokens(output: Make, answers: int) -> list[Output]:
    """Of both arms the same: one first token, then one of four, equally often."""
    return [
        output(ids=(0, i % 4), case="p", arm=arm, repeat=i) for arm in ("baseline", "candidate") for i in range(answers)
    ]


@pytest.mark.parametrize(("answers", "state"), [(10, "inconclusive"), (100, "inconclusive"), (400, "pass")])
def test_a_sampler_test_counts_where_it_can_find_a_missing_correction(output: Make, answers: int, state: str) -> None:
    """H11: with few answers a test has a p and finds nothing whatever is broken: too little, not passed."""
    compared = compare_answers(evidence(greedy(output, {}), repeated=second_tokens(output, answers)))
    (found,) = compared.answers
    (test,) = [t for t in found.sampled.tests if t.name == "next_token"]
    got, reasons = decide_answers(found, compared)
    assert got == state, reasons
    if answers == 10:  # all tokens are rare and are one: the test has nothing to compare
        assert (test.p, reasons[0].startswith("the sampler was not tested")) == (None, True)
    if answers == 100:
        assert test.p is not None
        assert "next_token with 100 / 100 answers finds" in reasons[0]
        assert reasons[0].startswith("the sampler was tested too little")
        assert "and 0.287 are needed" in reasons[0]


def test_questions_are_asked_once_and_a_budget_leaves_some_of_each(output: Make) -> None:
    found = evidence(greedy(output, dict.fromkeys(range(3), (1, 2, 9)), base={7: (1, 8)}))
    asked, all_ = to_ask(questions(found), 10)
    assert (len(asked), all_) == (4, 4)
    some, all_ = to_ask(questions(found), 2)
    assert ({one.arms for one in some}, all_) == ({("baseline", "baseline"), ("baseline", "candidate")}, 4)
    (one,) = [q for q in asked if q.case_id == "c0"]
    assert (one.ids, one.ours, one.theirs) == ((1, 2), (3, "3 4 5 6"), (9, "9"))


def test_a_parting_without_ids_begins_with_a_word(output: Make) -> None:
    a, b = output("one two three four"), output("one two thrown away", arm="b")
    found = parting_of(a, b)
    assert found is not None
    assert (found.ids, found.text, found.ours[1], found.theirs[1]) == (None, "one two", " three four", " thrown away")
    assert parting_of(a, output("one two three four", arm="b")) is None


def test_margin_of_what_was_told() -> None:
    near, far = Told(-0.70, -0.72, -9.0), Told(-0.1, None, -6.0)
    assert margin_of([near]) == Margin(pytest.approx(0.02))
    assert margin_of([near, far]) == Margin(pytest.approx(5.9), at_least=True)
    assert margin_of([far, far]) == Margin(pytest.approx(5.9), at_least=True, unlikely=True)
    assert margin_of([]) is None


def test_ids_that_end_an_answer_are_found_in_the_answers(output: Make) -> None:
    ended = [output("a", (1, 2, 7)), output("b", (3, 7)), output("c", (1, 8)), output("d", (2, 2, 7))]
    cut = [output("e", (1, 9), finish="length"), output("f", (4, 5), stop=("x",))]
    assert stop_ids_of([*ended, *cut]) == (7, 8), "5 may be a stop string's"
    assert stop_ids_of([output("no ids")]) == ()
    # 8 ends one answer and stands inside another: the server leaves out what ends an answer, and 7 is a full stop
    assert stop_ids_of([*ended, *cut, output("g", (8, 2, 7))]) == ()


@pytest.mark.parametrize(
    ("text", "expected", "match", "right"),
    [
        ("  42\n", "42", "exact", True),
        ("42.", "42", "exact", False),
        ("It is PARIS.", "paris", "contains", True),
        ("The answer is 1,042.0 exactly", "1042", "number", True),
        ("about 1042nd", "1042", "number", False),
        ("x42 and 4.2", "42", "number", False),
        ("-7", "7", "number", False),
        ("17 + 25 = 42", "42", "number", True),
        ("l a-m, p", "(?i)l[ ,.-]*a[ ,.-]*m[ ,.-]*p", "regex", True),
        ("." * 5000 + "42", "42", "contains", False),  # looked at so far
    ],
)
def test_is_right(text: str, expected: str, match: Any, right: bool) -> None:
    assert is_right(text, expected, match) is right
