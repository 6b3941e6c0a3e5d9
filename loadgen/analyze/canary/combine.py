"""Two arms' estimates to one, and bounds to an interval. Formulas: docs/canary.md, "Intervals"."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from loadgen.analyze.statistics.ratios import ratio_of_sums_clustered, share_interval
from loadgen.analyze.statistics.resample import t_of
from loadgen.analyze.statistics.types import LEVEL, Estimate, Floats, Ints


def nothing(reason: str, source: str, n: int = 0, unit: str = "requests") -> Estimate:
    return Estimate(None, None, None, n, unit, "", source, reason)


def ratio_of(canary: Estimate, baseline: Estimate) -> Estimate:
    """canary ÷ baseline, of two estimates made apart, neither below 0: their distances to the limits, in logarithms,
    are added in squares (MOVER; Donner and Zou 2012). A canary's 0 is a ratio of 0. n is the smaller one."""
    fewer = min(canary, baseline, key=lambda one: one.n)
    found = replace(fewer, value=None, low=None, high=None, method=f"ratio, MOVER; of each: {canary.method}")
    mine, theirs = _whole(canary), _whole(baseline)
    if mine is None or theirs is None:
        return _lacking(found, canary, baseline)
    if theirs[1] <= 0:
        return replace(found, reason="baseline: its interval holds 0, so there is no ratio", n=baseline.n)
    value, (c, low, high), (b, b_low, b_high) = mine[0] / theirs[0], mine, theirs
    if c <= 0:
        return replace(found, value=0.0, low=0.0, high=high / b_low, reason=None)
    below = math.hypot(math.log(c / low), math.log(b_high / b)) if low > 0 else math.inf
    above = math.hypot(math.log(high / c), math.log(b / b_low))
    return replace(found, value=value, low=value * math.exp(-below), high=value * math.exp(above), reason=None)


def difference_of(canary: Estimate, baseline: Estimate) -> Estimate:
    """canary - baseline, of two shares made apart (Newcombe 1998). n is of both."""
    method = f"difference of shares, Newcombe; of each: {canary.method}"
    found = replace(canary, value=None, low=None, high=None, n=canary.n + baseline.n, method=method)
    mine, theirs = _whole(canary), _whole(baseline)
    if mine is None or theirs is None:
        return _lacking(found, canary, baseline)
    value = mine[0] - theirs[0]
    below = math.hypot(mine[0] - mine[1], theirs[2] - theirs[0])
    above = math.hypot(mine[2] - mine[0], theirs[0] - theirs[1])
    return replace(found, value=value, low=value - below, high=value + above, reason=canary.reason or baseline.reason)


def _whole(one: Estimate) -> tuple[float, float, float] | None:
    """Value and limits; None where one of them is not known."""
    if one.value is None or one.low is None or one.high is None:
        return None
    return one.value, one.low, one.high


def _lacking(found: Estimate, canary: Estimate, baseline: Estimate) -> Estimate:
    name, one = ("canary", canary) if _whole(canary) is None else ("baseline", baseline)
    return replace(found, reason=f"{name}: {one.reason}", n=one.n, unit=one.unit, needs_n=one.needs_n)


def share_of(hits: Floats, trials: Floats, cluster: Ints, unit: str, source: str) -> Estimate:
    """sum(hits) ÷ sum(trials), clustered. Where all agree nothing about clustering can be seen: trials then count as
    independent, and `reason` says so. n counts trials."""
    found = ratio_of_sums_clustered(hits, trials, cluster, unit=unit, source=source, share=True)
    if found.low is None or found.value is None:
        return found
    total = float(np.sum(trials))
    if 0 < found.value < 1:
        return replace(found, n=round(total), unit="requests")
    low, high = share_interval(found.value, total, t_of(found.n, LEVEL), LEVEL)
    note = "all requests agree: they count as independent"
    return replace(found, low=low, high=high, n=round(total), unit="requests", reason=note)


def between(certain: Estimate, possible: Estimate) -> Estimate:
    """A rate of which the counts give bounds: the value is the lower bound, the interval reaches from the lower limit
    of the one to the upper limit of the other."""
    note = certain.reason
    if certain.value is not None and certain.value != possible.value:
        note = f"at least; at most {possible.value:.4g}"
    return replace(certain, high=possible.high, reason=note)
