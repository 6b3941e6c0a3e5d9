"""Token lengths of requests: five distributions, and input/output pairs drawn together.

Each takes one number in (0, 1) a case, so a case's lengths depend on nothing but its own number.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from loadgen.plan.streams import Floats, below, exp, log, normal, normal_cdf
from loadgen.scenario import Empirical, Fixed, Length, LogNormal, Normal, PairedLengths, Uniform

#: Longer than any context; keeps extreme tails inside int64.
_LONGEST = 2**40

Lengths = NDArray[np.int64]


def draw_lengths(length: Length, u: Floats) -> Lengths:
    """Tokens, (n,) int64, one for each u in (0, 1).

    Normal and lognormal are rounded to whole tokens; "drawn again" outside low … high is the
    distribution cut to that range, taken by its quantiles. Where the range holds no probability, its nearest end.
    """
    if isinstance(length, Fixed):
        return np.full(len(u), length.value, dtype=np.int64)
    if isinstance(length, Uniform):
        return length.low + below(u, length.high - length.low + 1)
    if isinstance(length, Empirical):
        return np.array(length.values, dtype=np.int64)[below(u, len(length.values))]
    high = length.high or _LONGEST
    if isinstance(length, Normal):
        value = length.mean + length.stddev * _between(length.mean, length.stddev, length.low - 0.5, high + 0.5, u)
    else:
        value = _lognormal(length, high, u)
    return np.clip(np.rint(value), length.low, high).astype(np.int64)


def draw_pairs(paired: PairedLengths, u: Floats) -> tuple[Lengths, Lengths]:
    """Input and output tokens, each (n,) int64: one observed pair for each u."""
    pairs = np.array(paired.pairs, dtype=np.int64)[below(u, len(paired.pairs))]
    return pairs[:, 0], pairs[:, 1]


def _lognormal(length: LogNormal, high: int, u: Floats) -> Floats:
    median, low_end, high_end = log(np.array([length.median, length.low - 0.5, high + 0.5])).tolist()
    return exp(median + length.sigma * _between(median, length.sigma, low_end, high_end, u))


def _between(mean: float, stddev: float, low: float, high: float, u: Floats) -> Floats:
    """Standard normal numbers for which mean + stddev × z lies in low … high."""
    if stddev == 0:
        return np.zeros_like(u)
    first, last = _range(mean, stddev, low, high)
    return normal(np.clip(first + u * (last - first), 2.0**-53, 1.0 - 2.0**-53))


@lru_cache(maxsize=256)
def _range(mean: float, stddev: float, low: float, high: float) -> tuple[float, float]:
    return normal_cdf((low - mean) / stddev), normal_cdf((high - mean) / stddev)
