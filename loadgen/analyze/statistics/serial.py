"""Correlation from block to block, and by how much it inflates the variance of what is summed over them."""

from __future__ import annotations

import math

from loadgen.analyze.statistics.types import Floats

#: A run so short against its own correlation cannot be repaired by a formula.
_HIGHEST_LAG1 = 0.8


def acceleration(influence: Floats) -> float:
    """Efron's a (1987): a sixth of the skewness of the sum. At most 1/6, one block deciding everything."""
    centred = influence - influence.mean()
    power = float(centred @ centred)
    return float((centred**3).sum()) / (6 * power**1.5) if power > 0 else 0.0


def lag1(influence: Floats) -> float:
    """First-order autocorrelation of one number per block, in order of time, its small-sample bias taken out.

    In n blocks the plain estimate r is on average (1 + 3 rho) / n below the true rho (Kendall 1954).
    """
    n = len(influence)
    centred = influence - influence.mean()
    power = float(centred @ centred)
    # below rounding of the mean there is no signal whose correlation could be told
    if power <= 1e-24 * float(influence @ influence):
        return 0.0
    r = float(centred[:-1] @ centred[1:]) / power
    return r + (1 + 3 * r) / n


def inflation(influence: Floats) -> float:
    """1 + 6 rho for a positive lag-1 autocorrelation rho, else 1: an interval never narrows.

    The variance of a sum is inflated by 1 + 2 (rho_1 + rho_2 + ...). Higher lags cannot be estimated from 20 blocks,
    so each is taken as two thirds of the one before: 1 + 2 rho (1 + 2/3 + 4/9 + ...).
    """
    return 1 + 6 * min(max(lag1(influence), 0.0), _HIGHEST_LAG1)


def inflation_if_shown(influence: Floats) -> float:
    """`inflation` where the autocorrelation is significant (one-sided 5 %), else 1.

    For paired blocks, whose differences the seeded order of arms makes uncorrelated: a guard against what the design
    did not remove, without charging every comparison for it.
    """
    return inflation(influence) if lag1(influence) > 1.645 / math.sqrt(len(influence)) else 1.0
