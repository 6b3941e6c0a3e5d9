"""Ratios: of paired blocks, and of sums over clusters."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from loadgen.analyze.statistics.distributions import beta_quantile, normal_quantile
from loadgen.analyze.statistics.resample import t_of
from loadgen.analyze.statistics.serial import inflation_if_shown
from loadgen.analyze.statistics.types import LEVEL, MIN_CLUSTERS, MIN_PAIRS, Estimate, Floats, Ints


def log_ratio_t(candidate: Floats, baseline: Floats, level: float = LEVEL, *, source: str = "client") -> Estimate:
    """Geometric mean of candidate ÷ baseline over paired blocks, one number per block and arm, in order of time.

    t interval on the log-ratios, which needs `MIN_PAIRS` blocks. n counts blocks. No value where a number is not
    above 0 or not finite: a block without it cannot be left out without choosing the result.
    """
    c, b = np.asarray(candidate, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
    if c.ndim != 1 or c.shape != b.shape:
        raise ValueError(f"one number per block and arm expected, not {c.shape} and {b.shape}")
    n = len(c)
    found = Estimate(None, None, None, n, "blocks", f"t interval on {n} paired log-ratios", source, level=level)
    if n == 0:
        return replace(found, reason="no paired blocks", needs_n=MIN_PAIRS)
    usable = np.isfinite(c) & np.isfinite(b) & (c > 0) & (b > 0)
    if not usable.all():
        return replace(found, reason=f"{n - int(usable.sum())} of {n} blocks have no positive number in both arms")
    logs = np.log(c) - np.log(b)
    centre = float(logs.mean())
    found = replace(found, value=math.exp(centre))
    if n < MIN_PAIRS:
        reason = f"not enough data: an interval needs at least {MIN_PAIRS} paired blocks, there are {n}"
        return replace(found, reason=reason, needs_n=MIN_PAIRS)
    inflated = inflation_if_shown(logs)
    half = t_of(n, level, inflated) * float(logs.std(ddof=1)) * math.sqrt(inflated / n)
    if inflated > 1:
        found = replace(found, method=f"{found.method}, widened: they are correlated from block to block")
    return replace(found, low=math.exp(centre - half), high=math.exp(centre + half))


def ratio_of_sums_clustered(
    numerator: Floats,
    denominator: Floats,
    cluster: Ints,
    *,
    level: float = LEVEL,
    unit: str = "cases",
    source: str = "per_request",
    share: bool | None = None,
) -> Estimate:
    """sum(numerator) ÷ sum(denominator); all rows of one `cluster` (case) together are one observation.

    Acceptance: accepted and drafted tokens of each request, clustered by case. n counts clusters with a denominator
    above 0; an interval needs `MIN_CLUSTERS` of them. Variance by leaving out one cluster at a time (jackknife).
    `share`: the numerator is counted among the denominator (None: where it is not above it in any cluster). A share
    gets the Clopper-Pearson interval at the effective sample size, which stays inside [0, 1] (Korn and Graubard 1998);
    another ratio, such as a rate per second, a t interval on its logarithm.
    """
    top, bottom = _by_cluster(numerator, denominator, cluster)
    n, whole = len(top), float(bottom.sum())
    found = Estimate(None, None, None, n, unit, "", source, level=level)
    if n == 0:
        return replace(found, method="ratio of sums", reason="the denominator is 0", needs_n=MIN_CLUSTERS)
    value = float(top.sum()) / whole
    is_share = bool(np.all((top >= 0) & (top <= bottom))) if share is None else share
    kind = "Clopper-Pearson at the effective sample size" if is_share else "t interval on the logarithm"
    found = replace(found, value=value, method=f"ratio of sums clustered by {n} {unit}; {kind}")
    if n < MIN_CLUSTERS:
        reason = f"not enough data: an interval needs at least {MIN_CLUSTERS} {unit}, there are {n}"
        return replace(found, reason=reason, needs_n=MIN_CLUSTERS)
    variance = _jackknife(top, bottom)
    t = t_of(n, level)
    if is_share:
        trials = effective_trials(value, variance, most=whole, when_unseen=n)
        low, high = share_interval(value, trials, t, level)
        note = None if 0 < value < 1 else f"every one of {n} {unit} agrees: each counts as one trial"
        return replace(found, low=low, high=high, reason=note)
    if value <= 0:
        return replace(found, reason="a ratio of 0 or below has no logarithm")
    half = t * math.sqrt(variance) / value
    return replace(found, low=value * math.exp(-half), high=value * math.exp(half))


def _jackknife(top: Floats, bottom: Floats) -> float:
    """Variance of the ratio of sums. Unlike the linearised one it does not fall short with unequal clusters."""
    n = len(top)
    without = (top.sum() - top) / (bottom.sum() - bottom)
    return float(np.square(without - without.mean()).sum()) * (n - 1) / n


def _by_cluster(numerator: Floats, denominator: Floats, cluster: Ints) -> tuple[Floats, Floats]:
    top, bottom = np.asarray(numerator, dtype=np.float64), np.asarray(denominator, dtype=np.float64)
    if top.ndim != 1 or not top.shape == bottom.shape == np.shape(cluster):
        raise ValueError(f"rows do not match: {top.shape}, {bottom.shape}, {np.shape(cluster)}")
    if not (np.isfinite(top).all() and np.isfinite(bottom).all()) or np.any(bottom < 0):
        raise ValueError("numerators and denominators are finite, denominators at least 0")
    _, index = np.unique(cluster, return_inverse=True)
    tops = np.bincount(index, weights=top).astype(np.float64)
    bottoms = np.bincount(index, weights=bottom).astype(np.float64)
    used = bottoms > 0
    return tops[used], bottoms[used]


def effective_trials(share: float, variance: float, *, most: float, when_unseen: float) -> float:
    """Independent trials that would have this variance, at most `most`; `when_unseen` where there is none to see."""
    if variance <= 0 or not 0 < share < 1:
        return when_unseen
    return min(share * (1 - share) / variance, most)


def share_interval(share: float, trials: float, t: float, level: float) -> tuple[float, float]:
    """Clopper-Pearson at `trials`, reduced by (z / t)^2 for a variance estimated from few blocks."""
    z = normal_quantile((1 + level) / 2)
    if 0 < share < 1:
        trials = max(trials * (z / t) ** 2, 1.0)
    hits, tail = share * trials, (1 - level) / 2
    low = 0.0 if share <= 0 else beta_quantile(tail, hits, trials - hits + 1)
    high = 1.0 if share >= 1 else beta_quantile(1 - tail, hits + 1, trials - hits)
    return low, high
