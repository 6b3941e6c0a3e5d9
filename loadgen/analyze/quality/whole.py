"""All answers of a quality run, compared: every candidate with the baseline, all tests as one family."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from loadgen.analyze.quality.acceptance import AcceptanceAnomaly, Accepted, acceptance_anomaly
from loadgen.analyze.quality.cases import CaseFinding
from loadgen.analyze.quality.diagnosis import Diagnosis, diagnose, other_prompts
from loadgen.analyze.quality.diverge import ALIKE
from loadgen.analyze.quality.family import FAMILY_LEVEL, Family, family
from loadgen.analyze.quality.greedy import (
    CaseAtLoad,
    GreedyAtLoad,
    Pairs,
    greedy_at_load,
    limit_of,
    pairs_of,
    partings_of,
)
from loadgen.analyze.quality.known import is_right
from loadgen.analyze.quality.monte_carlo import draws_for
from loadgen.analyze.quality.paired import Paired, paired
from loadgen.analyze.quality.partings import Parting
from loadgen.analyze.quality.sampled import Sampled, sampled_tests
from loadgen.analyze.quality.ties import Margin, NearTieLimit, with_numerics
from loadgen.analyze.quality.types import Output
from loadgen.scenario import Match

#: greedy answers under load, and one at a time
Load = Literal["greedy", "alone"]
LOADS: tuple[Load, ...] = ("greedy", "alone")
_FLOOR_NAMES: Mapping[Load, str] = {"greedy": "noise_floor", "alone": "noise_floor_alone"}
#: Tests of one candidate have seeds from each other's; so far apart.
_SEEDS = 1000
#: Tests of one candidate, at most.
TESTS = 11


@dataclass(frozen=True)
class Evidence:
    """What all arms answered. Failed requests are left out here, and counted elsewhere.

    `greedy`: by load; the baseline has one pass more than each candidate. `sampled`: answers with a temperature.
    `repeated`: many short ones. `known`: by case, the right answer and how it is matched. `accepted`: by candidate,
    (reference, now). `margins`: by key of the parting. `numerics`: by candidate, how its log probabilities differ from
    the baseline's where both say the same (`with_numerics`). `prompt_tokens`: by arm and case, as the server counted
    them."""

    baseline: str
    candidates: tuple[str, ...]
    greedy: Mapping[Load, Sequence[Output]]
    sampled: Sequence[Output] = ()
    repeated: Sequence[Output] = ()
    known: Mapping[str, tuple[str, Match]] = field(default_factory=dict)
    accepted: Mapping[str, tuple[Sequence[Accepted], Sequence[Accepted]]] = field(default_factory=dict)
    margins: Mapping[str, Margin] = field(default_factory=dict)
    numerics: Mapping[str, Sequence[float]] = field(default_factory=dict)
    prompt_tokens: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    seed: int = 0
    level: float = FAMILY_LEVEL


#: What a case's difference amounts to, worst first. shown: repeatable, and neither a near tie nor the work of numerics.
#: wrong_end: an end that is wrong for certain, which was not seen twice, or the baseline has one too. between:
#: repeatable and no near tie, by no more than the candidate's own numerics may make. unknown: repeatable, and nobody
#: could say by how much. once: asked only once. unsteady: not the same each time, and in one pass or more neither a
#: near tie nor the work of numerics. passing: not the same each time, and no more is known.
Standing = Literal["shown", "wrong_end", "unsteady", "between", "unknown", "once", "passing", "alike"]
STANDINGS: tuple[Standing, ...] = (
    "shown", "wrong_end", "unsteady", "between", "unknown", "once", "passing", "alike"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CaseCompared:
    """A case over both loads: its worst finding, at which load that was, and the parting it comes from."""

    finding: CaseFinding
    standing: Standing
    load: Load
    parted: Parting | None


@dataclass(frozen=True)
class Answers:
    """One candidate beside the baseline. `limit`: what is a near tie of it. `tests`: the part of the run's family that
    is about it, names as of one candidate. `right`: of the known answers, by arm and case the share that was."""

    arm: str
    limit: NearTieLimit
    greedy: Mapping[Load, GreedyAtLoad]
    cases: list[CaseCompared]
    sampled: Sampled
    known: Paired
    right: tuple[Mapping[str, Sequence[float]], Mapping[str, Sequence[float]]]
    acceptance: AcceptanceAnomaly | None
    tests: Family
    diagnoses: list[Diagnosis]


@dataclass(frozen=True)
class Compared:
    """`limit`: of near ties, by what the baseline alone told. `made`: tests of the run that have a p, of all
    candidates."""

    answers: list[Answers]
    limit: NearTieLimit
    level: float
    made: int


def questions(evidence: Evidence) -> Iterator[Parting]:
    """Everything that both arms are to be asked again."""
    for outputs in evidence.greedy.values():
        for arm in (evidence.baseline, *evidence.candidates):
            yield from partings_of(pairs_of(outputs, evidence.baseline, arm))


def compare_answers(evidence: Evidence) -> Compared:
    """The same evidence and seed give the same numbers. All tests of all candidates are one family."""
    base = evidence.baseline
    floors: list[Pairs] = [pairs_of(outputs, base, base) for outputs in evidence.greedy.values()]
    limit = limit_of(floors, evidence.margins)
    parts = [_Part(evidence, arm, limit, evidence.seed + n * _SEEDS) for n, arm in enumerate(evidence.candidates)]
    pvalues = {f"{part.arm}:{name}": p for part in parts for name, p in part.pvalues().items()}
    tests = family(pvalues, evidence.level)
    return Compared([part.answers(tests) for part in parts], limit, evidence.level, len(tests.adjusted))


class _Part:
    """One candidate's comparisons, before the correction for all."""

    def __init__(self, evidence: Evidence, arm: str, limit: NearTieLimit, seed: int) -> None:
        base, most = evidence.baseline, draws_for(len(evidence.candidates) * TESTS, evidence.level)
        self.arm = arm
        self.limit = with_numerics(limit, evidence.numerics.get(arm, ()))
        self.greedy: dict[Load, GreedyAtLoad] = {
            load: greedy_at_load(outputs, base, arm, evidence.margins, self.limit, seed + i, most)
            for i, (load, outputs) in enumerate(evidence.greedy.items())
        }
        self.sampled = sampled_tests(
            evidence.sampled, evidence.repeated, baseline=base, candidate=arm, seed=seed + 10, most=most
        )
        self.right = (_right(evidence, base, arm), _right(evidence, arm, arm))
        self.known = paired(*self.right, seed=seed + 30, most=most)
        told = evidence.prompt_tokens
        self.prompts = other_prompts(told.get(base, {}), told.get(arm, {}))
        pair = evidence.accepted.get(arm)
        self.acceptance = None if pair is None else acceptance_anomaly(*pair, seed=seed + 40, most=most)

    def pvalues(self) -> dict[str, float | None]:
        noise = {_FLOOR_NAMES[load]: found.noise for load, found in self.greedy.items()}
        return {
            **{name: None if one is None else one.excess.p for name, one in noise.items()},
            "known_answers": self.known.p,
            **self.sampled.pvalues(),
            "acceptance": None if self.acceptance is None else self.acceptance.compared.p,
        }

    def answers(self, tests: Family) -> Answers:
        own = _own(tests, self.arm)
        cases = _over_loads(self.greedy)
        named = diagnose([_counted(case) for case in cases], own, self.acceptance)
        if self.prompts is not None:
            named = [self.prompts, *named]
        return Answers(
            self.arm, self.limit, self.greedy, cases, self.sampled, self.known, self.right, self.acceptance, own, named
        )  # fmt: skip


def _right(evidence: Evidence, arm: str, candidate: str) -> dict[str, list[float]]:
    """By case, 1 for each right answer of `arm` and 0 for each other; of the baseline as many passes as of a
    candidate, so that under H0 their means may be exchanged."""
    found: dict[str, list[float]] = {}
    first = 1 if arm == evidence.baseline and arm != candidate else 0
    for outputs in evidence.greedy.values():
        for one in outputs:
            if one.arm == arm and one.repeat >= first and one.case_id in evidence.known:
                found.setdefault(one.case_id, []).append(float(is_right(one.text, *evidence.known[one.case_id])))
    return found


def _own(tests: Family, arm: str) -> Family:
    """The part of the family about one candidate; adjusted for all of it."""
    mine = f"{arm}:"
    return Family(
        tests.level,
        {name.removeprefix(mine): p for name, p in tests.adjusted.items() if name.startswith(mine)},
        tuple(name.removeprefix(mine) for name in tests.alarms if name.startswith(mine)),
        tuple(name.removeprefix(mine) for name in tests.not_made if name.startswith(mine)),
    )


def _over_loads(greedy: Mapping[Load, GreedyAtLoad]) -> list[CaseCompared]:
    """Each case once, by the load at which it stands worst."""
    worst: dict[str, CaseCompared] = {}
    for load, found in greedy.items():
        for case in found.cases:
            one = CaseCompared(case.finding, standing(case), load, case.parted)
            before = worst.get(case.finding.case_id)
            if before is None or _badness(one) < _badness(before):
                worst[case.finding.case_id] = one
    return list(worst.values())


def standing(case: CaseAtLoad) -> Standing:
    """What the case's difference amounts to."""
    finding = case.finding
    if finding.kind in ALIKE:
        return "alike"
    if finding.hard_twice or (finding.repeatable and case.settled):
        return "shown"
    if finding.hard:
        return "wrong_end"
    if finding.repeatable is None:
        return "once"
    if not finding.repeatable:
        return "unsteady" if case.proven else "passing"
    return "between" if case.between else "unknown"


def _badness(case: CaseCompared) -> tuple[int, bool]:
    return STANDINGS.index(case.standing), case.finding.kind == "identical"


def _counted(case: CaseCompared) -> CaseFinding:
    """Only what is shown counts against the candidate."""
    return case.finding if case.standing in ("shown", "alike") else replace(case.finding, repeatable=False)
