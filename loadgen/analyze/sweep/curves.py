"""Curves: one number of one arm along one axis, the other axes held, over the visits of every level."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from loadgen.analyze.statistics import LEVEL, log_ratio_t
from loadgen.analyze.statistics.types import MIN_PAIRS, Floats
from loadgen.analyze.summary import Interval
from loadgen.analyze.sweep.models import AxisValue, Curve, CurvePoint, PointResult, Where
from loadgen.analyze.sweep.numbers import SWEEP_METRICS, absent

SPEEDUP, KV_USAGE, SPEEDUP_DECODE, C = "speedup", "kv_usage", "speedup_decode", "c"

TASK_TYPE = "task_type"

#: Whether lower is better, of what is in no summary.
_BESIDE = {SPEEDUP: False, SPEEDUP_DECODE: False, C: True}


def curves_of(axes: Mapping[str, Sequence[AxisValue]], points: Sequence[PointResult]) -> list[Curve]:
    """Every metric of every arm along every axis of at least two values, at every setting of the others."""
    found: list[Curve] = []
    for axis, levels in axes.items():
        if len(levels) < 2:
            continue
        for where in settings(axes, axis):
            here = [p for p in points if all(p.values[name] == value for name, value in where.items())]
            arms = list(dict.fromkeys(arm for p in here for of_arm in p.numbers.values() for arm in of_arm))
            for metric in (*SWEEP_METRICS, KV_USAGE, SPEEDUP, SPEEDUP_DECODE, C):
                for arm in arms:
                    curve = _curve(axis, levels, where, metric, arm, here)
                    if any(at.value.value is not None for at in curve.points):
                        found.append(curve)
    return found


def task_curves(axes: Mapping[str, Sequence[AxisValue]], points: Sequence[PointResult]) -> list[Curve]:
    """The same of each task type of a mix, which stands in `where`; none where every point asks one task."""
    found: list[Curve] = []
    for task in dict.fromkeys(task for p in points for task in p.by_task):
        curves = curves_of(axes, [_of_task(p, task) for p in points if task in p.by_task])
        found += [curve.model_copy(update={"where": {**curve.where, TASK_TYPE: task}}) for curve in curves]
    return found


def _of_task(point: PointResult, task: str) -> PointResult:
    told = point.by_task[task]
    speedup = {} if told.speedup is None else {SPEEDUP: {point.arm: told.speedup}}
    return point.model_copy(update={"numbers": {**told.numbers, **speedup}})


def settings(axes: Mapping[str, Sequence[AxisValue]], without: str) -> list[Where]:
    """Every setting of the axes but one."""
    others = {name: values for name, values in axes.items() if name != without}
    return [dict(zip(others, values, strict=True)) for values in product(*others.values())]


def _curve(
    axis: str, levels: Sequence[AxisValue], where: Where, metric: str, arm: str, here: Sequence[PointResult]
) -> Curve:
    ordered = list(levels) if any(isinstance(v, str) for v in levels) else sorted(levels, key=float)
    spec = SWEEP_METRICS.get(metric)
    return Curve(
        axis=axis,
        where=where,
        metric=metric,
        arm=arm,
        unit="1" if spec is None else spec.unit,
        lower_is_better=_BESIDE.get(metric) if spec is None else spec.lower_is_better,
        points=[_at(level, metric, arm, [p for p in here if p.values[axis] == level]) for level in ordered],
    )


def _at(level: AxisValue, metric: str, arm: str, visits: Sequence[PointResult]) -> CurvePoint:
    told = [p.numbers.get(metric, {}).get(arm) for p in visits]
    values = [None if one is None else one.value for one in told]
    known = [one for one in told if one is not None and one.value is not None]
    if not known:
        reasons = [one.reason for one in told if one is not None and one.reason] + [
            p.reason for p in visits if p.reason
        ]
        return CurvePoint(level=level, value=absent(next(iter(reasons), "not visited")), visits=values)
    if len(known) == 1:
        return CurvePoint(level=level, value=known[0], visits=values)
    return CurvePoint(
        level=level, value=over_visits([one.value or 0.0 for one in known], known[0].source), visits=values
    )


def over_visits(values: Sequence[float], source: str) -> Interval:
    """Geometric mean of the visits and its t interval; arithmetic where a value is not above 0."""
    n, found = len(values), np.asarray(values, dtype=np.float64)
    if (found > 0).all():
        made = log_ratio_t(found, np.ones(n), source=source)
        reason = made.reason and f"not enough data: an interval needs {MIN_PAIRS} visits, there are {n}"
        return Interval(
            value=made.value, low=made.low, high=made.high, n=n, source=source, reason=reason, unit="visits",
            method="t interval on the logarithms of the visits", level=LEVEL, needs_n=made.needs_n,
        )  # fmt: skip
    mean = float(found.mean())
    return Interval(
        value=mean, n=n, source=source, unit="visits", method="mean of the visits",
        reason="a visit is not above 0: no interval",
    )  # fmt: skip


def matrix(axis: str, levels: Sequence[AxisValue], metric: str, arm: str, here: Sequence[PointResult]) -> Floats:
    """(levels, repeats), NaN where absent: visits of one pass stand in one column; several of a pass are their
    geometric mean."""
    repeats = 1 + max((p.repeat for p in here), default=0)
    table = np.full((len(levels), repeats), math.nan)
    for i, level in enumerate(levels):
        for repeat in range(repeats):
            told = [
                one.value
                for p in here
                if p.values[axis] == level and p.repeat == repeat
                if (one := p.numbers.get(metric, {}).get(arm)) is not None and one.value is not None
            ]
            if told:
                positive = min(told) > 0
                table[i, repeat] = math.exp(sum(map(math.log, told)) / len(told)) if positive else sum(told) / len(told)
    return table
