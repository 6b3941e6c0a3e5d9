"""Quantiles of the normal, t, beta and chi-square distributions and the power of a t test, without scipy.

Incomplete beta: the continued fraction 8.17.22 of the NIST Digital Library of Mathematical Functions, evaluated by
Lentz's method. Incomplete gamma: its series 8.7.1 and continued fraction 8.9.2. Inverses by Newton steps kept inside
a bracket. All agree with scipy to a relative 1e-9 (tests).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from loadgen.analyze.statistics.types import Floats

_NORMAL = NormalDist()
_TINY = 1e-300
_EPSILON = 1e-15
_MOST_TERMS = 20_000


def normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def normal_quantile(p: float) -> float:
    """For 0 < p < 1 (Wichura, AS 241)."""
    return _NORMAL.inv_cdf(p)


def beta_cdf(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    if x < (a + 1) / (a + b + 2):
        return math.exp(log_front) * _beta_fraction(x, a, b) / a
    return 1 - math.exp(log_front) * _beta_fraction(1 - x, b, a) / b


def _beta_fraction(x: float, a: float, b: float) -> float:
    c, d = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / _away_from_zero(1 + even * d)
        c = _away_from_zero(1 + even / c)
        value *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / _away_from_zero(1 + odd * d)
        c = _away_from_zero(1 + odd / c)
        value *= d * c
        if abs(d * c - 1) < _EPSILON:
            break
    return value


def _away_from_zero(x: float) -> float:
    return x if abs(x) > _TINY else _TINY


def beta_quantile(p: float, a: float, b: float) -> float:
    """x with I_x(a, b) = p, for 0 < p < 1."""
    log_scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)

    def density(x: float) -> float:
        return math.exp(log_scale + (a - 1) * math.log(x) + (b - 1) * math.log1p(-x))

    return _inverse(lambda x: beta_cdf(x, a, b), density, p, a / (a + b), 0.0, 1.0)


def gamma_cdf(x: float, a: float) -> float:
    """The regularised lower incomplete gamma function P(a, x)."""
    if x <= 0:
        return 0.0
    front = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        for n in range(1, _MOST_TERMS):
            term *= x / (a + n)
            total += term
            if term < total * _EPSILON:
                break
        return front * total
    b, c = x + 1 - a, 1 / _TINY
    d = 1 / b
    value = d
    for n in range(1, _MOST_TERMS):
        step = -n * (n - a)
        b += 2
        d = 1 / _away_from_zero(step * d + b)
        c = _away_from_zero(b + step / c)
        value *= d * c
        if abs(d * c - 1) < _EPSILON:
            break
    return 1 - front * value


def chi_square_quantile(p: float, df: float) -> float:
    """For 0 < p < 1 and df > 0."""
    a = df / 2

    def density(x: float) -> float:
        return math.exp((a - 1) * math.log(x) - x - math.lgamma(a))

    spread = 40 * (1 + math.sqrt(a))
    return 2 * _inverse(lambda x: gamma_cdf(x, a), density, p, a, 0.0, a + spread)


def t_cdf(t: float, df: float) -> float:
    square = t * t
    if square < df:
        # of the two forms the one whose argument does not round towards 1
        return 0.5 + math.copysign(0.5 * beta_cdf(square / (df + square), 0.5, df / 2), t)
    tail = 0.5 * beta_cdf(df / (df + square), df / 2, 0.5)
    return tail if t < 0 else 1 - tail


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """For 0 < p < 1 and df >= 1, not necessarily whole."""
    if p == 0.5:
        return 0.0
    if p < 0.5:
        return -t_quantile(1 - p, df)
    log_scale = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - 0.5 * math.log(df * math.pi)

    def density(t: float) -> float:
        return math.exp(log_scale - (df + 1) / 2 * math.log1p(t * t / df))

    highest = 2 * df / (1 - p) + 10
    return _inverse(lambda t: t_cdf(t, df), density, p, normal_quantile(p), 0.0, highest)


@lru_cache(maxsize=1)
def _gauss_legendre() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(256)
    return nodes, weights


def t_power(critical: float, df: float, shift: float) -> float:
    """P(T > critical) of the noncentral t with noncentrality `shift`.

    E[Phi(shift - critical S)] over S = sqrt(chi2_df / df), by 256 Gauss-Legendre nodes over ten standard deviations.
    """
    low, high = max(0.0, 1 - 10 / math.sqrt(df)), 1 + 10 / math.sqrt(df)
    nodes, weights = _gauss_legendre()
    s = low + (high - low) * (nodes + 1) / 2
    log_density = math.log(2) + df / 2 * math.log(df / 2) - math.lgamma(df / 2) + (df - 1) * np.log(s) - df * s * s / 2
    above = np.array([normal_cdf(shift - critical * at) for at in s])
    return float(np.sum(weights * np.exp(log_density) * above) * (high - low) / 2)


def _inverse(
    cdf: Callable[[float], float], density: Callable[[float], float], p: float, start: float, low: float, high: float
) -> float:
    x = start
    for _ in range(200):
        error = cdf(x) - p
        if error > 0:
            high = x
        else:
            low = x
        slope = density(x)
        proposed = x - error / slope if slope > _TINY else low
        if not low < proposed < high:
            proposed = (low + high) / 2
        if abs(proposed - x) <= 4e-16 * abs(x):
            return proposed
        x = proposed
    return x
