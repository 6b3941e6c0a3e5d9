"""Whether a series of windows moves at all: p-values that hold for autocorrelated series (docs/soak.md, "The tests").

Two statistics on ranks, one for a slow trend and one for a jump. Both are divided by a standard error that counts
correlated windows as fewer, and are then compared with their own distribution on steady first-order autoregressive
series of the same length at `CORRELATIONS`: formulas for the corrected error alone alarm far too often on short series.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

import numpy as np

from loadgen.analyze.statistics import Floats

#: Correlations from window to window that no alarm may come from; the largest p counts
CORRELATIONS = (0.0, 0.6, 0.8)
#: Highest correlation that a standard error is corrected for
_HIGHEST = 0.95
#: Steady series behind each p-value (as often as `finer` says), and their seed
STEADY_SERIES, _SEED = 20_000, 8
#: A jump has at least this share of the windows on either side
_EDGE = 0.1
#: Residual variance of ranks below this, per squared range, is none
_NOTHING = 1e-12


T = TypeVar("T", float, Floats)


def p_values(values: Floats, finer: int = 1) -> Floats:
    """(m, n) series of n windows in order of time -> (m, 2): p of no trend, p of no jump.

    Resolution 1 / (finer * STEADY_SERIES + 1). The order of windows is what is tested, not their spacing.
    """
    ranked = ranks(values)
    n = ranked.shape[1]
    kinds = (trend_statistics(ranked), jump_statistics(ranked))
    return np.stack([_p(found, n, kind, finer) for kind, found in enumerate(kinds)], axis=1)


def ranks(values: Floats) -> Floats:
    """Centred ranks of each row; ties get their mean rank."""
    order = np.argsort(values, axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    found = np.empty(values.shape)
    np.put_along_axis(found, order, np.broadcast_to(np.arange(values.shape[1], dtype=float), values.shape), axis=1)
    for row in np.flatnonzero((np.diff(ordered, axis=1) == 0).any(axis=1)):
        _, which, counts = np.unique(values[row], return_inverse=True, return_counts=True)
        found[row] = (np.cumsum(counts) - (counts + 1) / 2)[which]
    found -= (values.shape[1] - 1) / 2
    return found


def trend_statistics(ranked: Floats) -> Floats:
    """|slope| of ranks on time over its standard error: Spearman's rank trend with an effective sample size."""
    n = ranked.shape[1]
    at = np.arange(n) - (n - 1) / 2
    spread = float(at @ at)
    slope = ranked @ at / spread
    return _studentised(np.abs(slope) * np.sqrt(spread), ranked - slope[:, None] * at)


def jump_statistics(ranked: Floats) -> Floats:
    """The largest |standardised CUSUM| over all places of a jump, over the standard error of what the jump leaves."""
    m, n = ranked.shape
    edge = max(int(n * _EDGE), 2)
    before = np.arange(edge, n - edge + 1)
    sums = np.cumsum(ranked, axis=1)[:, before - 1]
    weighted = np.abs(sums) / np.sqrt(before * (n - before) / n)
    best = weighted.argmax(axis=1)
    rows, count = np.arange(m), before[best]
    first, second = sums[rows, best] / count, -sums[rows, best] / (n - count)
    left = ranked - np.where(np.arange(n) < count[:, None], first[:, None], second[:, None])
    return _studentised(weighted[rows, best], left)


def correlation(residuals: Floats, fitted: int = 2) -> Floats:
    """Lag-1 autocorrelation of each row, (m,), within [0, 0.95].

    Around `fitted` fitted numbers the plain estimate is about (fitted + (2 + fitted) phi) / n too low: corrected.
    """
    n = residuals.shape[1]
    power = (residuals * residuals).sum(axis=1)
    plain = (residuals[:, 1:] * residuals[:, :-1]).sum(axis=1) / np.where(power > 0, power, 1.0)
    return np.asarray(np.clip((plain + fitted / n) / (1 - (2 + fitted) / n), 0.0, _HIGHEST))


def inflation_of(phi: T) -> T:
    """By how much correlated windows inflate the variance of a sum: n windows are worth n / inflation."""
    inflated: T = (1 + phi) / (1 - phi)
    return inflated


def _studentised(size: Floats, residuals: Floats) -> Floats:
    n = residuals.shape[1]
    phi = correlation(residuals)
    variance = (residuals * residuals).sum(axis=1) / (n - 2)
    found: Floats = size / np.sqrt(np.maximum(variance, _NOTHING * n * n) * inflation_of(phi))
    return found


def _p(found: Floats, n: int, kind: int, finer: int) -> Floats:
    """The largest over the correlations that may be there."""
    return np.asarray(np.max([_beyond(found, steady(n, phi, finer)[kind]) for phi in CORRELATIONS], axis=0))


def _beyond(value: Floats, steady_values: Floats) -> Floats:
    """Share of steady series at least as extreme, the observed one among them (Davison and Hinkley 1997, 4.2)."""
    less = np.searchsorted(steady_values, value * (1 - 1e-12)).astype(np.float64)
    return np.asarray((1 + len(steady_values) - less) / (len(steady_values) + 1))


@lru_cache(maxsize=64)
def steady(n: int, phi: float, finer: int = 1) -> tuple[Floats, Floats]:
    """Both statistics, ascending, of `finer` times `STEADY_SERIES` Gaussian AR(1) series of n windows; ranks make any
    increasing transformation of such series the same. Made part by part, so that memory does not grow with `finer`."""
    parts = [_part(n, phi, part) for part in range(finer)]
    trends, jumps = (np.sort(np.concatenate(kind)) for kind in zip(*parts, strict=True))
    return trends, jumps


def _part(n: int, phi: float, part: int) -> tuple[Floats, Floats]:
    seed = [_SEED, n, round(1000 * phi), *([part] if part else [])]
    ranked = ranks(autoregressive(STEADY_SERIES, n, phi, np.random.default_rng(seed)))
    return trend_statistics(ranked), jump_statistics(ranked)


def autoregressive(m: int, n: int, phi: float, chance: np.random.Generator) -> Floats:
    """(m, n) stationary Gaussian AR(1) series of variance 1."""
    series = chance.standard_normal((n, m))
    series[1:] *= np.sqrt(1 - phi * phi)
    for i in range(1, n):
        series[i] += phi * series[i - 1]
    return np.ascontiguousarray(series.T)
