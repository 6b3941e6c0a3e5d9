"""What was done at a point, and its run's summary, to the point's result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from loadgen.analyze.summary import G, Interval, Summary
from loadgen.analyze.sweep.from_runs import kv_usage
from loadgen.analyze.sweep.models import PointResult, PointState, TaskNumbers
from loadgen.analyze.sweep.numbers import SWEEP_METRICS, absent, numbers_of, whole_rows
from loadgen.plan import SweepPoint
from loadgen.record import RunData

BY_PASS = "against the baseline's point of the same pass: runs made one after the other"
_TASK_METRICS = ("net_tokens_per_s", "tpot_s_mean", "tpot_s_p95", "ttft_s_p95", "acceptance_rate", "e_decode")


@dataclass(frozen=True)
class PointRun:
    """One visit: its place in the plan, what became of it, and the summary of its run where that counts. `run`: its
    records, where something is taken from them. `arm`: as in PointResult."""

    number: int
    point: SweepPoint
    arm: str
    state: PointState
    reason: str | None = None
    directory: str | None = None
    run_id: str | None = None
    at_s: float | None = None
    took_s: float | None = None
    summary: Summary | None = None
    run: RunData | None = None


def results_of(points: Sequence[PointRun]) -> list[PointResult]:
    """In the order they were driven."""
    alone = [_alone(made) for made in points]
    return [_beside(result, alone) for result in alone]


def _alone(made: PointRun) -> PointResult:
    point, summary = made.point, made.summary
    result = PointResult(
        number=made.number,
        index=point.index,
        repeat=point.repeat,
        visit=point.visit,
        values=point.values,
        baseline=point.baseline,
        state=made.state,
        reason=made.reason,
        directory=made.directory,
        run_id=made.run_id,
        arm=made.arm,
        at_s=made.at_s,
        took_s=made.took_s,
    )
    if summary is None:
        return result
    update: dict[str, object] = {
        "validity": summary.validity.state,
        "numbers": numbers_of(summary),
        "per_position": {name: arm.overall.speculation.per_position for name, arm in summary.arms.items()},
        "by_task": _by_task(summary, made.arm),
    }
    if made.run is not None and "input_len" in point.values:
        usage = {name: kv_usage(made.run, name) for name in summary.arms}
        update["numbers"] = {**numbers_of(summary), "kv_usage": usage}
    rows = whole_rows(summary)
    for row in rows:
        if row.candidate == made.arm:
            update |= {"speedup": row.speedup.value, "e_decode": row.e_decode, "c": row.c}
    if rows:
        beside: dict[str, dict[str, Interval]] = {
            "speedup": {row.candidate: row.speedup.value for row in rows},
            "speedup_decode": {row.candidate: row.speedup_decode for row in rows},
            "c": {row.candidate: row.c for row in rows},
        }
        update["numbers"] = {**cast("dict[str, dict[str, Interval]]", update["numbers"]), **beside}
    return result.model_copy(update=update)


def _by_task(summary: Summary, arm: str) -> dict[str, TaskNumbers]:
    """Of a mix of several tasks; a single task is the point itself."""
    groups: dict[str, dict[str, G]] = {}
    for name, of_arm in summary.arms.items():
        for group in of_arm.by:
            if group.task_type is not None and _only_task(group):
                groups.setdefault(group.task_type, {})[name] = group
    speedups = {}
    if isinstance(summary.comparison, list):
        speedups = {
            r.task_type: r.speedup.value
            for r in summary.comparison
            if r.candidate == arm and r.task_type and (r.input_segment, r.output_segment) == (None, None)
        }
    if len(groups) < 2:
        return {}
    return {
        task: TaskNumbers(
            numbers={m: {name: SWEEP_METRICS[m].get(group) for name, group in arms.items()} for m in _TASK_METRICS},
            speedup=speedups.get(task),
        )
        for task, arms in groups.items()
    }


def _only_task(group: G) -> bool:
    others = (group.input_segment, group.output_segment, group.stage, group.temperature, group.top_p)
    return all(other is None for other in others)


def _beside(result: PointResult, all_results: Sequence[PointResult]) -> PointResult:
    """A run of one arm is set beside the run of the same pass in which only k is the baseline's."""
    if result.state != "done" or result.speedup is not None:
        return result
    if "k" not in result.values:
        reason = "the run has one arm and k is no axis: there is nothing to compare it with"
        return result.model_copy(update={"speedup": absent(reason)})
    base_k = next(r.values["k"] for r in all_results if r.baseline)
    wanted = {**result.values, "k": base_k}
    found = [r for r in all_results if r.values == wanted and r.repeat == result.repeat and r.state == "done"]
    speedup = _ratio(result, found, "net_tokens_per_s")
    update: dict[str, object] = {"speedup": speedup}
    e, decode = _value(result, "e_decode"), _ratio(result, found, "tpot_s_mean", upside_down=True)
    own_e = result.numbers["e_decode"][result.arm]
    update["e_decode"] = own_e
    base_e = [_value(r, "e_decode") or 1.0 for r in found]
    if e is None or decode.value is None:
        update["c"] = absent((own_e.reason if e is None else decode.reason) or "no tokens per step")
    else:
        mean_e = math.exp(sum(math.log(b) for b in base_e) / len(base_e))
        c = e / mean_e / decode.value
        update["c"] = Interval(
            value=c, n=1, source=own_e.source, unit="visits", method=f"E ÷ decode speedup, {BY_PASS}"
        )
    beside = {"speedup": speedup, "speedup_decode": decode, "c": cast("Interval", update["c"])}
    update["numbers"] = {**result.numbers, **{name: {result.arm: one} for name, one in beside.items()}}
    return result.model_copy(update=update)


def _ratio(result: PointResult, base: Sequence[PointResult], metric: str, upside_down: bool = False) -> Interval:
    """Of one visit, so without an interval: that comes from the visits together."""
    own, theirs = _value(result, metric), [v for r in base if (v := _value(r, metric)) is not None]
    if own is None or own <= 0:
        return absent(f"{metric} of this visit is not known")
    if not theirs or min(theirs) <= 0:
        return absent("the baseline's point of the same pass was not measured")
    logs = math.log(own) - sum(math.log(value) for value in theirs) / len(theirs)
    value = math.exp(-logs if upside_down else logs)
    return Interval(
        value=value, n=1, source="client", unit="visits", method=BY_PASS,
        reason="one visit has no interval: see the curve over the visits",
    )  # fmt: skip


def _value(result: PointResult, metric: str) -> float | None:
    found = result.numbers.get(metric, {}).get(result.arm)
    return None if found is None else found.value
