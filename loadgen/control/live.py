"""Thresholds while the run goes on: three failing windows in a row end it. Pure; time is told.

A look at a running test has no interval: three windows in a row stand in for one (docs/verdict.md, "Live").
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf, isfinite
from typing import NamedTuple

from loadgen.control.types import Decision
from loadgen.plan import Segment
from loadgen.scenario import METRICS, Condition, Threshold

#: Times of one request that are known when it ends, in the order of `Sample.times`.
LIVE_TIMES = (
    "ttft_s",
    "ttft_from_due_s",
    "tpot_s",
    "total_time_s",
    "total_time_from_due_s",
    "non_stream_total_time_s",
)
#: A window is at least so long, and holds at least so many requests (of the baseline too, where it is compared).
WINDOW_S = 5.0
LEAST = 20
IN_A_ROW = 3
#: Requests of one side that a window keeps: the latest. While one side is not driven, the other's window grows.
KEPT = 5000


class Sample(NamedTuple):
    """One ended request of a measured segment. `times` as `LIVE_TIMES`, seconds: +∞ of a failed request, None where
    the request has no such time. `failed` None: our own drain cut it, which is no error of the server's."""

    segment: int
    task_type: str
    failed: bool | None
    times: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """What one window came to: `limit` is of the same unit as `value`, the baseline's part worked in."""

    value: float
    limit: float
    n: int


def value_of(values: Sequence[float], aggregate: str) -> float | None:
    """Nearest-rank percentile (+∞ counts), largest, or mean of the finite ones; None of nothing."""
    if aggregate in ("avg", "rate"):
        finite = [v for v in values if isfinite(v)]
        return sum(finite) / len(finite) if finite else None
    if not values:
        return None
    ordered = sorted(values)
    rank = len(ordered) if aggregate == "max" else ceil(round(float(aggregate[1:]) / 100 * len(ordered), 9))
    return ordered[max(rank, 1) - 1]


def look(condition: Condition, mine: Sequence[float], baseline: Sequence[float]) -> Seen | None:
    """One window's value and limit; None where a side has none."""
    value = value_of(mine, condition.aggregate)
    if condition.relative is None:
        return None if value is None else Seen(value, condition.limit, len(mine))
    base = value_of(baseline, condition.aggregate)
    if value is None or base is None:
        return None
    limit = condition.limit * base if condition.relative == "ratio" else base + condition.limit
    return Seen(value, limit, len(mine))


def breaks(condition: Condition, seen: Seen) -> bool:
    """Whether the value is beyond the limit."""
    if condition.op in ("<", "<="):
        return seen.value > seen.limit or (condition.op == "<" and seen.value == seen.limit < inf)
    return seen.value < seen.limit or (condition.op == ">" and seen.value == seen.limit)


def least_samples(condition: Condition) -> int:
    """Requests of a window without which its aggregate says nothing: a p(99) of 20 requests is their maximum."""
    if not condition.aggregate.startswith("p"):
        return LEAST
    return max(LEAST, ceil(round(1 / (1 - float(condition.aggregate[1:]) / 100), 9)))


class _Watch:
    """One condition on one arm."""

    def __init__(self, threshold: Threshold, condition: Condition, arm: str, baseline: str) -> None:
        self._threshold = threshold
        self._condition = condition
        self._arm = arm
        self._baseline = baseline
        self._labels = {key: value for key, value in threshold.where if key != "arm"}
        self._least = least_samples(condition)
        self._mine: deque[float] = deque(maxlen=KEPT)
        self._base: deque[float] = deque(maxlen=KEPT)
        self._begin_s = threshold.delay_abort_eval_s
        self._total = 0
        self._failing: list[Seen] = []

    def add(self, sample: Sample, segment: Segment, at_s: float) -> None:
        compared = segment.arm == self._baseline and self._condition.relative is not None
        if at_s < self._begin_s or not (segment.arm == self._arm or compared) or not self._chosen(sample, segment):
            return
        metric = self._threshold.metric
        value = sample.failed if metric == "error_share" else sample.times[LIVE_TIMES.index(metric)]
        if value is not None:
            (self._base if compared else self._mine).append(float(value))
            self._total += not compared

    def _chosen(self, sample: Sample, segment: Segment) -> bool:
        told = {
            "task_type": sample.task_type,
            "stage": segment.stage,
            "concurrency": str(segment.concurrency),
            "rate_per_s": "" if segment.rate_per_s is None else f"{segment.rate_per_s:g}",
        }
        return all(told[key] == value for key, value in self._labels.items())

    def failing(self, at_s: float) -> str | None:
        """Close the window if it is long enough; the sentence, once three in a row have failed."""
        compares = self._condition.relative is not None
        full = len(self._mine) >= self._least and (not compares or len(self._base) >= self._least)
        if not full or at_s - self._begin_s < WINDOW_S or self._total < (self._threshold.min_samples or 0):
            return None
        seen = look(self._condition, self._mine, self._base)
        self._mine.clear()
        self._base.clear()
        self._begin_s = at_s
        self._failing = [*self._failing, seen] if seen is not None and breaks(self._condition, seen) else []
        return self._sentence() if len(self._failing) >= IN_A_ROW else None

    def _sentence(self) -> str:
        unit = METRICS[self._threshold.metric].unit
        last = self._failing[-IN_A_ROW:]
        where = (
            self._threshold.where if self._threshold.selector("arm") else (*self._threshold.where, ("arm", self._arm))
        )
        name = Threshold(self._threshold.metric, where, (self._condition,)).named(self._condition)
        told = ", ".join(f"{_number(s.value, unit)} (limit {_number(s.limit, unit)}, n = {s.n})" for s in last)
        return f"the threshold {name} failed in {IN_A_ROW} live windows in a row: {told}"


class LiveThresholds:
    """The thresholds with `abort_on_fail`. `at_s` is seconds of run since its first measured segment began."""

    def __init__(self, thresholds: Iterable[Threshold], arms: Sequence[str], baseline: str) -> None:
        self._watches = [
            _Watch(threshold, condition, arm, baseline)
            for threshold in thresholds
            if threshold.abort_on_fail
            for condition in threshold.conditions
            for arm in _arms(threshold, arms, baseline)
        ]

    @property
    def any(self) -> bool:
        return bool(self._watches)

    def take(self, samples: Iterable[Sample], segments: Mapping[int, Segment], at_s: float) -> None:
        """What has ended since the last call."""
        for sample in samples:
            for watch in self._watches:
                watch.add(sample, segments[sample.segment], at_s)

    def decide(self, at_s: float) -> Decision:
        """Go on, or end the run: with the sentence that says which threshold failed, and by how much."""
        for watch in self._watches:
            reason = watch.failing(at_s)
            if reason is not None:
                return Decision("abort", reason)
        return Decision("continue")


def _arms(threshold: Threshold, arms: Sequence[str], baseline: str) -> list[str]:
    named = threshold.selector("arm")
    return [named] if named else [arm for arm in arms if arm != baseline or len(arms) == 1]


def _number(value: float, unit: str) -> str:
    return "∞" if value == inf else f"{value:.4g} {unit}".rstrip()
