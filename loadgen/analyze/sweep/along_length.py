"""Along the input length: how speed, KV use and acceptance decay, and the drafter's own limit (docs/sweeps.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from loadgen.analyze.curves import Limit, Slope, decay, drafter_limit
from loadgen.analyze.summary import Interval
from loadgen.analyze.sweep.curves import matrix, settings
from loadgen.analyze.sweep.models import DecayResult, PointResult, Where
from loadgen.analyze.sweep.words import at, limits
from loadgen.plan import SweepPlan

AXIS = "input_len"


@dataclass(frozen=True)
class _What:
    """`relative`: a slope is a share of the number, else points of it."""

    name: str
    relative: bool


METRICS: Mapping[str, _What] = {
    "generation_speed_p50": _What("generation speed", True),
    "ttft_s_p50": _What("time to first token", True),
    "kv_usage": _What("use of the KV cache", True),
    "acceptance_rate": _What("acceptance", False),
}


def decays_of(plan: SweepPlan, done: Sequence[PointResult]) -> Iterator[DecayResult]:
    """Of every arm, at every setting of the other axes."""
    levels = sorted(plan.axes.get(AXIS, ()), key=float)
    if len(levels) < 2:
        return
    lengths = np.array([float(level) for level in levels])
    for where in settings(plan.axes, AXIS):
        here = [p for p in done if all(p.values[name] == value for name, value in where.items())]
        for metric, what in METRICS.items():
            for arm in dict.fromkeys(arm for p in here for arm in p.numbers.get(metric, {})):
                values = matrix(AXIS, levels, metric, arm, here)
                if np.isfinite(values).any(axis=1).sum() < 2:
                    continue
                if what.relative:
                    values = np.where(values > 0, values, np.nan)
                doubling = decay(lengths, values, relative=what.relative)
                limit = drafter_limit(lengths, values) if metric == "acceptance_rate" else None
                yield DecayResult(
                    where=where,
                    arm=arm,
                    metric=metric,
                    per_doubling=_interval(doubling),
                    per_1k_tokens=_interval(decay(lengths, values, per="1k_tokens", relative=what.relative)),
                    limit=None if limit is None else _limit(limit),
                    sentence=_sentence(doubling, limit, metric, arm, where),
                )


def _interval(found: Slope) -> Interval:
    return Interval(
        value=found.value, low=found.low, high=found.high, n=found.n, source="client", unit="visits",
        method=f"{found.method}; {'share of the number' if found.relative else 'points of it'}", reason=found.reason,
    )  # fmt: skip


def _limit(found: Limit) -> Interval:
    return Interval(
        value=found.first_without, low=found.last_accepting, high=found.first_without, n=1, source="client",
        unit="levels", method="acceptance about 0 from some length on", reason=found.reason,
    )  # fmt: skip


def _sentence(found: Slope, limit: Limit | None, metric: str, arm: str, where: Where) -> str:
    what = METRICS[metric]
    start = f"{what.name} of {arm}{at(where)}"
    if found.value is None:
        return f"{start}: {found.reason}"
    unit = "%" if what.relative else "points"
    low, high = (None if v is None else 100 * v for v in (found.low, found.high))
    text = f"{start} changes by {100 * found.value:+.3g} {unit} each time the input doubles{limits(low, high)}"
    if limit is not None:
        text += f"; the drafter's limit lies between {limit.last_accepting:g} and {limit.first_without:g} input tokens"
    return text
