"""The tables of a quality result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from loadgen.analyze.found.quality import (
    AcceptanceCompared,
    DifferenceShown,
    KnownCompared,
    LoadCompared,
    NumericsCompared,
    Share,
    TestMade,
)
from loadgen.analyze.quality import (
    Answers,
    Compared,
    Divergence,
    Evidence,
    Paired,
    QualityTest,
    discordant_needed,
    per_test_level,
)
from loadgen.analyze.quality.whole import STANDINGS, CaseCompared
from loadgen.analyze.statistics import Estimate

#: Differences that are kept, of each candidate: the worst ones.
MOST_SHOWN = 200
_NO_ACCEPTANCE = "its answers carry no draft counts (vLLM: --per-request-spec-decode-metrics), or they were asked once"


def load_rows(compared: Compared) -> list[LoadCompared]:
    return [
        LoadCompared(
            arm=found.arm,
            load=load,
            cases=len(one.cases),
            without=one.without,
            kinds=_kinds(one.found),
            floor_kinds=_kinds(one.floor),
            floor_share=None if one.noise is None else _share(one.noise.baseline),
            share=None if one.noise is None else _share(one.noise.candidate),
            excess_p=None if one.noise is None else one.noise.excess.p,
        )
        for found in compared.answers
        for load, one in found.greedy.items()
    ]


def numerics_rows(compared: Compared, missing: Mapping[str, str]) -> list[NumericsCompared]:
    return [
        NumericsCompared(
            arm=found.arm, positions=found.limit.positions, p99_nat=found.limit.numerics_nat,
            near_tie_nat=found.limit.nat, sure_nat=max(found.limit.sure_nat, found.limit.nat),
            reason=missing.get(found.arm) or _few(found),
        )
        for found in compared.answers
    ]  # fmt: skip


def _few(found: Answers) -> str | None:
    if found.limit.numerics_nat is not None:
        return None
    return "too few positions" if found.limit.positions else "not asked: its answers do not part from the baseline's"


def _kinds(found: Sequence[Divergence]) -> dict[str, int]:
    return dict(Counter(one.kind for one in found).most_common())


def _share(estimate: Estimate) -> Share:
    return Share(value=estimate.value, low=estimate.low, high=estimate.high, n=estimate.n)


def difference_rows(compared: Compared) -> list[DifferenceShown]:
    """Cases that are not identical: what counts first, near ties last."""
    rows = []
    for found in compared.answers:
        unlike = [case for case in found.cases if case.finding.kind != "identical"]
        unlike.sort(key=lambda case: STANDINGS.index(case.standing))
        rows += [_difference(found, case) for case in unlike[:MOST_SHOWN]]
    return rows


def _difference(found: Answers, case: CaseCompared) -> DifferenceShown:
    finding = case.finding
    mine = [d for d in found.greedy[case.load].found if d.case_id == finding.case_id]
    one = finding.first or next(d for d in mine if d.kind != "identical")
    return DifferenceShown(
        arm=found.arm,
        case_id=finding.case_id,
        load=case.load,
        standing=case.standing,
        kind=finding.kind,
        also=list(one.also),
        pairs=finding.pairs,
        differing=sum(d.kind != "identical" for d in mine),
        token_index=one.token_index,
        char_index=one.char_index,
        margin_nat=None if one.margin is None else one.margin.nat,
        margin_at_least=one.margin is not None and one.margin.at_least,
        why=one.why,
        before=None if one.context is None else one.context.before,
        baseline=None if one.context is None else one.context.baseline,
        candidate=None if one.context is None else one.context.candidate,
    )


def test_rows(compared: Compared, no_acceptance: Mapping[str, str]) -> list[TestMade]:
    """`no_acceptance`: by candidate, why its acceptance is not compared though it is told."""
    level = per_test_level(max(compared.made, 1), compared.level)
    return [
        row for found in compared.answers for row in _tests(found, level, no_acceptance.get(found.arm, _NO_ACCEPTANCE))
    ]


def _tests(found: Answers, level: float, no_acceptance: str) -> Iterator[TestMade]:
    for load, name in (("greedy", "noise_floor"), ("alone", "noise_floor_alone")):
        noise = next((one.noise for at, one in found.greedy.items() if at == load), None)
        if noise is not None:
            yield _paired(found, name, noise.excess, level, "greater")
    yield _paired(found, "known_answers", found.known, level)
    for test in found.sampled.tests:
        yield _sampled(found, test, level)
    yield _paired(found, "looping", found.sampled.looping, level)
    yield _paired(found, "formats", found.sampled.formats, level)
    if found.acceptance is None:
        yield _made(found, "acceptance", None, None, "share", 0, 0, 0, reason=no_acceptance)
    else:
        yield _paired(found, "acceptance", found.acceptance.compared, level)


def _paired(found: Answers, name: str, one: Paired, level: float, side: str = "two-sided") -> TestMade:
    needs = discordant_needed(level, "greater" if side == "greater" else "two-sided")
    return _made(
        found, name, one.p, one.difference.value, "share", one.cases, one.cases, one.cases, needs_cases=needs,
        reason=one.reason,
    )  # fmt: skip


def _sampled(found: Answers, test: QualityTest, level: float) -> TestMade:
    return _made(
        found, test.name, test.p, test.value, test.unit, test.n_baseline, test.n_candidate, test.groups,
        detectable=test.detectable(level), reason=test.reason,
    )  # fmt: skip


def _made(
    found: Answers,
    name: str,
    p: float | None,
    value: float | None,
    unit: str,
    n_baseline: int,
    n_candidate: int,
    groups: int,
    detectable: float | None = None,
    needs_cases: int | None = None,
    reason: str | None = None,
) -> TestMade:
    return TestMade(
        arm=found.arm, name=name, p=p, adjusted_p=found.tests.adjusted.get(name), alarm=name in found.tests.alarms,
        value=value, unit=unit, n_baseline=n_baseline, n_candidate=n_candidate, groups=groups, detectable=detectable,
        needs_cases=needs_cases, reason=reason,
    )  # fmt: skip


def known_rows(compared: Compared, evidence: Evidence) -> list[KnownCompared]:
    return [_known(found) for found in compared.answers] if evidence.known else []


def _known(found: Answers) -> KnownCompared:
    """A case is right in an arm where most of its passes are."""
    base, other = ({case: float(np.mean(v)) > 0.5 for case, v in right.items()} for right in found.right)
    common = [case for case in base if case in other]
    split: dict[tuple[bool, bool], list[str]] = {}
    for case in common:
        split.setdefault((base[case], other[case]), []).append(case)
    neither = len(split.get((False, False), ()))
    nothing = "no case was right in either arm: says nothing" if common and neither == len(common) else None
    return KnownCompared(
        arm=found.arm,
        cases=len(common),
        both=len(split.get((True, True), ())),
        baseline_only=split.get((True, False), []),
        candidate_only=split.get((False, True), []),
        neither=neither,
        reason=nothing if common else "no known answer was asked of both arms",
    )


def acceptance_rows(
    compared: Compared, reference_run: str | None, missing: Mapping[str, str]
) -> list[AcceptanceCompared]:
    rows = []
    for found in compared.answers:
        one = found.acceptance
        if one is None:
            rows.append(
                AcceptanceCompared(arm=found.arm, reference_run=reference_run, reference=None, now=None, direction=None,
                                   p=None, cases=0, reason=missing.get(found.arm, _NO_ACCEPTANCE))
            )  # fmt: skip
            continue
        rows.append(
            AcceptanceCompared(
                arm=found.arm, reference_run=reference_run, reference=one.reference.value, now=one.now.value,
                direction=one.direction, p=one.compared.p, cases=one.compared.cases, reason=one.compared.reason,
            )
        )  # fmt: skip
    return rows
