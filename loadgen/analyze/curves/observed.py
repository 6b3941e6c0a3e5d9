"""Repeated observations along an axis: sorted, absent ones counted, and means resampled with their noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np

from loadgen.analyze.columns import Bools, Floats
from loadgen.analyze.statistics import RESAMPLES
from loadgen.analyze.statistics.distributions import normal_quantile, t_quantile
from loadgen.analyze.statistics.types import LEVEL

#: Nothing measured is larger, nothing positive smaller than its inverse; sums of squares of such numbers are finite.
_LARGEST = 1e100
#: A spread below this share of the numbers is their rounding, not noise.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Observed:
    """`levels` (L,) ascending and different; `values` (L, R), NaN where absent, at least one per level.

    `note`: what was absent, None where nothing was. `lost`: degrees of freedom that went into what was taken out of the
    values."""

    levels: Floats
    values: Floats
    note: str | None
    lost: int = 0

    @property
    def counts(self) -> Floats:
        """(L,) observations per level."""
        counts: Floats = np.isfinite(self.values).sum(axis=1).astype(np.float64)
        return counts

    @property
    def n(self) -> int:
        return int(self.counts.sum())

    @property
    def means(self) -> Floats:
        """(L,)"""
        return cast("Floats", np.nanmean(self.values, axis=1))

    @property
    def dof(self) -> int:
        """Degrees of freedom of the spread within levels: 0 without repeats."""
        return self.n - len(self.levels) - self.lost

    @property
    def variance(self) -> float:
        """Of one observation within its level, pooled over levels; NaN without repeats."""
        return float(np.square(self._residuals).sum() / self.dof) if self.dof else math.nan

    @property
    def _residuals(self) -> Floats:
        residuals = (self.values - self.means[:, None])[np.isfinite(self.values)]
        scale = float(np.abs(self.values[np.isfinite(self.values)]).max())
        return cast("Floats", np.where(np.abs(residuals) <= _ROUNDING * scale, 0.0, residuals))

    def without_passes(self) -> Observed:
        """The level of each pass (column) taken out: for a shape that does not depend on it, so that drift from pass to
        pass is no noise. The same where an observation is absent, as passes then hold different levels."""
        passes = self.values.shape[1]
        if passes < 2 or len(self.levels) < 2 or not np.isfinite(self.values).all():
            return self
        values = self.values - self.values.mean(axis=0) + self.values.mean()
        return Observed(self.levels, values, self.note, passes - 1)

    def resampled(self, seed: int, variance: float = 0.0) -> Floats:
        """(RESAMPLES, L) means with noise like theirs.

        Residuals of all levels are pooled and drawn with replacement, so three repeats a level are enough; scaled for
        the degrees of freedom they lost, and by t ÷ z for few of them. `variance`: of a mean, where a fit shows more
        than the repeats do; normal noise of it without repeats.
        """
        random = np.random.default_rng(seed)
        counts = self.counts
        shown = self.variance / float(counts.mean()) if self.dof else 0.0
        if not shown > 0:
            noise = random.standard_normal((RESAMPLES, len(counts))) * math.sqrt(variance)
            return self.means + noise
        pool = np.sort(self._residuals) * math.sqrt(self.n / self.dof)
        drawn = random.choice(pool, (RESAMPLES, len(counts), int(counts.max())))
        used = np.arange(drawn.shape[2]) < counts[:, None]
        widened = t_quantile((1 + LEVEL) / 2, self.dof) / normal_quantile((1 + LEVEL) / 2)
        widened *= math.sqrt(max(variance / shown, 1.0))
        found: Floats = self.means + widened * (drawn * used).sum(axis=2) / counts
        return found


def observe(levels: Floats, values: Floats, *, positive: bool = False) -> Observed:
    """Sort by level and leave out levels without any observation; `note` counts what was absent.

    `positive`: a value that is not above 0 cannot be one (a throughput, a step time) and counts as absent. Raises
    ValueError where the shapes are not (L,) and (L, R), or a level is given twice.
    """
    x = np.asarray(levels, dtype=np.float64)
    y = np.array(values, dtype=np.float64)
    if x.ndim != 1 or y.ndim != 2 or len(y) != len(x):
        raise ValueError(f"(L,) levels and (L, R) values expected, not {x.shape} and {y.shape}")
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    usable = (np.abs(y) <= _LARGEST) & ((y >= 1 / _LARGEST) | (not positive))
    y[~usable] = np.nan
    kept = usable.any(axis=1) & np.isfinite(x)
    if len(np.unique(x[kept])) < kept.sum():
        raise ValueError("a level is given twice")
    return Observed(x[kept], y[kept], _absent(x, usable))


def _absent(levels: Floats, usable: Bools) -> str | None:
    missing = int((~usable).sum())
    if not missing:
        return None
    whole = levels[~usable.any(axis=1)]
    note = f"{missing} of {usable.size} observations are absent"
    return f"{note}, all of {', '.join(f'{level:g}' for level in whole)}" if len(whole) else note


def joined(*parts: str | None) -> str | None:
    """Reasons in one sentence; None where there is none."""
    return "; ".join(part for part in parts if part) or None


def between(numbers: Floats, level: float = LEVEL) -> tuple[float, float]:
    """The middle share `level` of resampled numbers, infinities allowed; the outer one of the two nearest samples."""
    ordered = np.sort(numbers)
    k = max(math.floor((len(ordered) + 1) * (1 - level) / 2), 1)
    return float(ordered[k - 1]), float(ordered[-k])
