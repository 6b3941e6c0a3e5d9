"""From what was compared to pass, fail or inconclusive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from loadgen.analyze.quality.family import per_test_level
from loadgen.analyze.quality.paired import discordant_needed
from loadgen.analyze.quality.whole import Answers, Compared, Standing

State = Literal["pass", "fail", "inconclusive"]
_LOADS = {"greedy": "under load", "alone": "one at a time"}
_SAMPLERS = ("next_token", "token_histogram", "mean_logprob")


def decide_answers(found: Answers, compared: Compared, obstacles: Sequence[str] = ()) -> tuple[State, list[str]]:
    """Of one candidate, with why it is no pass, worst first.

    fail: a test of the family alarms, or a greedy answer differs repeatably and not by a near tie. inconclusive: that
    could not be found out, or too little was asked; `obstacles`: what else stands in the way.
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
    if unknown := counted(found, "unknown"):
        yield (
            f"{unknown} of {total} greedy cases differ repeatably, and it is not known whether by a near tie: the arms "
            "were not asked again there, or told no log probabilities that reach far enough"
        )
    if once := counted(found, "once"):
        yield f"{once} of {total} greedy cases differ and were compared once only: not known whether repeatably"
    for load, one in found.greedy.items():
        p = None if one.with_unknown is None else one.with_unknown.p
        if p is not None and p <= per_test_level(max(compared.made, 1), compared.level) and not against_noise(found):
            yield (
                f"{_LOADS[load]}, greedy answers differ more often than the baseline's own do (p = {p:.2g}), but in "
                "part by what may be near ties"
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
    made = found.tests.adjusted
    if not any(name in made for name in _SAMPLERS):
        why = "; ".join(f"{t.name}: {t.reason}" for t in found.sampled.tests if t.name in _SAMPLERS and t.reason)
        yield f"the sampler was not tested ({why})"
