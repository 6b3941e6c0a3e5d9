"""Mann-Whitney, Hodges-Lehmann and the common-language effect size: for windows that are not paired."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from loadgen.analyze.statistics.distributions import normal_cdf, normal_quantile
from loadgen.analyze.statistics.types import LEVEL, Estimate, Floats, MannWhitney

#: Up to this many values in the smaller sample p is exact, if there are no ties.
_EXACT_UP_TO = 8
_EXACT_PAIRS = 10_000
#: Values per sample that an interval needs: with fewer, no shift reaches two-sided 5 %.
_SMALLEST = 4


def mann_whitney(
    a: Floats, b: Floats, *, inflated: float = 1.0, level: float = LEVEL, source: str = "client"
) -> MannWhitney:
    """Two independent samples of finite values, one per window.

    `p`: two-sided; exact where a sample has at most 8 values and none are tied, else the normal approximation with
    corrections for ties and continuity (Mann and Whitney 1947). `hodges_lehmann`: median of all differences a - b, its
    interval from the same approximation. `cles`: P(a > b) + P(a = b) / 2, its interval by Newcombe's method 5 (2006).
    `inflated` (at least 1): by how much correlation from window to window inflates the variance; with it p is by the
    normal approximation, and both intervals are wider.
    """
    x, y = np.sort(np.asarray(a, dtype=np.float64)), np.sort(np.asarray(b, dtype=np.float64))
    if x.ndim != 1 or y.ndim != 1 or not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("two flat samples of finite values expected")
    n, m = len(x), len(y)
    of = f"{n} against {m} windows"
    shift = Estimate(None, None, None, min(n, m), "windows", f"Hodges-Lehmann, {of}", source, level=level)
    cles = replace(shift, method=f"common-language effect size, {of}")
    if min(n, m) == 0:
        nothing = "one of the samples is empty"
        shift, cles = (replace(empty, reason=nothing, needs_n=_SMALLEST) for empty in (shift, cles))
        return MannWhitney(None, shift, cles)
    u = float(np.searchsorted(y, x, side="left").sum() + np.searchsorted(y, x, side="right").sum()) / 2
    shift = replace(shift, value=(_difference(x, y, (n * m + 1) // 2) + _difference(x, y, n * m // 2 + 1)) / 2)
    cles = replace(cles, value=u / (n * m))
    if min(n, m) < _SMALLEST:
        short = f"not enough data: an interval needs at least {_SMALLEST} windows each, there are {min(n, m)}"
        shift, cles = (replace(known, reason=short, needs_n=_SMALLEST) for known in (shift, cles))
        return MannWhitney(_p(x, y, u, inflated), shift, cles)
    z = normal_quantile((1 + level) / 2) * math.sqrt(inflated)
    low, high = _newcombe(u / (n * m), n, m, z)
    return MannWhitney(_p(x, y, u, inflated), _with_interval(shift, x, y, z), replace(cles, low=low, high=high))


def _with_interval(shift: Estimate, x: Floats, y: Floats, z: float) -> Estimate:
    """The differences that leave as many outside as U would have at the two-sided limit."""
    n, m = len(x), len(y)
    outside = math.floor(n * m / 2 - z * math.sqrt(n * m * (n + m + 1) / 12))
    if outside < 1:
        short = f"not enough data for an interval at {shift.level:.4g}: every difference would lie inside"
        return replace(shift, reason=short, needs_n=min(n, m) + 1)
    return replace(shift, low=_difference(x, y, outside), high=_difference(x, y, n * m + 1 - outside))


def _p(x: Floats, y: Floats, u: float, inflated: float) -> float:
    n, m = len(x), len(y)
    _, ties = np.unique(np.concatenate([x, y]), return_counts=True)
    upper = max(u, n * m - u)
    if inflated == 1 and min(n, m) <= _EXACT_UP_TO and n * m <= _EXACT_PAIRS and ties.max() == 1:
        ways = _ways(n, m)
        return min(2 * sum(ways[round(upper) :]) / sum(ways), 1.0)
    size = n + m
    variance = inflated * n * m / 12 * (size + 1 - float((ties**3 - ties).sum()) / (size * (size - 1)))
    if variance <= 0:
        return 1.0
    return min(2 * normal_cdf(-(upper - n * m / 2 - 0.5) / math.sqrt(variance)), 1.0)


def _ways(n: int, m: int) -> list[int]:
    """In how many orders of n and m values U is 0, 1, ...: the Gaussian binomial coefficient, factor by factor."""
    size = n * m + 1
    ways = [1] + [0] * (size - 1)
    for i in range(1, min(n, m) + 1):
        for at in range(size - 1, max(n, m) + i - 1, -1):
            ways[at] -= ways[at - max(n, m) - i]
        for at in range(i, size):
            ways[at] += ways[at - i]
    return ways


def _difference(x: Floats, y: Floats, k: int) -> float:
    """The k-th smallest (1-based) of all differences x_i - y_j, without making them: bisection on its value."""

    def reached(limit: float) -> bool:
        return len(x) * len(y) - int(np.searchsorted(y, x - limit).sum()) >= k

    low, high = float(x[0] - y[-1]), float(x[-1] - y[0])
    found = low if reached(low) else _bisect(reached, low, high)
    # x - limit rounds: the bisection may end a hair beside the difference itself
    at = np.searchsorted(y, x - found)
    near = np.concatenate([x - y[np.minimum(at, len(y) - 1)], x - y[np.maximum(at - 1, 0)]])
    return float(near[np.argmin(np.abs(near - found))])


def _bisect(reached: Callable[[float], bool], low: float, high: float) -> float:
    """The smallest number at which `reached` is true; it is false at `low` and true at `high`."""
    while True:
        at = (low + high) / 2
        if not low < at < high:
            return high
        if reached(at):
            high = at
        else:
            low = at


def _newcombe(theta: float, n: int, m: int, z: float) -> tuple[float, float]:
    """Limits t with |theta - t| = z sqrt(V(t)), V the variance of Hanley and McNeil at equal sizes (n + m) / 2."""
    each = (n + m) / 2 - 1

    def reach(t: float) -> float:
        return z * math.sqrt(t * (1 - t) * (1 + each * ((1 - t) / (2 - t) + t / (1 + t))) / (n * m))

    low = 0.0 if theta == 0 else _bisect(lambda t: t + reach(t) >= theta, 0.0, theta)
    high = 1.0 if theta == 1 else _bisect(lambda t: t - reach(t) >= theta, theta, 1.0)
    return low, high
