"""Whether the later blocks of time are above the earlier ones, where neighbours are alike (docs/anomalies.md).

Mann and Whitney's comparison of mean ranks, over a standard error that counts correlated blocks as fewer. Formulas for
that alone alarm too often on short series, so the statistic is held against its own distribution on steady first-order
autoregressive series of the same two lengths, as the trends of soaks are.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from loadgen.analyze.columns import Floats
from loadgen.analyze.soak.evidence import autoregressive, correlation, inflation_of, ranks

#: Correlations from block to block that no alarm may come from; the larger p counts.
CORRELATIONS = (0.0, 0.6)
#: Steady series behind each p, and their seed.
STEADY_SERIES, _SEED, _AT_ONCE = 20_000, 41, 2_000
#: Residual variance of ranks below this, per squared length, is none.
_NOTHING = 1e-12
#: Blocks at either end of the later ones within which a change cannot be placed.
_EDGE = 2


def p_above(before: Floats, during: Floats) -> float:
    """One-sided p of `during` being above `before`, (n,) and (m,) values in order of time; 1 / 20,001 at the least."""
    first, n = len(before), len(before) + len(during)
    value = float(statistics(ranks(np.concatenate([before, during])[None, :]), first)[0])
    return max(_beyond(value, _steady(first, n, phi)) for phi in CORRELATIONS)


def statistics(ranked: Floats, first: int) -> Floats:
    """(m, n) centred ranks -> (m,): mean rank after block `first` less that before it, over its standard error.

    The correlation is that of what is left around three means: a change in the middle of the later blocks is no
    correlation of neighbours. The variance is that around two."""
    n = ranked.shape[1]
    early, late = ranked[:, :first], ranked[:, first:]
    around = [part - part.mean(axis=1, keepdims=True) for part in (early, late)]
    phi = correlation(np.concatenate([around[0], _around_a_jump(around[1])], axis=1), fitted=3)
    variance = sum((part * part).sum(axis=1) for part in around) / (n - 2)
    error = np.sqrt(np.maximum(variance, _NOTHING * n * n) * inflation_of(phi) * (1 / first + 1 / (n - first)))
    return np.asarray((late.mean(axis=1) - early.mean(axis=1)) / error)


def _around_a_jump(centred: Floats) -> Floats:
    """Each row less its two means, parted where the standardised CUSUM is largest."""
    n = centred.shape[1]
    places = np.arange(_EDGE, n - _EDGE + 1)
    sums = np.cumsum(centred, axis=1)[:, places - 1]
    at = np.argmax(np.abs(sums) / np.sqrt(places * (n - places)), axis=1)
    count = places[at][:, None]
    total = sums[np.arange(len(sums)), at][:, None]
    return np.asarray(centred - np.where(np.arange(n) < count, total / count, -total / (n - count)))


def _beyond(value: float, steady: Floats) -> float:
    """Share of steady series at least as extreme, the observed one among them."""
    less = int(np.searchsorted(steady, value * (1 - 1e-12) if value > 0 else value))
    return (1 + len(steady) - less) / (len(steady) + 1)


@lru_cache(maxsize=64)
def _steady(first: int, n: int, phi: float) -> Floats:
    """Ascending statistics of steady series; ranks make any increasing transformation of them the same."""
    chance = np.random.default_rng([_SEED, first, n, round(1000 * phi)])
    parts = [
        statistics(ranks(autoregressive(_AT_ONCE, n, phi, chance)), first) for _ in range(STEADY_SERIES // _AT_ONCE)
    ]
    return np.sort(np.concatenate(parts))
