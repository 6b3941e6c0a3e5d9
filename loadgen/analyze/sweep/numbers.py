"""The numbers of one run that a sweep draws as curves: taken from its summary, computed nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from loadgen.analyze.summary import Absent, ComparisonRow, D, G, Interval, N, Rollback, Summary

OF_RUN = "of the run's summary"


@dataclass(frozen=True)
class SweepMetric:
    """`get`: from the group of one arm. `unit` "1" has none."""

    unit: str
    lower_is_better: bool | None
    get: Callable[[G], Interval]


def _n(found: N | Rollback, unit: str = "requests") -> Interval:
    """An interval that is only its value again is none."""
    low, high = found.low, found.high
    none = found.value is None or (low == found.value == high)
    if isinstance(found, Interval):
        return found
    return Interval(
        value=found.value, low=None if none else low, high=None if none else high, n=found.n, source=found.source,
        reason=found.reason or ("no interval is claimed for one run" if none and found.value is not None else None),
        unit=unit, method=OF_RUN,
    )  # fmt: skip


def _d(found: D, key: str) -> Interval:
    value: float | None = getattr(found, key)
    low, high = found.intervals.get(key, (None, None))
    reason = found.reasons.get(key, found.reason)
    if value is None and reason is None:
        reason = "too few samples"
    return Interval(
        value=value, low=low, high=high, n=found.n, source=found.source, reason=reason, unit=f"{found.per}s",
        method="nearest rank" if key != "mean" else "mean",
    )  # fmt: skip


#: Every number of a point, by name.
SWEEP_METRICS: Mapping[str, SweepMetric] = {
    "net_tokens_per_s": SweepMetric("tokens/s", False, lambda g: _n(g.throughput.net_tokens_per_s)),
    "goodput_requests_per_s": SweepMetric("1/s", False, lambda g: _n(g.throughput.goodput_requests_per_s)),
    "generation_speed_p50": SweepMetric("tokens/s", False, lambda g: _d(g.generation_speed, "p50")),
    "ttft_s_p50": SweepMetric("s", True, lambda g: _d(g.stream.ttft_s, "p50")),
    "ttft_s_p95": SweepMetric("s", True, lambda g: _d(g.stream.ttft_s, "p95")),
    "tpot_s_mean": SweepMetric("s", True, lambda g: _d(g.tpot_s, "mean")),
    "tpot_s_p50": SweepMetric("s", True, lambda g: _d(g.tpot_s, "p50")),
    "tpot_s_p95": SweepMetric("s", True, lambda g: _d(g.tpot_s, "p95")),
    "total_time_s_p50": SweepMetric("s", True, lambda g: _d(g.stream.total_time_s, "p50")),
    "total_time_s_p99": SweepMetric("s", True, lambda g: _d(g.stream.total_time_s, "p99")),
    "acceptance_rate": SweepMetric("1", False, lambda g: _n(g.speculation.acceptance_rate, "drafted tokens")),
    "e_decode": SweepMetric("tokens", False, lambda g: _n(g.speculation.e_decode, "steps")),
    "e_verified": SweepMetric("tokens", False, lambda g: _n(g.speculation.e_verified, "rounds")),
    "drafted_per_output_token": SweepMetric(
        "1", None, lambda g: _n(g.speculation.drafted_per_output_token, "output tokens")
    ),
    "rollback_rate": SweepMetric("1", True, lambda g: _n(g.speculation.rollback_rate, "rounds")),
    "running_requests": SweepMetric("requests", None, lambda g: _n(g.conditions.batch_size_mean, "scrapes")),
    "cache_hit_share": SweepMetric("1", None, lambda g: _n(g.conditions.cache_hit_share, "prompt tokens")),
}


def numbers_of(summary: Summary) -> dict[str, dict[str, Interval]]:
    """Metric, then arm."""
    arms = {name: arm.overall for name, arm in summary.arms.items()}
    return {name: {arm: metric.get(group) for arm, group in arms.items()} for name, metric in SWEEP_METRICS.items()}


def whole_rows(summary: Summary) -> list[ComparisonRow]:
    """Comparisons of the whole run, one a candidate."""
    if isinstance(summary.comparison, Absent):
        return []
    return [r for r in summary.comparison if (r.task_type, r.input_segment, r.output_segment) == (None, None, None)]


def absent(reason: str, unit: str = "visits", n: int = 0) -> Interval:
    return Interval(value=None, n=n, source="none", reason=reason, unit=unit, method="none")
