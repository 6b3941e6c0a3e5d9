"""Intervals for what the benchmarks compare. Seeded: the same samples give the same interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, t

Floats = NDArray[np.float64]


def quantile_interval(values: Floats, q: float, level: float = 0.95) -> tuple[float, float, float]:
    """(low, value, high) of a quantile by nearest rank; the interval is distribution-free, by order statistics.

    ValueError where there is no sample. The bounds are the smallest and largest where there are too few."""
    n = len(values)
    if not n:
        raise ValueError("no sample")
    ordered = np.sort(values)
    low = int(binom.ppf((1 - level) / 2, n, q)) - 1
    high = int(binom.ppf((1 + level) / 2, n, q))
    rank = min(n - 1, max(0, int(np.ceil(q * n)) - 1))
    return float(ordered[max(0, low)]), float(ordered[rank]), float(ordered[min(n - 1, high)])


def ratio_interval(top: Sequence[float], bottom: Sequence[float], draws: int = 4000) -> tuple[float, float, float]:
    """(low, ratio of means, high): 95 %, both sides drawn anew from their runs. Few runs give a rough one."""
    if not top or not bottom:
        raise ValueError("no run")
    rng = np.random.default_rng(0)
    above, below = np.asarray(top), np.asarray(bottom)
    ratios = _means(rng, above, draws) / _means(rng, below, draws)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(low), float(above.mean() / below.mean()), float(high)


def shift_interval(first: Floats, second: Floats, draws: int = 1000) -> tuple[float, float, float]:
    """(low, median of second − median of first, high): 95 %, bootstrap of independent samples."""
    rng = np.random.default_rng(0)
    medians = [np.median(rng.choice(side, (draws, len(side))), axis=1) for side in (first, second)]
    low, high = np.quantile(medians[1] - medians[0], [0.025, 0.975])
    return float(low), float(np.median(second) - np.median(first)), float(high)


def mean_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float, float]:
    """(low, mean, high), Student's. ValueError of fewer than two values."""
    n = len(values)
    if n < 2:
        raise ValueError("an interval of a mean needs two values")
    mean = float(np.mean(values))
    half = float(t.ppf((1 + level) / 2, n - 1) * np.std(values, ddof=1) / np.sqrt(n))
    return mean - half, mean, mean + half


def growth(at: Sequence[float], values: Sequence[float]) -> tuple[float, float, float]:
    """(median of the second quarter of the time, median of the last one, largest after the first quarter): what a
    sampled level did after warm-up."""
    if len(at) < 8:
        raise ValueError("fewer than 8 samples")
    share = (np.asarray(at) - at[0]) / max(1e-9, at[-1] - at[0])
    quarter = np.minimum(3, np.floor(share * 4)).astype(int)
    levels = np.asarray(values, dtype=np.float64)
    medians = (float(np.median(levels[quarter == number])) for number in (1, 3))
    return (*medians, float(levels[quarter > 0].max()))


def abba(first: str, second: str, runs: int) -> list[str]:
    """At least `runs` of each, in the order A B B A: a drift of the machine falls on both alike."""
    blocks = max(1, -(-runs // 2))
    return [first, second, second, first] * blocks


def _means(rng: np.random.Generator, values: Floats, draws: int) -> Floats:
    means: Floats = rng.choice(values, (draws, len(values))).mean(axis=1)
    return means
