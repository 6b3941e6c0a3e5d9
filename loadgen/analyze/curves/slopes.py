"""How speed, KV use and acceptance change with the input length, and where the drafter gives up (docs/sweeps.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from loadgen.analyze.columns import Floats
from loadgen.analyze.curves.lines import fit_line
from loadgen.analyze.curves.observed import Observed, joined, observe

Per = Literal["doubling", "1k_tokens"]
MIN_LEVELS = 2
_LARGEST_LOG = 700.0
#: Mean acceptance that is none: at most this, and at most this share of what it was at shorter inputs.
NO_ACCEPTANCE = 0.02
NO_ACCEPTANCE_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Slope:
    """Change of a number when the input is twice as long, or 1000 tokens longer, with its 95 % interval.

    `relative`: the change is a share of the number (-0.08: 8 % less), else in its own unit. `value` None: not known;
    `low` and `high` None: no interval; `reason` says why, and also where the points are no straight line: the slope is
    then the mean one over the tested range, and its interval counts the departure. `n`: observations.
    """

    value: float | None
    low: float | None
    high: float | None
    per: Per
    relative: bool
    n: int
    method: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Limit:
    """Acceptance is gone beyond the drafter's own limit: the last length at which drafts were accepted, the first at
    which none were, and the mean acceptance at and below the one, at and above the other."""

    last_accepting: float
    first_without: float
    acceptance_before: float
    acceptance_beyond: float
    reason: str


def decay(lengths: Floats, values: Floats, *, per: Per = "doubling", relative: bool = True) -> Slope:
    """Least-squares slope of `values` (L, R; NaN absent) against input `lengths` (L,) in tokens, above 0.

    `relative` fits ln(value), which has to be above 0. Raises ValueError for shapes that do not match or a length given
    twice.
    """
    method = f"least squares of {'ln(value)' if relative else 'value'} on {'log2(length)' if per == 'doubling' else ''}"
    method = method if per == "doubling" else f"{method}length ÷ 1000"
    seen = observe(lengths, values, positive=relative)
    if relative:
        seen = Observed(seen.levels, np.log(seen.values), seen.note)
    if len(seen.levels) < MIN_LEVELS or seen.levels[0] <= 0:
        few = f"not enough data: a slope needs {MIN_LEVELS} lengths above 0, there are {len(seen.levels)}"
        return Slope(None, None, None, per, relative, seen.n, method, joined(few, seen.note))
    line = fit_line(np.log2(seen.levels) if per == "doubling" else seen.levels / 1000, seen)
    half = line.half_slope
    limits = (None, None) if half is None else (line.slope - half, line.slope + half)
    found = [_change(b) if relative else b for b in (line.slope, *limits)]
    why = "not enough data for an interval: two lengths, each visited once" if half is None else None
    why = "the change is larger than any number" if found[0] is None else why
    bent = "not a straight line: the mean slope over the tested lengths" if line.bent else None
    return Slope(found[0], found[1], found[2], per, relative, seen.n, method, joined(why, bent, seen.note))


def _change(log_ratio: float | None) -> float | None:
    """Of a ratio that is a number, -1 to +inf; None for one that is not known or larger than any number."""
    return None if log_ratio is None or log_ratio > _LARGEST_LOG else math.expm1(log_ratio)


def drafter_limit(lengths: Floats, acceptance: Floats) -> Limit | None:
    """The drafter's own limit: from some length on acceptance is about 0 and stays there, while it was not before.

    `acceptance` (L, R), shares, NaN absent. None where acceptance never vanishes, never was there, or vanishes only in
    between. A request that grows past the limit is accepted up to it, so the limit lies between the two lengths plus
    the output. Raises ValueError as `decay`.
    """
    seen = observe(lengths, acceptance)
    means = seen.means if len(seen.levels) else np.zeros(0)
    for at in range(1, len(means)):
        before, beyond = float(np.median(means[:at])), float(means[at:].max())
        if beyond <= min(NO_ACCEPTANCE, NO_ACCEPTANCE_SHARE * before) and means[at - 1] > NO_ACCEPTANCE:
            last, first = float(seen.levels[at - 1]), float(seen.levels[at])
            gone = float(means[at:].mean())
            why = f"acceptance is {before:.2f} up to {last:g} input tokens and {gone:.3f} from {first:g} on"
            return Limit(last, first, before, gone, why)
    return None
