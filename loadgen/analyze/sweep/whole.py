"""A whole sweep to its summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from loadgen.analyze.sweep.curves import curves_of, task_curves
from loadgen.analyze.sweep.drifting import drift_of
from loadgen.analyze.sweep.findings import findings_of
from loadgen.analyze.sweep.models import MaxRateResult, PointResult, SweepSummary
from loadgen.analyze.sweep.points import PointRun, results_of
from loadgen.analyze.sweep.shapes import Shapes, shapes_of
from loadgen.plan import SweepPlan


def analyze_sweep(
    plan: SweepPlan,
    made: Sequence[PointRun],
    *,
    sweep_id: str,
    name: str,
    objective: str,
    seconds: float,
    max_rate: Sequence[MaxRateResult] = (),
    no_search: str = "",
) -> SweepSummary:
    """Curves over what was visited, and what they say. Pure; `seconds`: that the sweep has taken over all sessions;
    `no_search`: why there is no maximum rate."""
    points = results_of(made)
    done = [p for p in points if p.state == "done"]
    curves = curves_of(plan.axes, done)
    shapes = shapes_of(plan, done, made)
    drift = drift_of(points)
    conditions = _conditions(plan, made, points)
    summary = SweepSummary(
        sweep_id=sweep_id,
        name=name,
        objective=objective,
        plan_hash=plan.hash,
        finished=all(p.state in ("done", "failed") for p in points),
        axes=plan.axes,
        arms=list(dict.fromkeys(arm for p in done for of_arm in p.numbers.values() for arm in of_arm)),
        baseline=plan.baseline,
        totals=dict(Counter(p.state for p in points)),
        seconds=seconds,
        points=points,
        curves=curves,
        by_task=task_curves(plan.axes, done),
        knee=shapes.knee,
        stops_paying=shapes.stops_paying,
        best_k=shapes.best_k,
        cost=shapes.cost,
        advice=shapes.advice,
        decay=shapes.decay,
        max_rate=list(max_rate),
        drift=drift,
        findings=[],
        reasons=_reasons(plan, done, shapes, drift_there=bool(drift), no_search="" if max_rate else no_search),
        conditions=conditions,
    )
    return summary.model_copy(update={"findings": findings_of(summary)})


def _conditions(plan: SweepPlan, made: Sequence[PointRun], points: Sequence[PointResult]) -> dict[str, Any]:
    """What all runs have in common, from the first that counts; nothing is said of another setting."""
    first = next((m.summary for m in made if m.summary is not None), None)
    whole = dict(first.conditions) if first is not None else {}
    doubtful = [p.number for p in points if p.state == "done" and p.validity == "doubtful"]
    return {**whole, "axes": {name: list(values) for name, values in plan.axes.items()}, "doubtful_visits": doubtful}


def _reasons(
    plan: SweepPlan, done: Sequence[PointResult], shapes: Shapes, *, drift_there: bool, no_search: str
) -> dict[str, str]:
    reasons = dict(shapes.reasons)
    if not done:
        reasons["curves"] = "no visit has been measured"
    if not drift_there:
        reasons["drift"] = "the baseline point was not measured twice: drift cannot be seen"
    if no_search:
        reasons["max_rate"] = no_search
    return reasons
