"""The baseline point over the time of the sweep: what changed by itself (docs/sweeps.md, "Drift")."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from loadgen.analyze.statistics import LEVEL
from loadgen.analyze.statistics.resample import t_of
from loadgen.analyze.summary import Interval
from loadgen.analyze.sweep.models import Drift, DriftPoint, PointResult
from loadgen.analyze.sweep.numbers import absent

METRICS: Mapping[str, str] = {
    "net_tokens_per_s": "net throughput",
    "tpot_s_p50": "median time per token",
    "ttft_s_p50": "median time to first token",
}
#: Visits that a line through logarithms needs to have an interval.
LEAST = 3
#: What is worth a sentence: such a change is as large as the gains that are looked for.
NOTABLE = 0.05


def drift_of(points: Sequence[PointResult]) -> list[Drift]:
    """Of every arm of the baseline point, where it was visited at least twice."""
    visits = [p for p in points if p.baseline and p.state == "done" and p.at_s is not None]
    arms = list(dict.fromkeys(arm for p in visits for of_arm in p.numbers.values() for arm in of_arm))
    return [found for arm in arms for metric in METRICS if (found := _drift(metric, arm, visits)) is not None]


def _drift(metric: str, arm: str, visits: Sequence[PointResult]) -> Drift | None:
    told = [(p.at_s or 0.0, p.numbers.get(metric, {}).get(arm)) for p in visits]
    known = sorted((at_s, one.value) for at_s, one in told if one is not None and one.value is not None)
    if len(known) < 2 or min(value for _, value in known) <= 0:
        return None
    change = _change(known)
    shown = None if change.low is None or change.high is None else not change.low <= 1.0 <= change.high
    return Drift(
        metric=metric,
        arm=arm,
        points=[DriftPoint(at_s=at_s, value=value) for at_s, value in known],
        change=change,
        significant=shown,
        sentence=_sentence(metric, arm, len(known), change, shown),
    )


def _change(known: Sequence[tuple[float, float]]) -> Interval:
    """exp(slope × time) of a least-squares line through the logarithms, from the first to the last visit."""
    at, logs = np.array([a for a, _ in known]), np.log([v for _, v in known])
    span, n = float(at[-1] - at[0]), len(known)
    if span <= 0:
        return absent("all visits began at the same time")
    centred = at - at.mean()
    spread = float((centred**2).sum())
    slope = float((centred * logs).sum()) / spread
    made = Interval(
        value=math.exp(slope * span), n=n, source="client", unit="visits", method="line through the logarithms",
        reason=f"not enough data: an interval needs {LEAST} visits, there are {n}", needs_n=LEAST,
    )  # fmt: skip
    if n < LEAST:
        return made
    rest = logs - logs.mean() - slope * centred
    # t of n - 2 degrees of freedom: `t_of` takes the number of observations of a mean, one more
    half = t_of(n - 1, LEVEL) * math.sqrt(float((rest**2).sum()) / (n - 2) / spread) * span
    limits = {"low": _exp(slope * span - half), "high": _exp(slope * span + half)}
    if None in limits.values():
        return made.model_copy(update={"reason": "the visits scatter too much for an interval"})
    return made.model_copy(update={**limits, "reason": None, "needs_n": None})


def _exp(x: float) -> float | None:
    return math.exp(x) if abs(x) < 50 else None


def _sentence(metric: str, arm: str, n: int, change: Interval, shown: bool | None) -> str:
    what = f"{METRICS[metric]} of {arm} at the baseline point"
    if change.value is None:
        return f"{what}: {change.reason}"
    moved = f"{(change.value - 1) * 100:+.1f} % over {n} visits"
    if change.low is None or change.high is None:
        return f"{what} changed by {moved}; too few visits to tell drift from noise"
    between = f"95 % interval {(change.low - 1) * 100:+.1f} to {(change.high - 1) * 100:+.1f} %"
    if shown:
        return f"{what} drifted by {moved} ({between}): compare within a pass, not across the sweep"
    return f"{what} shows no drift ({moved}, {between})"
