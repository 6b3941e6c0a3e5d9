"""The load at which speculation stops paying (docs/sweeps.md, "Methods").

The speedup falls with load: a batch that fills the GPU has no idle arithmetic left for drafts. The mean log-ratios are
made non-increasing by isotonic least squares (pool adjacent violators, Ayer et al. 1955), in the max-min form so that
all resamples are done at once, and the break is where the straight line between two levels, in ln(level), crosses 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from loadgen.analyze.columns import Floats
from loadgen.analyze.curves.observed import Observed, between, joined, observe

MIN_LEVELS = 2
METHOD = "speedup made non-increasing, crossing 1 between levels; residual bootstrap"


@dataclass(frozen=True, slots=True)
class Break:
    """Where the speedup falls to 1, with its 95 % interval, in the units of the levels.

    `level` None: not within the tested range, or not resolved; `reason` says which. `low` None: it may lie below every
    tested level; `high` None: above every one. `n`: observations."""

    level: float | None
    low: float | None
    high: float | None
    n: int
    method: str
    reason: str | None


def stops_paying(levels: Floats, log_ratios: Floats, *, seed: int = 0) -> Break:
    """`levels` (L,) above 0, `log_ratios` (L, R) of paired throughputs ln(candidate ÷ baseline), NaN absent.

    Raises ValueError for shapes that do not match or a level given twice.
    """
    seen = observe(levels, log_ratios)
    if len(seen.levels) < MIN_LEVELS or seen.levels[0] <= 0:
        few = f"not enough data: at least {MIN_LEVELS} levels above 0 are needed, there are {len(seen.levels)}"
        return Break(None, None, None, seen.n, METHOD, joined(few, seen.note))
    x = np.log(seen.levels)
    place = float(_crossing(x, seen.means[None])[0])
    if not seen.dof:
        level = math.exp(place) if math.isfinite(place) else None
        why = joined(_outside(seen, place), "not enough data for an interval: every level was visited once")
        return Break(level, None, None, seen.n, METHOD, joined(why, seen.note))
    low, high = between(_crossing(x, seen.resampled(seed)))
    low, high = min(low, place), max(high, place)
    known = [math.exp(at) if math.isfinite(at) else None for at in (place, low, high)]
    if low == math.inf:
        known[1] = float(seen.levels[-1])
    if high == -math.inf:
        known[2] = float(seen.levels[0])
    return Break(known[0], known[1], known[2], seen.n, METHOD, joined(_why(seen, place, low, high), seen.note))


def _why(seen: Observed, place: float, low: float, high: float) -> str | None:
    outside = _outside(seen, place)
    if not math.isfinite(place):
        return outside if low == high else f"{outside}; not certain: the noise allows a break within it"
    unsure = []
    if low == -math.inf:
        unsure.append(f"below {seen.levels[0]:g}")
    if high == math.inf:
        unsure.append(f"above {seen.levels[-1]:g}")
    return f"the noise also allows a break {' or '.join(unsure)}" if unsure else None


def _outside(seen: Observed, place: float) -> str | None:
    tested = f"{seen.levels[0]:g} to {seen.levels[-1]:g}"
    if place == math.inf:
        return f"not within the tested range: speculation pays up to the highest level (tested {tested})"
    if place == -math.inf:
        return f"not within the tested range: speculation does not pay at the lowest level (tested {tested})"
    return None


def non_increasing(y: Floats) -> Floats:
    """(B, L) the least-squares non-increasing curve of each row: min over the start of the max over the end of a mean.

    f_i = min over a <= i of max over b >= i of mean(y_a … y_b).
    """
    sums = np.concatenate([np.zeros((len(y), 1)), np.cumsum(y, axis=1)], axis=1)
    size = y.shape[1]
    found = np.empty_like(y)
    for i in range(size):
        starts, ends = np.arange(i + 1), np.arange(i + 1, size + 1)
        means = (sums[:, None, ends] - sums[:, starts, None]) / (ends[None, :] - starts[:, None])
        found[:, i] = means.max(axis=2).min(axis=1)
    return found


def _crossing(x: Floats, y: Floats) -> Floats:
    """(B,) where each curve crosses 0; +inf where it stays above, -inf where it begins at or below."""
    curve = non_increasing(y)
    above = curve > 0
    last = above.sum(axis=1) - 1
    inside = (last >= 0) & (last < y.shape[1] - 1)
    at = np.where(inside, last, 0)
    rows = np.arange(len(y))
    drop = curve[rows, at] - curve[rows, at + 1]
    part = curve[rows, at] / np.where(drop > 0, drop, 1.0)
    places = x[at] + part * (x[at + 1] - x[at])
    found: Floats = np.where(inside, places, np.where(last < 0, -np.inf, np.inf))
    return found
