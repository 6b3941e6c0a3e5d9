"""What every statistic returns: a number with its interval, sample size, method and source."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Confidence level of every published interval (docs/statistics.md).
LEVEL = 0.95
#: Blocks that a bootstrap over time blocks needs (docs/statistics.md, "Minimum samples, and why").
MIN_BLOCKS = 20
#: Paired blocks that a t interval needs: with two, t is 12.7 and the interval says nothing.
MIN_PAIRS = 3
#: Cases that an interval clustered by case needs.
MIN_CLUSTERS = 20
RESAMPLES = 999


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and its two-sided interval at `level`.

    None: not known, `reason` says why. `value` with `low` and `high` None: known, but not enough data for an
    interval. +inf is a value: as `value` or `low` the percentile falls among failed requests, as `high` no finite
    upper limit is known (`low` -inf likewise). So `low > limit` and `high <= limit` can be asked directly;
    `published()` is the form without infinities for files and tables.

    `n` counts `unit` ("requests", "blocks", "cases", "chunks", "repeats", "windows"); `needs_n` is how many of them
    there would have to be at least, where there are too few.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    unit: str
    method: str
    source: str
    reason: str | None = None
    level: float = LEVEL
    needs_n: int | None = None

    @property
    def infinite(self) -> tuple[str, ...]:
        """Which of value, low and high are infinite."""
        named = (("value", self.value), ("low", self.low), ("high", self.high))
        return tuple(name for name, number in named if number is not None and math.isinf(number))

    def published(self) -> Estimate:
        """The same with None and a reason in place of infinities."""
        if not self.infinite:
            return self
        reason, names = self.reason, " and ".join(self.infinite)
        if "value" in self.infinite and "among failed requests" not in (reason or ""):
            failed = f"{names} among failed requests"
            reason = failed if reason is None else f"{failed}; {reason}"
        finite: dict[str, Any] = dict.fromkeys(self.infinite)
        return replace(self, reason=reason or f"not finite: {names}; failed requests count as +inf", **finite)


@dataclass(frozen=True, slots=True)
class MannWhitney:
    """Two independent samples: two-sided p, the Hodges-Lehmann shift a - b, and P(a > b) + P(a = b)/2."""

    p: float | None
    hodges_lehmann: Estimate
    cles: Estimate
