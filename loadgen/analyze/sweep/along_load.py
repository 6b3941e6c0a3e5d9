"""Along concurrency or rate: the knee, and where speculation stops paying (docs/sweeps.md, "Methods")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from loadgen.analyze.columns import Floats
from loadgen.analyze.curves import Break, Knee, knee, stops_paying
from loadgen.analyze.summary import Interval
from loadgen.analyze.sweep.curves import SPEEDUP, matrix, settings
from loadgen.analyze.sweep.models import AxisValue, KneeResult, PointResult, StopsPaying, Where
from loadgen.analyze.sweep.words import at, limits
from loadgen.plan import SweepPlan

LOADS = ("concurrency", "rate")
WORDS = {"concurrency": "concurrency", "rate": "requests/s"}


def knees_of(plan: SweepPlan, done: Sequence[PointResult]) -> Iterator[KneeResult]:
    """Of every arm, at every setting of the other axes."""
    for axis, where, here, levels in _ladders(plan, done):
        for arm in _arms(here, "net_tokens_per_s"):
            throughput = matrix(axis, levels, "net_tokens_per_s", arm, here)
            latency = matrix(axis, levels, "total_time_s_p50", arm, here)
            found = knee(_floats(levels), throughput, latency)
            yield KneeResult(
                axis=axis,
                where=where,
                arm=arm,
                knee=_knee_interval(found),
                saturated=None if found.saturated is None else (found.saturated[0], float(levels[-1])),
                sentence=_knee_sentence(found, axis, arm, where, levels),
            )


def breaks_of(plan: SweepPlan, done: Sequence[PointResult]) -> Iterator[StopsPaying]:
    """Of every arm that has a speedup; not of the baseline's own setting, whose speedup is 1."""
    for axis, where, here, levels in _ladders(plan, done):
        if "k" in where and where["k"] == plan.baseline["k"]:
            continue
        for arm in _arms(here, SPEEDUP):
            with np.errstate(invalid="ignore"):
                found = stops_paying(_floats(levels), np.log(matrix(axis, levels, SPEEDUP, arm, here)))
            level = Interval(
                value=found.level, low=found.low, high=found.high, n=found.n, source="client", unit="visits",
                method=found.method, reason=found.reason,
            )  # fmt: skip
            sentence = _break_sentence(found, axis, arm, where, here)
            yield StopsPaying(axis=axis, where=where, arm=arm, level=level, sentence=sentence)


def _ladders(
    plan: SweepPlan, done: Sequence[PointResult]
) -> Iterator[tuple[str, Where, list[PointResult], list[AxisValue]]]:
    for axis in LOADS:
        if len(plan.axes.get(axis, ())) < 2:
            continue
        for where in settings(plan.axes, axis):
            here = [p for p in done if all(p.values[name] == value for name, value in where.items())]
            levels = sorted(plan.axes[axis], key=float)
            if here:
                yield axis, where, here, levels


def _arms(here: Sequence[PointResult], metric: str) -> list[str]:
    known = (arm for p in here for arm, one in p.numbers.get(metric, {}).items() if one.value is not None)
    return list(dict.fromkeys(known))


def _floats(levels: Sequence[AxisValue]) -> Floats:
    return np.array([float(level) for level in levels])


def _knee_interval(found: Knee) -> Interval:
    return Interval(
        value=found.level, low=found.low, high=found.high, n=found.n, source="client", unit="visits",
        method=found.method, reason=found.reason,
    )  # fmt: skip


def _knee_sentence(found: Knee, axis: str, arm: str, where: Where, levels: Sequence[AxisValue]) -> str:
    what = f"throughput of {arm}{at(where)}"
    if found.level is None:
        return f"{what}: no knee ({found.reason})"
    flat = "" if found.saturated is None else f", and is flat from {found.saturated[0]:.3g} to {found.saturated[1]:.3g}"
    return f"{what} bends at {WORDS[axis]} {found.level:.3g}{limits(found.low, found.high)}{flat}"


def _break_sentence(found: Break, axis: str, arm: str, where: Where, here: Sequence[PointResult]) -> str:
    tested = sorted(float(p.values[axis]) for p in here)
    if found.level is None:
        why = found.reason or "not within the tested range"
        return f"{arm}{at(where)} from {WORDS[axis]} {tested[0]:g} to {tested[-1]:g}: {why}"
    return f"speculation of {arm}{at(where)} stops paying at {WORDS[axis]} {found.level:.3g}" + limits(
        found.low, found.high
    )
