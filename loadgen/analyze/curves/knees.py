"""Where more load stops bringing more throughput (docs/sweeps.md, "Methods").

The knee is Kleinrock's (1979): the load with the highest power, throughput ÷ latency. In a closed loop latency is
level ÷ throughput (Little), so power is highest where the elasticity d ln(throughput) ÷ d ln(level) falls to 1/2; for a
server that is either free or full, min(level ÷ R, C), it is the crossing of the two asymptotes. The curve is the blend
of two straight lines in logarithms that Churchill and Usagi (1972) use between two regimes: slope near 1 below, any
slope above, a sharp or a smooth bend.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from loadgen.analyze.columns import Floats, Ints
from loadgen.analyze.curves.observed import Observed, between, joined, observe

#: Fewer levels cannot show two slopes and where they meet.
MIN_LEVELS = 4
#: Levels that an interval needs where every level was visited once.
MIN_LEVELS_ONCE = 6
#: Sharpness of the bend: 1 is the curve level ÷ (a + b · level), 16 a kink.
_BENDS = (16.0, 4.0, 2.0, 1.0)
_FIRST_SLOPES = (1.0, 0.85, 0.7)
#: How far the slope below the knee is expected from 1, as a standard deviation.
_SLOPE_SPREAD = 0.15
_PLACES = 61
_FITTED = 4  # height, second slope, place, bend
_AT_KNEE = 0.5
#: Throughput within this share of the highest is saturated.
SATURATED_SHARE = 0.95
METHOD = "two slopes of throughput in logarithms, elasticity 1/2 (highest throughput ÷ latency); residual bootstrap"


@dataclass(frozen=True, slots=True)
class Knee:
    """`level` with its 95 % interval, in the units of the levels. None: no knee was found, `reason` says why; `low`
    then is the level above which it lies, `high` the one below which, where the data show that.

    `saturated`: from the level at which the curve reaches 95 % of its highest throughput to the highest tested one.
    `peak_power`: the tested level with the highest measured throughput ÷ latency, a check by other data; None without
    latencies. `n`: observations.
    """

    level: float | None
    low: float | None
    high: float | None
    saturated: tuple[float, float] | None
    peak_power: float | None
    n: int
    method: str
    reason: str | None


def knee(levels: Floats, throughput: Floats, latency: Floats | None = None, *, seed: int = 0) -> Knee:
    """Knee of a throughput curve: `levels` (L,) of concurrency or rate, `throughput` and `latency` (L, R), NaN absent.

    Column r holds the visits of one pass over the levels: a pass that is faster as a whole has the same knee. The
    interval comes from resampled repeats; where each level was visited once, from the scatter about the curve.
    Raises ValueError for shapes that do not match or a level given twice; too little data is a reason, not an error.
    """
    seen = observe(levels, throughput, positive=True)
    seen = Observed(seen.levels, np.log(seen.values), seen.note).without_passes()
    power = _peak_power(levels, throughput, latency)
    if len(seen.levels) < MIN_LEVELS or seen.levels[0] <= 0:
        why = f"not enough data: a knee needs {MIN_LEVELS} levels above 0, there are {int((seen.levels > 0).sum())}"
        return Knee(None, None, None, None, power, seen.n, METHOD, joined(why, seen.note))
    curves = _Curves(np.log(seen.levels))
    shown = seen.variance / float(seen.counts.mean()) if seen.dof else 0.0
    best = curves.fit(seen.means[None], shown)
    scatter = float(best.squares[0]) / (len(seen.levels) - _FITTED) if len(seen.levels) > _FITTED else 0.0
    place = float(best.places[0])
    if not seen.dof and len(seen.levels) < MIN_LEVELS_ONCE:
        return _unsure(seen, curves, place, power)
    variance = max(scatter, shown)
    places = curves.fit(seen.resampled(seed, variance), variance).places
    low, high = curves.widened(*between(places))
    return _found(seen, curves.top(best), place, low, high, power)


def _unsure(seen: Observed, curves: _Curves, place: float, power: float | None) -> Knee:
    """One visit to each of a few levels: a place, but nothing that tells how sure."""
    inside = math.isfinite(place)
    why = f"not enough data for an interval: repeat the visits, or test {MIN_LEVELS_ONCE} levels"
    if not inside:
        why = joined(_outside(seen, place), why) or why
    start = curves.top(curves.fit(seen.means[None], 0.0))
    saturated = (start, float(seen.levels[-1])) if inside else None
    level = math.exp(place) if inside else None
    return Knee(level, None, None, saturated, power, seen.n, METHOD, joined(why, seen.note))


def _found(seen: Observed, top: float, place: float, low: float, high: float, power: float | None) -> Knee:
    inside = math.isfinite(low) and math.isfinite(high) and math.isfinite(place)
    if not inside:
        above = math.exp(low) if math.isfinite(low) else None
        below = math.exp(high) if math.isfinite(high) else None
        if low == math.inf:
            above = float(seen.levels[-1])
        if high == -math.inf:
            below = float(seen.levels[0])
        why = _outside(seen, place if low == high else math.nan)
        return Knee(None, above, below, None, power, seen.n, METHOD, joined(why, seen.note))
    level = math.exp(place)
    low, high = min(math.exp(low), level), max(math.exp(high), level)
    doubts = joined(_disagrees(seen, low, high, power), seen.note)
    return Knee(level, low, high, (top, float(seen.levels[-1])), power, seen.n, METHOD, doubts)


def _outside(seen: Observed, place: float) -> str:
    tested = f"{seen.levels[0]:g} to {seen.levels[-1]:g}"
    if place == math.inf:
        return f"no knee within the tested range: throughput still rises at {seen.levels[-1]:g} (tested {tested})"
    if place == -math.inf:
        return f"no knee within the tested range: throughput no longer rises at {seen.levels[0]:g} (tested {tested})"
    return f"no knee could be told from the noise within the tested range ({tested})"


def _disagrees(seen: Observed, low: float, high: float, power: float | None) -> str | None:
    """A tested level next to the interval agrees with it."""
    if power is None:
        return None
    at = int(np.searchsorted(seen.levels, power))
    below = seen.levels[max(at - 1, 0)]
    above = seen.levels[min(at + 1, len(seen.levels) - 1)]
    if below <= high and above >= low:
        return None
    return f"measured throughput ÷ latency is highest at {power:g}, outside the interval"


def _peak_power(levels: Floats, throughput: Floats, latency: Floats | None) -> float | None:
    if latency is None:
        return None
    x, r = np.asarray(throughput, dtype=np.float64), np.asarray(latency, dtype=np.float64)
    if x.shape != r.shape:
        raise ValueError(f"throughput and latency differ in shape: {x.shape} and {r.shape}")
    usable = np.isfinite(x) & np.isfinite(r) & (x > 0) & (r > 0)
    rows = usable.any(axis=1)
    if not rows.any():
        return None
    logs = np.where(usable, np.log(np.where(usable, x, 1.0)) - np.log(np.where(usable, r, 1.0)), 0.0)
    mean = logs[rows].sum(axis=1) / usable[rows].sum(axis=1)
    return float(np.asarray(levels, dtype=np.float64)[rows][int(mean.argmax())])


@dataclass(frozen=True)
class _Fits:
    """Of each of B curves: the cell of `_Curves`, the second slope, squares left, and the knee's place (ln level);
    +inf where the curve still rises at the highest level, -inf where it no longer does at the lowest."""

    cells: Ints
    second: Floats
    squares: Floats
    places: Floats


class _Curves:
    """Every combination of place, bend and first slope; height and second slope are linear in each."""

    def __init__(self, x: Floats) -> None:
        """`x` (L,): logarithms of the levels, ascending."""
        self.x = x
        at, bend, first = np.meshgrid(np.linspace(x[0], x[-1], _PLACES), _BENDS, _FIRST_SLOPES, indexing="ij")
        self.at, self.bend, self.first = at.ravel(), bend.ravel(), first.ravel()

    def widened(self, low: float, high: float) -> tuple[float, float]:
        """Limits with half a step of the tried places on either side, within the levels; infinite ones stay."""
        half = float(self.x[-1] - self.x[0]) / (_PLACES - 1) / 2
        low = max(low - half, float(self.x[0])) if math.isfinite(low) else low
        return low, min(high + half, float(self.x[-1])) if math.isfinite(high) else high

    @cached_property
    def _beyond(self) -> Floats:
        """(cells, L) how far each level is beyond the bend."""
        reach = self.bend[:, None] * (self.x - self.at[:, None])
        beyond: Floats = np.logaddexp(0.0, reach) / self.bend[:, None]
        return beyond

    @cached_property
    def _parts(self) -> tuple[Floats, Floats, Floats]:
        """Centred curve of the first slope (cells, L), unit vector of the second (cells, L), and its length."""
        start = self.first[:, None] * (self.x - self._beyond)
        start = start - start.mean(axis=1, keepdims=True)
        turn = self._beyond - self._beyond.mean(axis=1, keepdims=True)
        length = np.sqrt(np.square(turn).sum(axis=1))
        shown = length > 1e-3 * (self.x[-1] - self.x[0])
        unit = np.where(shown[:, None], turn / np.where(shown, length, 1.0)[:, None], 0.0)
        return start, unit, np.where(shown, length, 0.0)

    def fit(self, y: Floats, variance: float) -> _Fits:
        """Least squares of (B, L) logarithms; `variance` of a mean weighs how far the first slope is from 1."""
        start, unit, length = self._parts
        centred = y - y.mean(axis=1, keepdims=True)
        along = centred @ unit.T - (start * unit).sum(axis=1)
        squares = np.square(centred).sum(axis=1)[:, None] - 2 * centred @ start.T + np.square(start).sum(axis=1)
        squares = np.maximum(squares - np.square(along), 0.0)
        cost = squares + variance * np.square((1 - self.first) / _SLOPE_SPREAD)
        cells = cost.argmin(axis=1)
        rows = np.arange(len(y))
        told = length[cells] > 0
        second = np.where(told, along[rows, cells] / np.where(told, length[cells], 1.0), self.first[cells])
        return _Fits(cells, second, squares[rows, cells], self._places(cells, second))

    def _places(self, cells: Ints, second: Floats) -> Floats:
        """Where the slope is 1/2."""
        first = self.first[cells]
        bends = second < _AT_KNEE
        share = np.where(bends, (first - _AT_KNEE) / np.where(bends, first - second, 1.0), 0.5)
        places = self.at[cells] + np.log(share / (1 - share)) / self.bend[cells]
        places = np.where(bends & (places <= self.x[-1]), places, np.inf)
        found: Floats = np.where(places < self.x[0], -np.inf, places)
        return found

    def top(self, fits: _Fits) -> float:
        """The level from which on the first of the fitted curves is saturated."""
        cell, second = int(fits.cells[0]), float(fits.second[0])
        x = np.linspace(self.x[0], self.x[-1], 2001)
        beyond = np.logaddexp(0.0, self.bend[cell] * (x - self.at[cell])) / self.bend[cell]
        curve = self.first[cell] * (x - beyond) + second * beyond
        reached = x[np.argmax(curve >= curve.max() + math.log(SATURATED_SHARE))]
        return math.exp(reached)
