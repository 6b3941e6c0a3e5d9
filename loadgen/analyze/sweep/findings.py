"""Sentences of a sweep: each with its numbers, and under what they were measured (docs/sweeps.md, "Findings")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from loadgen.analyze.summary import Finding, Interval
from loadgen.analyze.sweep.drifting import NOTABLE
from loadgen.analyze.sweep.models import SweepSummary

Severity = Any


def findings_of(summary: SweepSummary) -> list[Finding]:
    """In the order of what a reader must know first: what failed, then what follows."""
    return [*_failed(summary), *_shapes(summary), *_drifting(summary)]


def _failed(summary: SweepSummary) -> Iterator[Finding]:
    lost = [p for p in summary.points if p.state == "failed"]
    if lost:
        first = (lost[0].reason or "").splitlines()[0]
        yield _finding(
            "sweep_points_failed", "warning",
            f"{len(lost)} of {len(summary.points)} visits failed and are in no curve; the first: {first}",
            {"failed": float(len(lost)), "visits": float(len(summary.points))}, {"visits": [p.number for p in lost]},
        )  # fmt: skip
    left = [p for p in summary.points if p.state in ("skipped", "pending", "interrupted")]
    if left:
        yield _finding(
            "sweep_incomplete", "info",
            f"{len(left)} of {len(summary.points)} visits are not made yet: specload sweep --resume makes them",
            {"left": float(len(left)), "visits": float(len(summary.points))}, {"visits": [p.number for p in left]},
        )  # fmt: skip


def _shapes(summary: SweepSummary) -> Iterator[Finding]:
    for knee in summary.knee:
        where = {"axis": knee.axis, "arm": knee.arm, **knee.where}
        yield _finding("sweep_knee", "info", knee.sentence, _of("level", knee.knee), where)
    for stops in summary.stops_paying:
        word = "warning" if stops.level.value is not None else "info"
        where = {"axis": stops.axis, "arm": stops.arm, **stops.where}
        yield _finding("sweep_stops_paying", word, stops.sentence, _of("level", stops.level), where)
    for best in summary.best_k:
        numbers = {"k": None if best.k is None else float(best.k), **_of("value", best.value)}
        yield _finding("sweep_best_k", "info" if best.k else "warning", best.sentence, numbers, best.where)
    for cost in summary.cost:
        numbers = {**_of("intercept", cost.intercept), **_of("per_draft", cost.per_draft)}
        yield _finding("sweep_step_cost", "info", cost.sentence, numbers, cost.where)
    for advice in summary.advice:
        numbers = {"k_max": float(advice.k_max), "best": None if advice.best is None else float(advice.best)}
        yield _finding("sweep_advice", "info", advice.sentence, numbers, advice.where)
    for decay in summary.decay:
        where = {"arm": decay.arm, "metric": decay.metric, **decay.where}
        yield _finding("sweep_decay", "info", decay.sentence, _of("per_doubling", decay.per_doubling), where)
    for rate in summary.max_rate:
        word = "info" if rate.state == "resolved" else "warning"
        yield _finding("sweep_max_rate", word, rate.sentence, _of("rate_per_s", rate.rate_per_s),
                       {"arm": rate.arm, "slo": rate.slo, **rate.where})  # fmt: skip


def _drifting(summary: SweepSummary) -> Iterator[Finding]:
    for drift in summary.drift:
        change = drift.change.value
        if drift.significant and change is not None and abs(change - 1) >= NOTABLE:
            where = {"arm": drift.arm, "metric": drift.metric, **summary.baseline}
            yield _finding("sweep_drift", "warning", drift.sentence, _of("change", drift.change), where)


def _of(name: str, found: Interval) -> dict[str, float | None]:
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}


def _finding(
    id_: str, severity: Severity, text: str, numbers: Mapping[str, float | None], conditions: Mapping[str, Any]
) -> Finding:
    return Finding(id=id_, text=text, numbers=dict(numbers), conditions=dict(conditions), severity=severity)
