"""When a drift began, how long it took and how large it is (docs/soak.md, "Start and size").

Model: a level, a straight change from start to end, a second level; a jump is a change between two windows side by
side. Least squares over all starts and ends; intervals are profile likelihoods whose limit counts correlated windows as
fewer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from loadgen.analyze.soak.evidence import correlation, inflation_of
from loadgen.analyze.statistics import LEVEL, Floats, Ints

#: Windows that lie before and after the middle of a change: at least so many, and this share of all
_FEWEST, _SHARE = 3, 0.05
#: Fewest windows that a change is dated in
MIN_DATED = 10
#: A change that takes longer than this share of the run is no jump
_SLOW = 0.25
Shape = Literal["jump", "ramp", "either"]


@dataclass(frozen=True, slots=True)
class Drift:
    """`start_s`, `end_s`: of the change, on the clock of the windows' times; `size`: second level less first, in the
    series' unit. Intervals at 95 %. `before`: the first level. `shape`: "ramp" where no jump fits, "jump" where one
    does and nothing that takes a quarter of the run, else "either". `phi`: correlation of the rest with its next."""

    shape: Shape
    start_s: float
    start_low_s: float
    start_high_s: float
    end_s: float
    size: float
    size_low: float
    size_high: float
    before: float
    phi: float


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Every change that is tried: between which windows, its size and the residual sum of squares."""

    first: Ints
    last: Ints
    weights: Floats  # (changes, windows), centred: the shape of a change of size 1
    power: Floats
    size: Floats
    left: Floats
    values: Floats  # centred

    def best(self, allowed: NDArray[np.bool_]) -> int:
        return int(np.argmin(np.where(allowed, self.left, np.inf)))

    def phi(self, at: int) -> float:
        return float(correlation((self.values - self.size[at] * self.weights[at])[None, :], fitted=4)[0])

    def limit(self, at: int) -> float:
        """Sum of squares up to which another change cannot be told from this one: twice the F quantile with 2 degrees
        of freedom (start and end), which has a closed form."""
        free = len(self.values) - 4
        room = (1 - LEVEL) ** (-2 / free) - 1
        return float(self.left[at] * (1 + room * inflation_of(self.phi(at))))


def drift(times_s: Floats, values: Floats, *, jumps_only: bool = False) -> Drift:
    """The change that fits best, given that there is one. `times_s`: middles of the windows, ascending.

    Raises ValueError for fewer than `MIN_DATED` windows.
    """
    if len(values) < MIN_DATED or len(values) != len(times_s):
        raise ValueError(f"a drift is dated in at least {MIN_DATED} windows with a time each, not {len(values)}")
    tried = _candidates(times_s, values)
    jump = tried.last == tried.first + 1
    best = tried.best(jump if jumps_only else np.ones_like(jump))
    within = tried.left <= tried.limit(best)
    if jumps_only:
        within &= jump
    reach = np.sqrt((tried.limit(best) - tried.left[within]) / tried.power[within])
    shape = _shape(tried, within & jump, within)
    if shape == "jump":
        best = tried.best(jump)
    start, end = times_s[tried.first], times_s[tried.last]
    start, end = np.where(jump, (start + end) / 2, start), np.where(jump, (start + end) / 2, end)
    half = float(np.median(np.diff(times_s))) / 2
    before = values.mean() + tried.size[best] * tried.weights[best, 0]
    return Drift(
        shape=shape,
        start_s=float(start[best]),
        start_low_s=float(start[within].min() - half),
        start_high_s=float(start[within].max() + half),
        end_s=float(end[best]),
        size=float(tried.size[best]),
        size_low=float((tried.size[within] - reach).min()),
        size_high=float((tried.size[within] + reach).max()),
        before=float(before),
        phi=tried.phi(best),
    )


def _shape(tried: _Candidates, jumps: NDArray[np.bool_], within: NDArray[np.bool_]) -> Shape:
    if not jumps.any():
        return "ramp"
    slow = (tried.last - tried.first)[within] > _SLOW * len(tried.values)
    return "either" if slow.any() else "jump"


def _candidates(times_s: Floats, values: Floats) -> _Candidates:
    n = len(values)
    first, last = np.triu_indices(n, 1)
    edge = max(_FEWEST, int(_SHARE * n))
    fits = (first + last >= 2 * edge - 1) & (first + last <= 2 * (n - 1 - edge) + 1)
    first, last = first[fits], last[fits]
    begin = times_s[first][:, None]
    weights = np.clip((times_s - begin) / (times_s[last][:, None] - begin), 0.0, 1.0)
    weights -= weights.mean(axis=1, keepdims=True)
    centred = values - values.mean()
    power = (weights * weights).sum(axis=1)
    size = weights @ centred / power
    left = np.maximum(float(centred @ centred) - size * size * power, 0.0)
    return _Candidates(first, last, weights, power, size, left, centred)
