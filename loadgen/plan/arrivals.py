"""When requests are due in an open loop: constant or ramping rates, evenly, Poisson or in bursts.

A process of unit rate is drawn on the axis of *expected arrivals* s and carried to time through the
inverse of the cumulative rate Λ(t) = a t + (b − a) t² / (2 T): so a ramp is linear in time, from 0 too,
and a Poisson process stays Poisson under it. Nothing is rescaled to a fixed count: the number of arrivals
of a random process is random.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from loadgen.plan.streams import Floats, bits, exp, log, normal, unit

Arrivals = Literal["uniform", "poisson", "gamma"]
_BLOCK = 4096


def arrivals(
    kind: Arrivals, start_rate: float, end_rate: float, duration_ns: int, burstiness: float, *key: int | str
) -> NDArray[np.int64]:
    """Due times, (n,) int64 nanoseconds from the start, ascending, in [0, duration_ns).

    The rate (1/s) goes linearly in time from `start_rate` to `end_rate`. "uniform": the k-th arrival is due
    where Λ = k + ½, so the count so far is never more than ½ from Λ(t). "poisson": unit exponential gaps.
    "gamma": gaps of mean 1 and squared coefficient of variation 1 / `burstiness`, the first drawn from
    the stationary process, so that the expected count is Λ(t) from the first instant on.
    """
    seconds = duration_ns / 1e9
    expected = (start_rate + end_rate) / 2 * seconds
    if kind == "uniform":
        s = np.arange(int(np.floor(expected + 0.5)), dtype=np.float64) + 0.5
    else:
        s = _renewals(expected, 1.0 if kind == "poisson" else burstiness, *key)
    due = np.floor(_time_of(s, start_rate, end_rate, seconds) * 1e9).astype(np.int64)
    return due[due < duration_ns]


def _time_of(s: Floats, start_rate: float, end_rate: float, seconds: float) -> Floats:
    """Solve Λ(t) = s, in the form that does not cancel; s > 0."""
    slope = (end_rate - start_rate) / seconds
    root = np.sqrt(np.maximum(start_rate * start_rate + 2.0 * slope * s, 0.0))
    return 2.0 * s / (start_rate + root)


def _renewals(expected: float, shape: float, *key: int | str) -> Floats:
    """Event times of a stationary renewal process of unit rate in (0, expected)."""
    total, block, parts = 0.0, 0, []
    while total < expected:
        gaps = _exponential(*key, block) if shape == 1.0 else _gamma(shape, _BLOCK, *key, block) / shape
        if block == 0 and shape != 1.0:
            # what is left of the gap that is going on: a uniform part of a gap drawn in proportion to its length
            share = unit(bits(*key, "first").random_raw(1))
            gaps[0] = (share * _gamma(shape + 1.0, 1, *key, "longest") / shape)[0]
        gaps[0] += total
        times = np.cumsum(gaps)
        parts.append(times)
        total, block = float(times[-1]), block + 1
    s = np.concatenate(parts) if parts else np.empty(0)
    return s[(s > 0.0) & (s < expected)]


def _exponential(*key: int | str) -> Floats:
    return -log(unit(bits(*key).random_raw(_BLOCK)))


def _gamma(shape: float, n: int, *key: int | str) -> Floats:
    """n gamma variates of scale 1: Marsaglia and Tsang (2000); below shape 1 boosted by U^(1/shape)."""
    boosted = shape + 1.0 if shape < 1.0 else shape
    d = boosted - 1.0 / 3.0
    c = 1.0 / np.sqrt(9.0 * d)
    stream, found, parts = bits(*key), 0, []
    while found < n:
        u = unit(stream.random_raw(3 * n)).reshape(3, n)
        z = normal(u[0])
        root = np.maximum(1.0 + c * z, 2.0**-300)
        v = root * root * root
        accepted = (log(u[1]) < 0.5 * z * z + d - d * v + d * log(v)) & (root > 2.0**-300)
        value = d * v
        if shape < 1.0:
            value = value * exp(log(u[2]) / shape)
        parts.append(value[accepted])
        found += int(accepted.sum())
    return np.concatenate(parts)[:n]
