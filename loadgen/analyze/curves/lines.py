"""A straight line through repeated observations, with an interval that also counts what the line does not follow."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from loadgen.analyze.columns import Floats
from loadgen.analyze.curves.observed import Observed
from loadgen.analyze.statistics.distributions import t_quantile
from loadgen.analyze.statistics.types import LEVEL

#: Level means that scatter about the line so many times as much as the repeats explain: it is not a line.
BENT = 3.0


@dataclass(frozen=True)
class Line:
    """y = intercept + slope · x through level means weighted by their observations.

    `variance` of one observation with `dof` degrees of freedom; None where neither repeats nor a third level show it.
    `bent`: the means depart from the line by more than the repeats explain. `residual`: root mean square departure of
    the means.
    """

    intercept: float
    slope: float
    centre: float
    weight: float
    spread: float
    variance: float | None
    dof: int
    bent: bool
    residual: float

    def at(self, x: float) -> float:
        return self.intercept + self.slope * x

    def half(self, x: float) -> float | None:
        """Half width of the 95 % interval of the line at x; None where no noise is known."""
        if self.variance is None:
            return None
        share = 1 / self.weight + (x - self.centre) ** 2 / self.spread
        return self._t * math.sqrt(self.variance * share)

    @property
    def half_slope(self) -> float | None:
        if self.variance is None:
            return None
        return self._t * math.sqrt(self.variance / self.spread)

    @property
    def _t(self) -> float:
        return t_quantile((1 + LEVEL) / 2, self.dof)

    def drawn(self, x: Floats, standard: Floats) -> Floats:
        """(B, X) lines as uncertain as this one at x (X,), from (B, 2) standard normal numbers; the same where no noise
        is known. t for normal quantiles, as in `half`."""
        sigma = math.sqrt(self.variance or 0.0)
        if self.variance is not None:
            sigma *= self._t / t_quantile((1 + LEVEL) / 2, 1_000_000)
        height = standard[:, :1] * sigma / math.sqrt(self.weight)
        tilt = standard[:, 1:] * sigma / math.sqrt(self.spread)
        found: Floats = self.intercept + self.slope * x + height + tilt * (x - self.centre)
        return found


def fit_line(x: Floats, seen: Observed) -> Line:
    """Least squares; `x` (L,) belongs to the levels of `seen`, at least two different ones.

    The variance is the larger of that within levels and that of the means about the line.
    """
    w, y = seen.counts, seen.means
    total = float(w.sum())
    centre = float(w @ x) / total
    spread = float(w @ np.square(x - centre))
    slope = float(w @ ((x - centre) * y)) / spread
    intercept = float(w @ y) / total - slope * centre
    off = y - intercept - slope * x
    squares, free = float(w @ np.square(off)), len(x) - 2
    about = squares / free if free else None
    within = seen.variance if seen.dof else None
    variance, dof = within, seen.dof
    if about is not None and (within is None or about > within):
        variance, dof = about, free
    bent = about is not None and within is not None and about > BENT * within and float(np.abs(off).max()) > 1e-9
    residual = math.sqrt(float(np.square(off).mean()))
    return Line(intercept, slope, centre, total, spread, variance, max(dof, 1), bent, residual)
