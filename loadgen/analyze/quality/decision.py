"""From what was compared to pass, fail or inconclusive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from loadgen.analyze.quality.family import per_test_level
from loadgen.analyze.quality.paired import discordant_needed
from loadgen.analyze.quality.power import largest_without_correction
from loadgen.analyze.quality.ties import FEWEST_POSITIONS, NearTieLimit
from loadgen.analyze.quality.types import QualityTest
from loadgen.analyze.quality.whole import Answers, Compared, Standing

State = Literal["pass", "fail", "inconclusive"]
_LOADS = {"greedy": "under load", "alone": "one at a time"}
#: Tests of the sampler, each with the largest effect that it must be able to find for the sampler to count as tested:
#: a distance no larger than a missing correction step can make, and half a nat per token.
SAMPLER_REACH: Mapping[str, float] = {
    "next_token": largest_without_correction(),
    "token_histogram": largest_without_correction(),
    "mean_logprob": 0.5,
}


def decide_answers(found: Answers, compared: Compared, obstacles: Sequence[str] = ()) -> tuple[State, list[str]]:
    """Of one candidate, with why it is no pass, worst first.

    fail: a test of the family alarms, or a greedy answer differs repeatably and neither by a near tie nor by what the
    candidate's numerics may make. inconclusive: that could not be found out, or too little was asked; `obstacles`: what
    else stands in the way.
    """
    against = [diagnosis.text for diagnosis in found.diagnoses]
    open_ = [*obstacles, *_unsettled(found, compared), *_too_little(found, compared)]
    if against:
        return "fail", [*against, *open_]
    return ("inconclusive", open_) if open_ else ("pass", [])


def counted(found: Answers, standing: Standing) -> int:
    return sum(case.standing == standing for case in found.cases)


def _unsettled(found: Answers, compared: Compared) -> Iterator[str]:
    total = len(found.cases)
    if wrong := counted(found, "wrong_end"):
        yield (
            f"{wrong} of {total} greedy cases have an end that is wrong for certain (text past a stop or max_tokens, "
            "or an end that nothing made), but not in two passes at one load, or the baseline has one there, too"
        )
    if unsteady := counted(found, "unsteady"):
        sure_nat = max(found.limit.sure_nat, found.limit.nat)
        yield (
            f"{unsteady} of {total} greedy cases differ by more than a near tie ({found.limit.nat:.3g} nat) and than "
            f"the candidate's numerics makes ({sure_nat:.3g} nat), but not the same each time: as another request's "
            "answer or broken state would"
        )
    if between := counted(found, "between"):
        yield f"{between} of {total} greedy cases differ repeatably by {_between(found.limit)}"
    if unknown := counted(found, "unknown"):
        yield (
            f"{unknown} of {total} greedy cases differ repeatably, and it is not known whether by a near tie: the arms "
            "were not asked again there, or told no log probabilities that reach far enough"
        )
    if found.limit.too_wide:
        yield (
            f"the baseline itself parts by more than rounding: its near ties reach to {found.limit.nat:.3g} nat (P99 "
            f"of {found.limit.n} of its own divergences), so that differences up to there say nothing"
        )
    if found.limit.too_far:
        yield (
            f"the arms' log probabilities are {found.limit.numerics_nat:.2g} nat apart (P99 of {found.limit.positions} "
            "positions where both say the same): more than rounding makes; other weights, other dtypes or broken state"
        )
    if once := counted(found, "once"):
        yield f"{once} of {total} greedy cases differ and were compared once only: not known whether repeatably"
    for load, one in found.greedy.items():
        p = None if one.with_unknown is None else one.with_unknown.p
        if p is not None and p <= per_test_level(max(compared.made, 1), compared.level) and not against_noise(found):
            yield (
                f"{_LOADS[load]}, greedy answers differ more often than the baseline's own do (p = {p:.2g}), but in "
                "part by what may be near ties, or the candidate's numerics"
            )


def _between(limit: NearTieLimit) -> str:
    needed = "" if limit.numerics_nat is not None else f", and {FEWEST_POSITIONS} are needed"
    return (
        f"more than a near tie ({limit.nat:.3g} nat), and not by more than the candidate's numerics may make "
        f"({limit.sure_nat:.3g} nat; numerics was compared at {limit.positions} positions{needed}): neither pass nor "
        "fail"
    )


def against_noise(found: Answers) -> bool:
    """Whether a test against the baseline's own noise alarms."""
    return any(name.startswith("noise_floor") for name in found.tests.alarms)


def _too_little(found: Answers, compared: Compared) -> Iterator[str]:
    if not found.cases:
        yield "no greedy answer of it could be compared"
        return
    needed = discordant_needed(per_test_level(max(compared.made, 1), compared.level), "greater")
    floors = {load: one.noise.excess.cases for load, one in found.greedy.items() if one.noise is not None}
    if not floors:
        yield "the baseline's own noise is not known: none of its cases was answered twice"
    elif max(floors.values()) < needed:
        yield (
            f"{max(floors.values())} greedy cases are too few: the test against the baseline's own noise needs "
            f"{needed} that differ in the candidate alone to alarm"
        )
    yield from _sampler_untested(found, per_test_level(max(compared.made, 1), compared.level))


def _sampler_untested(found: Answers, level: float) -> Iterator[str]:
    tests = [test for test in found.sampled.tests if test.name in SAMPLER_REACH]
    made = [test for test in tests if test.p is not None]
    if not made:
        why = "; ".join(f"{t.name}: {t.reason}" for t in tests if t.reason)
        yield f"the sampler was not tested ({why})"
    elif not any(reaches(test, level) for test in made):
        told = "; ".join(_reach(test, level) for test in made)
        yield (
            f"the sampler was tested too little: {told}. More answers: quality.second_tokens.samples, "
            "quality.sampled.samples"
        )


def reaches(test: QualityTest, level: float) -> bool:
    """Whether a test of the sampler can find an effect of the size that it is there for."""
    detectable = test.detectable(level)
    return detectable is not None and detectable <= SAMPLER_REACH[test.name]


def _reach(test: QualityTest, level: float) -> str:
    detectable, least = test.detectable(level), SAMPLER_REACH[test.name]
    n = f"{test.n_baseline} / {test.n_candidate} answers"
    if detectable is None:
        return f"what {test.name} finds with {n} is not known"
    return f"{test.name} with {n} finds {detectable:.3g} {test.unit}, and {least:.3g} are needed"
