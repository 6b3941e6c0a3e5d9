"""What a test can find: noncentral chi-square, detectable shifts and distances, and what a missing correction does."""

from __future__ import annotations

import math

import numpy as np

from loadgen.analyze.statistics.distributions import chi_square_quantile, gamma_cdf, normal_quantile
from loadgen.analyze.statistics.types import Floats

_BISECTIONS = 60


def chi_square_power(noncentrality: float, df: float, level: float) -> float:
    """P(X > the `1 - level` quantile of chi-square) where X is noncentral chi-square with `df` degrees of freedom.

    A Poisson mixture of central ones (Johnson, Kotz and Balakrishnan 1995, 29.2). Raises ValueError for df <= 0, a
    negative noncentrality or a level outside (0, 1).
    """
    if df <= 0 or noncentrality < 0 or not 0 < level < 1:
        raise ValueError("df > 0, noncentrality >= 0 and 0 < level < 1 expected")
    return _above(chi_square_quantile(1 - level, df), noncentrality, df)


def _above(critical: float, noncentrality: float, df: float) -> float:
    half, x, a = noncentrality / 2, critical / 2, df / 2
    terms = np.arange(math.ceil(half + 10 * math.sqrt(half) + 30))
    log_factorials = np.concatenate([[0.0], np.cumsum(np.log(terms[1:]))])
    log_weights = -half - log_factorials + (terms * math.log(half) if half > 0 else np.where(terms == 0, 0, -np.inf))
    # P(a + j + 1, x) = P(a + j, x) - x^(a+j) e^-x / Gamma(a + j + 1)
    steps = a + terms[:-1]
    log_gammas = math.lgamma(a + 1) + np.concatenate([[0.0], np.cumsum(np.log(steps[1:]))])
    drops = np.exp(steps * math.log(x) - x - log_gammas)
    below = gamma_cdf(x, a) - np.concatenate([[0.0], np.cumsum(drops)])
    return float(1 - np.sum(np.exp(log_weights) * np.maximum(below, 0.0)))


def noncentrality_for(power: float, df: float, level: float) -> float:
    """The noncentrality that a chi-square test at `level` finds with chance `power`."""
    critical = chi_square_quantile(1 - level, df)
    low, high = 0.0, 1.0
    while _above(critical, high, df) < power:
        low, high = high, 2 * high
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if _above(critical, middle, df) < power else (low, middle)
    return high


def shift_detected(null_variance: float, level: float, power: float) -> float:
    """Shift that a two-sided test of a statistic with this null variance finds: (z_{1 - level/2} + z_power) x s.d."""
    return (normal_quantile(1 - level / 2) + normal_quantile(power)) * math.sqrt(null_variance)


def distance_detected(null_mean: float, null_variance: float, level: float, power: float) -> float:
    """By how much a distance with this null must be larger on average: g x noncentrality, null ~ g chi-square(h).

    h = 2 mean^2 / variance and g = mean / h (Satterthwaite 1946).
    """
    df = 2 * null_mean**2 / null_variance
    return null_mean / df * noncentrality_for(power, df, level)


def without_correction(p: Floats, q: Floats) -> Floats:
    """What is emitted at a drafted position if a rejected draft is replaced from p, not from max(0, p - q).

    p, q: target and draft distribution over the same tokens. min(p, q) + (1 - sum min(p, q)) p; with the right
    correction it is p (Leviathan et al. 2023).
    """
    kept = np.minimum(p, q)
    wrong: Floats = kept + (1 - kept.sum()) * p
    return wrong


def two_sample_distance(p: Floats, e: Floats) -> float:
    """sum (p - e)^2 / ((p + e) / 2): a chi-square of two samples of n each grows with n / 2 of it."""
    both = (p + e) / 2
    seen = both > 0
    return float(np.sum((p - e)[seen] ** 2 / both[seen]))


def samples_needed(distance: float, df: float, level: float, power: float) -> int:
    """Samples per arm for a two-sample chi-square test with `df` to find `two_sample_distance` = `distance`."""
    if not distance > 0:
        raise ValueError("a distance above 0 expected")
    return math.ceil(2 * noncentrality_for(power, df, level) / distance)


def largest_without_correction() -> float:
    """The largest `two_sample_distance` that a missing correction step can make, whatever target and draft are.

    With m = min(1, q / p), of mean alpha under p, what is emitted is p (1 - alpha + m), and the distance is the mean of
    2 (m - alpha)^2 / (2 - alpha + m). That is convex in m, so it is largest where m is 0 or 1, a share alpha of the
    time; what remains is the largest over alpha: 0.287 at 0.634.
    """
    alpha = np.linspace(0, 1, 10_001)
    kept = alpha * 2 * (1 - alpha) ** 2 / (3 - alpha)
    lost = (1 - alpha) * 2 * alpha**2 / (2 - alpha)
    return float(np.max(kept + lost))
