"""Means and shares over time blocks: a bootstrap of whole blocks."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from loadgen.analyze.statistics.ratios import effective_trials, share_interval
from loadgen.analyze.statistics.resample import by_block, draw_weights, middle, stretch, t_of
from loadgen.analyze.statistics.serial import inflation
from loadgen.analyze.statistics.types import LEVEL, MIN_BLOCKS, RESAMPLES, Estimate, Floats, Ints


def mean_bootstrap(
    values: Floats,
    block: Ints,
    *,
    seed: int,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    source: str = "client",
) -> Estimate:
    """Mean of `values` over all requests; n counts requests, an interval needs `MIN_BLOCKS` blocks.

    No value where one is infinite: with failures as +inf there is no mean.
    """
    x, index, blocks = by_block(values, block)
    found = _empty(len(x), "mean", blocks, resamples, level, source)
    if len(x) == 0:
        return replace(found, reason="no requests")
    if not np.isfinite(x).all():
        return replace(found, reason="the mean of values that contain failures (+inf) does not exist")
    value = float(x.mean())
    found = replace(found, value=value)
    if blocks < MIN_BLOCKS:
        return _too_few(found, blocks)
    sums, counts = _sums(index, x), _sums(index, np.ones(len(x)))
    low, high = middle(_resampled(sums, counts, resamples, seed))
    factor = stretch(blocks, level, inflation(sums - value * counts))
    # rounding of sums may put a point on the wrong side of the mean
    return replace(found, low=value - factor * max(value - low, 0.0), high=value + factor * max(high - value, 0.0))


def share_bootstrap(
    hit: Floats,
    block: Ints,
    *,
    seed: int,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    source: str = "client",
) -> Estimate:
    """Share of requests with `hit` = 1 (each 0 or 1): errors, requests within every SLO. n counts requests.

    Clopper-Pearson at the effective sample size that the bootstrap's variance gives (Korn and Graubard 1998), so that
    rare events have an interval too. Where all requests agree, nothing about clustering can be seen: they count as
    independent, and `reason` says so.
    """
    x, index, blocks = by_block(hit, block)
    if np.any((x != 0) & (x != 1)):
        raise ValueError("a hit is 0 or 1")
    found = _empty(len(x), "share; Clopper-Pearson at the effective sample size", blocks, resamples, level, source)
    if len(x) == 0:
        return replace(found, reason="no requests")
    value = float(x.mean())
    found = replace(found, value=value)
    if blocks < MIN_BLOCKS:
        return _too_few(found, blocks)
    sums, counts = _sums(index, x), _sums(index, np.ones(len(x)))
    inflated = inflation(sums - value * counts)
    variance = float(_resampled(sums, counts, resamples, seed).var()) * inflated * blocks / (blocks - 1)
    trials = effective_trials(value, variance, most=len(x), when_unseen=len(x))
    low, high = share_interval(value, trials, t_of(blocks, level, inflated), level)
    note = None if 0 < value < 1 else "all requests agree: they count as independent"
    return replace(found, low=low, high=high, reason=note)


def share_difference(
    mine: tuple[Floats, Ints],
    theirs: tuple[Floats, Ints],
    *,
    seed: int,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    source: str = "client",
) -> Estimate:
    """Share of `mine` - share of `theirs`, each (hits, blocks) as for `share_bootstrap`, over all requests of each.

    Newcombe's limits (1998, method 10) from each share's own Clopper-Pearson interval at its effective sample size:
    the distances to the four limits are added in squares. So it has a width also where nobody failed. Arms whose
    shares rise and fall together get an interval that is too wide, never too narrow. n counts requests of both.
    """
    one, other = (
        share_bootstrap(hit, block, seed=seed, resamples=resamples, level=level, source=source)
        for hit, block in (mine, theirs)
    )
    method = f"difference of shares, Newcombe; of each: {one.method}"
    found = replace(one, value=None, low=None, high=None, n=one.n + other.n, method=method)
    reason = one.reason if one.reason == other.reason else "; ".join(r for r in (one.reason, other.reason) if r)
    if one.value is None or other.value is None:
        return replace(found, reason=reason)
    value = one.value - other.value
    if one.low is None or one.high is None or other.low is None or other.high is None:
        lacking = one if one.low is None else other
        return replace(found, value=value, reason=reason, n=lacking.n, unit=lacking.unit, needs_n=lacking.needs_n)
    below = math.hypot(one.value - one.low, other.high - other.value)
    above = math.hypot(one.high - one.value, other.value - other.low)
    return replace(found, value=value, low=value - below, high=value + above, reason=reason)


def none_in(seconds: float, *, level: float = LEVEL, source: str = "client") -> Estimate:
    """Events per second of which not one came in `seconds`: 0, with the exact upper Poisson limit -ln(tail) ÷ seconds.

    n counts events. They count as independent: of none that came no clustering can be seen."""
    high = -math.log((1 - level) / 2) / seconds
    reason = f"not one in {seconds:.4g} s: they count as independent"
    return Estimate(0.0, 0.0, high, 0, "events", "exact Poisson limit", source, reason, level)


def _sums(index: Ints, x: Floats) -> Floats:
    return np.bincount(index, weights=x).astype(np.float64)


def _resampled(sums: Floats, counts: Floats, resamples: int, seed: int) -> Floats:
    weights = draw_weights(len(sums), resamples, seed)
    return np.asarray((weights @ sums) / (weights @ counts))


def _empty(n: int, what: str, blocks: int, resamples: int, level: float, source: str) -> Estimate:
    method = f"{what}; bootstrap of {blocks} blocks, {resamples} resamples"
    return Estimate(None, None, None, n, "requests", method, source, level=level)


def _too_few(found: Estimate, blocks: int) -> Estimate:
    reason = f"not enough data: an interval needs at least {MIN_BLOCKS} blocks, there are {blocks}"
    return replace(found, reason=reason, n=blocks, unit="blocks", needs_n=MIN_BLOCKS)
