"""How much data is needed, what a sample can show, and how well repeats agree."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from loadgen.analyze.statistics.distributions import chi_square_quantile, t_power, t_quantile
from loadgen.analyze.statistics.multiple import bonferroni
from loadgen.analyze.statistics.types import LEVEL, MIN_PAIRS, Estimate, Floats


def min_requests_for_quantile(q: float, confidence: float = 0.99) -> int:
    """Requests, none of them over a limit, that show the q-quantile to be below it: q^n <= 1 - confidence.

    P95: 90, P99: 459. Necessary, not sufficient. Raises ValueError unless both lie between 0 and 1.
    """
    if not (0 < q < 1 and 0 < confidence < 1):
        raise ValueError(f"shares between 0 and 1 expected, not {q} and {confidence}")
    return math.ceil(math.log1p(-confidence) / math.log(q))


def power_of_ratio(
    cv_of_log_ratio: float, blocks: int, effect: float, *, level: float = LEVEL, tests: int = 1
) -> float:
    """Chance that a change by `effect` (0.05 = 5 % slower) is shown: the interval excludes 1 on the right side.

    `cv_of_log_ratio`: standard deviation of the log-ratios of paired blocks, for small ones the coefficient of
    variation of the ratio. `tests`: Bonferroni over so many thresholds. Noncentral t; blocks independent and normal.
    For "more than 10 % slower is shown to break a limit of 5 %" the effect is 1.10 / 1.05 - 1.
    """
    if cv_of_log_ratio < 0 or blocks < 2 or effect <= -1:
        raise ValueError("a spread of at least 0, two blocks and an effect above -1 expected")
    shift = abs(math.log1p(effect))
    if cv_of_log_ratio == 0:
        return float(shift > 0)
    critical = t_quantile((1 + bonferroni(level, tests)) / 2, blocks - 1)
    return t_power(critical, blocks - 1, shift * math.sqrt(blocks) / cv_of_log_ratio)


def blocks_for_precision(cv_of_log_ratio: float, half_width: float, *, level: float = LEVEL) -> int:
    """Paired blocks after which a ratio's upper limit lies at most `half_width` (0.02 = 2 %) above it."""
    if cv_of_log_ratio < 0 or half_width <= 0:
        raise ValueError("a spread of at least 0 and a half width above 0 expected")
    target = math.log1p(half_width)

    def enough(n: int) -> bool:
        return t_quantile((1 + level) / 2, n - 1) * cv_of_log_ratio / math.sqrt(n) <= target

    high = MIN_PAIRS
    while not enough(high):
        high *= 2
    low = MIN_PAIRS - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def coefficient_of_variation(per_repeat: Floats, *, level: float = LEVEL, source: str = "client") -> Estimate:
    """Standard deviation (n - 1) ÷ mean of one positive number per repeat; n counts repeats.

    Interval: modified McKay (Vangel 1996), for normal values and a coefficient below about 0.33. An upper limit that
    does not exist is +inf.
    """
    x = np.asarray(per_repeat, dtype=np.float64)
    if x.ndim != 1 or not np.isfinite(x).all():
        raise ValueError("a flat sample of finite values expected")
    n = len(x)
    found = Estimate(None, None, None, n, "repeats", "modified McKay (Vangel)", source, level=level)
    if n < 2:
        return replace(found, reason=f"not enough data: needs at least 2 repeats, there are {n}", needs_n=2)
    if x.mean() <= 0:
        return replace(found, reason="the mean is not above 0")
    k = float(x.std(ddof=1) / x.mean())
    tail = (1 - level) / 2
    low = _mckay(k, n, chi_square_quantile(1 - tail, n - 1))
    return replace(found, value=k, low=low, high=_mckay(k, n, chi_square_quantile(tail, n - 1)))


def _mckay(k: float, n: int, u: float) -> float:
    inside = ((u + 2) / n - 1) * k * k + u / (n - 1)
    return k / math.sqrt(inside) if inside > 0 else math.inf
