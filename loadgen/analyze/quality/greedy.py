"""Greedy answers of one candidate at one load: pairs with the baseline's reference, and the baseline with itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from loadgen.analyze.quality.cases import CaseFinding, case_findings
from loadgen.analyze.quality.diverge import ALIKE, Divergence, compare_outputs
from loadgen.analyze.quality.endings import no_matter_of_numerics, same_but_for_the_end
from loadgen.analyze.quality.monte_carlo import MOST_DRAWS
from loadgen.analyze.quality.paired import NoiseFloor, Paired, divergence_share, paired
from loadgen.analyze.quality.partings import Parting, parting_of
from loadgen.analyze.quality.ties import Margin, NearTieLimit, between, near_tie, near_tie_limit
from loadgen.analyze.quality.types import Output

Pairs = Sequence[tuple[Output, Output]]
#: The reference is the baseline's first pass: all others, of either arm, are laid beside it.
REFERENCE = 0


@dataclass(frozen=True, slots=True)
class CaseAtLoad:
    """A case at one load. `settled`: of each of its differing pairs it is known that it is no near tie, nor the work of
    the candidate's numerics. `between`: of those of which that is not known the margin is, beyond that of a near tie.
    `proven`: of one of them it is known. `parted`: where its first differing pair parts."""

    finding: CaseFinding
    settled: bool
    between: bool
    proven: bool
    parted: Parting | None


@dataclass(frozen=True, slots=True)
class GreedyAtLoad:
    """`floor`, `found`: the baseline's own pairs and those with the candidate, of equal numbers. `cases`: those with a
    pair of the candidate; `without`: how many could not be compared. `noise`: how often each differs, near ties
    included, and by how much oftener the candidate does, near ties left out: they are numerics. `with_unknown`: the
    same with differences that may be near ties."""

    floor: list[Divergence]
    found: list[Divergence]
    cases: list[CaseAtLoad]
    without: int
    noise: NoiseFloor | None
    with_unknown: Paired | None


def pairs_of(outputs: Sequence[Output], baseline: str, arm: str) -> list[tuple[Output, Output]]:
    """(reference, output of `arm`) of each case and pass; of the baseline its later passes. The pairs of a case are
    numbered as repeats."""
    reference = {o.case_id: o for o in outputs if o.arm == baseline and o.repeat == REFERENCE}
    others: dict[str, list[Output]] = {}
    for one in outputs:
        if one.arm == arm and not (arm == baseline and one.repeat == REFERENCE):
            others.setdefault(one.case_id, []).append(one)
    return [
        (replace(reference[case], repeat=i), one)
        for case, some in others.items()
        if case in reference
        for i, one in enumerate(sorted(some, key=lambda o: o.repeat))
    ]


def partings_of(pairs: Pairs) -> Iterator[Parting]:
    """What log probabilities are needed for: not of an end that is a fault whatever they are."""
    for a, b in pairs:
        parting = None if no_matter_of_numerics(a, b) else parting_of(a, b)
        if parting is not None:
            yield parting


def limit_of(floors: Sequence[Pairs], margins: Mapping[str, Margin]) -> NearTieLimit:
    """From what the baseline said where it parts from itself, at all loads."""
    keys = {one.key for pairs in floors for one in partings_of(pairs)}
    return near_tie_limit([margins[key] for key in sorted(keys) if key in margins])


def greedy_at_load(
    outputs: Sequence[Output],
    baseline: str,
    candidate: str,
    margins: Mapping[str, Margin],
    limit: NearTieLimit,
    seed: int,
    most: int = MOST_DRAWS,
) -> GreedyAtLoad:
    """`outputs`: of both arms at this load. `margins`: by the key of the parting."""
    floor = _compared(pairs_of(outputs, baseline, baseline), margins, limit)
    found = _compared(pairs_of(outputs, baseline, candidate), margins, limit)
    by_case: dict[str, list[_Pair]] = {}
    for pair in found:
        by_case.setdefault(pair.found.case_id, []).append(pair)
    findings = case_findings([p.found for p in found], [p.found for p in floor])
    cases = [_case(finding, by_case[finding.case_id], limit) for finding in findings]
    noise = with_unknown = None
    if {p.found.case_id for p in floor} & {p.found.case_id for p in found}:
        settled, all_ = (_excess(floor, found, seed, unknown, most) for unknown in (False, True))
        own, theirs = (divergence_share([p.found for p in pairs]) for pairs in (floor, found))
        noise, with_unknown = NoiseFloor(own, theirs, settled), all_
    without = len({o.case_id for o in outputs}) - len(cases)
    return GreedyAtLoad([p.found for p in floor], [p.found for p in found], cases, without, noise, with_unknown)


@dataclass(frozen=True, slots=True)
class _Pair:
    """`settled`: it is known whether the difference is a near tie."""

    found: Divergence
    parting: Parting | None
    settled: bool


def _compared(pairs: Pairs, margins: Mapping[str, Margin], limit: NearTieLimit) -> list[_Pair]:
    partings = [parting_of(a, b) for a, b in pairs]
    told = {
        (a.case_id, a.repeat): margins[p.key]
        for (a, _), p in zip(pairs, partings, strict=True)
        if p is not None and p.key in margins
    }
    found = compare_outputs(pairs, margins=told, limit=limit)
    return [
        _Pair(one, parting, _settled(a, b, one, parting, limit))
        for (a, b), one, parting in zip(pairs, found, partings, strict=True)
    ]


def _settled(a: Output, b: Output, one: Divergence, parting: Parting | None, limit: NearTieLimit) -> bool:
    """An end that contradicts what was asked is no matter of numerics; an end against a token is one, like two tokens:
    who was not asked about it does not know."""
    if one.kind in ALIKE or one.hard:
        return True
    if parting is None:
        return same_but_for_the_end(a, b)
    return near_tie(one.margin, limit) is False


def _case(finding: CaseFinding, pairs: Sequence[_Pair], limit: NearTieLimit) -> CaseAtLoad:
    parted = next((p.parting for p in pairs if p.found is finding.first), None)
    open_ = [p for p in pairs if not p.settled]
    known = bool(open_) and all(between(p.found.margin, limit) for p in open_)
    proven = any(p.settled and p.found.kind not in ALIKE for p in pairs)
    return CaseAtLoad(finding, not open_, known, proven, parted)


def _excess(floor: Sequence[_Pair], found: Sequence[_Pair], seed: int, unknown: bool, most: int) -> Paired:
    """One-sided: only a candidate that differs more often is a finding. Exact, since each reference is laid beside as
    many answers of the baseline as of the candidate."""
    return paired(*(_differs(pairs, unknown) for pairs in (floor, found)), seed=seed, side="greater", most=most)


def _differs(pairs: Sequence[_Pair], unknown: bool) -> dict[str, list[float]]:
    by_case: dict[str, list[float]] = {}
    for pair in pairs:
        differs = pair.found.kind not in ALIKE and (unknown or pair.settled)
        by_case.setdefault(pair.found.case_id, []).append(float(differs))
    return by_case
