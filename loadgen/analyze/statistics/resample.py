"""Resampling whole blocks: how often each block is drawn, and where a quantile falls then."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from loadgen.analyze.percentiles import rank
from loadgen.analyze.statistics.distributions import normal_quantile, t_quantile
from loadgen.analyze.statistics.types import LEVEL, Floats, Ints

#: Numbers held at once while quantiles of resamples are looked up.
_CHUNK = 4_000_000


def exact_share(q: float) -> Fraction:
    """0.95 as 19/20: ranks are whole-number arithmetic. Raises ValueError unless 0 < q < 1."""
    if not 0 < q < 1:
        raise ValueError(f"a quantile lies between 0 and 1, not at {q}")
    return Fraction(q).limit_denominator(1_000_000)


def by_block(values: Floats, block: Ints, least: float = -math.inf) -> tuple[Floats, Ints, int]:
    """The values, for each the number of its block counted from 0 in order, and how many blocks there are.

    Raises ValueError for a NaN, a value below `least`, or arrays that do not match.
    """
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 1 or found.shape != np.shape(block):
        raise ValueError(f"one block number per value expected, not {np.shape(block)} for {found.shape}")
    if np.any(np.isnan(found)) or np.any(found < least):
        raise ValueError(f"a value is not a number, or below {least}")
    numbers, index = np.unique(np.asarray(block), return_inverse=True)
    return found, index, len(numbers)


def draw_weights(blocks: int, resamples: int, seed: int) -> Ints:
    """(resamples, blocks): how often each block is in each resample of `blocks` blocks with replacement."""
    drawn = np.random.default_rng(seed).integers(0, blocks, (resamples, blocks))
    drawn += np.arange(resamples)[:, None] * blocks
    return np.bincount(drawn.ravel(), minlength=resamples * blocks).reshape(resamples, blocks)


def middle(resampled: Floats, upper: Floats | None = None) -> tuple[float, float]:
    """The 2.5 % and 97.5 % points; of the two nearest samples the outer one. `upper`: taken for the upper point."""
    n = len(resampled)
    k = max(math.floor((n + 1) * (1 - LEVEL) / 2), 1)
    high = np.partition(resampled if upper is None else upper, n - k)[n - k]
    return float(np.partition(resampled, k - 1)[k - 1]), float(high)


def t_of(blocks: int, level: float, inflation: float = 1.0) -> float:
    """The two-sided t quantile; correlated blocks are worth `blocks` / `inflation` independent ones."""
    return t_quantile((1 + level) / 2, max((blocks - 1) / inflation, 1.0))


def stretch(blocks: int, level: float, inflation: float = 1.0) -> float:
    """By how much the reach of `middle` has to grow for an interval at `level`.

    t instead of normal quantiles, and sqrt(n / (n - 1)) for the bootstrap's too small variance (Hesterberg 2014,
    "expanded percentile interval"); sqrt(inflation) for blocks that are correlated.
    """
    t = t_of(blocks, level, inflation)
    return t / normal_quantile((1 + LEVEL) / 2) * math.sqrt(inflation * blocks / (blocks - 1))


@dataclass(frozen=True)
class SortedSample:
    """`values` ascending and the block (0 ... blocks - 1) of each."""

    values: Floats
    block_of: Ints
    blocks: int

    @classmethod
    def of(cls, values: Floats, block: Ints, least: float = -math.inf) -> SortedSample:
        """Raises ValueError as `by_block`."""
        found, index, blocks = by_block(values, block, least)
        order = np.argsort(found, kind="stable")
        return cls(found[order], index[order], blocks)

    @property
    def n(self) -> int:
        return len(self.values)

    def rank_of(self, share: Fraction) -> int:
        return rank(self.n, share * 100)

    def excess(self, share: Fraction) -> Floats:
        """Per block: requests up to the quantile, less as many as there should be. What it adds to F(q) - q."""
        upto = self.block_of[: int(np.searchsorted(self.values, self.quantile(share), side="right"))]
        below = np.bincount(upto, minlength=self.blocks)
        return below - float(share) * np.bincount(self.block_of, minlength=self.blocks)

    def at(self, ranks: Ints) -> Floats:
        """The samples of these 1-based ranks; -inf below the first, +inf beyond the last."""
        padded = np.concatenate(([-np.inf], self.values, [np.inf]))
        return padded[np.clip(ranks, 0, self.n + 1)]

    def quantile(self, share: Fraction) -> float:
        return float(self.values[self.rank_of(share) - 1])

    def ranks(self, weights: Ints, share: Fraction) -> Ints:
        """For each resample the rank, in the whole sample, of the resample's own nearest-rank quantile."""
        rows = max(_CHUNK // (self._size + self._upto.shape[1]), 1)
        found = [self._ranks(part, share) for part in _parts(weights, rows)]
        return np.concatenate(found)

    @cached_property
    def _size(self) -> int:
        return math.isqrt(self.n - 1) + 1

    @cached_property
    def _upto(self) -> Floats:
        """(blocks, cells): samples of each block up to the end of each cell of `_size` neighbouring ranks."""
        cells = -(-self.n // self._size)
        cell = np.arange(self.n) // self._size
        counts = np.bincount(self.block_of * cells + cell, minlength=self.blocks * cells)
        return counts.reshape(self.blocks, cells).cumsum(axis=1).astype(np.float64)

    def _ranks(self, weights: Ints, share: Fraction) -> Ints:
        """Finds the cell of the quantile first and then its place inside."""
        rows = np.arange(len(weights))
        upto = (weights.astype(np.float64) @ self._upto).astype(np.int64)
        total = upto[:, -1]
        target = np.maximum(-(-share.numerator * total // share.denominator), 1)
        cell = (upto < target[:, None]).sum(axis=1)
        before = np.where(cell > 0, upto[rows, cell - 1], 0)
        places = cell[:, None] * self._size + np.arange(self._size)
        inside = np.take_along_axis(weights, self.block_of[np.minimum(places, self.n - 1)], axis=1)
        inside[places >= self.n] = 0
        reached = inside.cumsum(axis=1) < (target - before)[:, None]
        return np.asarray(cell * self._size + reached.sum(axis=1) + 1, dtype=np.int64)


def _parts(weights: Ints, rows: int) -> Iterator[Ints]:
    for start in range(0, len(weights), rows):
        yield weights[start : start + rows]


def stretched(ranks: Ints, centre: int, n: int, factor: float, skew: float = 0.0) -> Ints:
    """Ranks of `n` samples moved away from `centre` by `factor`: / (1 - skew) upwards, / (1 + skew) downwards.

    Distances are taken between logits of (rank - 1/2) / n, in which a change of level by some percent moves the tail
    as far as the middle; in plain ranks a tail of 5 % would soon be used up. 0 and n + 1 lie outside the sample.
    """
    own = _logit(ranks, n) - _logit(np.array([centre]), n)
    moved = _logit(np.array([centre]), n) + own * factor / np.where(own > 0, 1 - skew, 1 + skew)
    exact = n / (1 + np.exp(-moved)) + 0.5
    # less than half a sample is left beyond: outside; what rounding alone added is no distance
    found = np.where(exact > n + 1e-6, n + 1, np.where(exact < 1 - 1e-6, 0, np.rint(exact)))
    return np.asarray(found, dtype=np.int64)


def _logit(ranks: Ints, n: int) -> Floats:
    share = (ranks - 0.5) / n
    return np.log(share / (1 - share))
