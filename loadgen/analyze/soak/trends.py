"""One series at a time: its trend, and the jump in it (docs/soak.md)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from loadgen.analyze.soak.dating import drift
from loadgen.analyze.soak.evidence import correlation, inflation_of, p_values
from loadgen.analyze.statistics import LEVEL, Floats, normal_quantile


@dataclass(frozen=True, slots=True)
class Trend:
    """`slope_per_s` with its 95 % interval, in the series' unit; `p`: two-sided, of no trend; `phi`: correlation from
    window to window that both account for; `n` windows."""

    slope_per_s: float
    low: float
    high: float
    p: float
    phi: float
    n: int


@dataclass(frozen=True, slots=True)
class Change:
    """A jump of `size` at `at_s`, with 95 % intervals; `p`: of no jump anywhere."""

    at_s: float
    at_low_s: float
    at_high_s: float
    size: float
    low: float
    high: float
    p: float


def trend(times_s: Floats, values: Floats) -> Trend:
    """The Theil–Sen slope and Sen's interval (1968), its variance inflated as by Yue and Wang (2004) for the
    correlation of what the slope leaves; `p` by rank trend (`evidence.p_values`). Times ascend, values are finite."""
    times, found = _checked(times_s, values)
    p = float(p_values(found[None, :])[0, 0])
    return slope_of(times, found, p)


def slope_of(times_s: Floats, values: Floats, p: float) -> Trend:
    """`trend` with a `p` that is known already."""
    n = len(values)
    first, second = np.triu_indices(n, 1)
    slopes = np.sort((values[second] - values[first]) / (times_s[second] - times_s[first]))
    middle = float(np.median(slopes))
    left = values - middle * times_s
    phi = float(correlation((left - left.mean())[None, :])[0])
    spread = n * (n - 1) * (2 * n + 5) / 18 * inflation_of(phi)
    outside = normal_quantile((1 + LEVEL) / 2) * np.sqrt(spread)
    low = max(int((len(slopes) - outside) / 2) - 1, 0)
    return Trend(middle, float(slopes[low]), float(slopes[len(slopes) - 1 - low]), p, phi, n)


def change_point(times_s: Floats, values: Floats, *, level: float = 0.01) -> Change | None:
    """The jump that fits best, where no jump at all is improbable (p <= `level`); else None."""
    times, found = _checked(times_s, values)
    p = float(p_values(found[None, :])[0, 1])
    if p > level:
        return None
    jump = drift(times, found, jumps_only=True)
    return Change(jump.start_s, jump.start_low_s, jump.start_high_s, jump.size, jump.size_low, jump.size_high, p)


def _checked(times_s: Floats, values: Floats) -> tuple[Floats, Floats]:
    times, found = np.asarray(times_s, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if times.ndim != 1 or times.shape != found.shape or not np.isfinite(found).all() or (np.diff(times) <= 0).any():
        raise ValueError("one finite value per time expected, times ascending")
    return times, found
