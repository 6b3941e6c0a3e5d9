"""All series of a soak judged together: a steady server is called drifting in at most 1 % of runs (docs/soak.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from loadgen.analyze.soak.dating import Drift, drift
from loadgen.analyze.soak.evidence import CORRELATIONS, STEADY_SERIES, p_values
from loadgen.analyze.soak.trends import Trend, slope_of
from loadgen.analyze.statistics import Floats, holm

#: Level of a run, over all its arms and stages, all their series and both tests of each. Half of the 1 % that is
#: promised: the other half is for what the tables of steady series do not know exactly, so that the promise can be
#: shown and not only hoped for.
FAMILY_LEVEL = 0.005
#: Windows a series needs to be judged: with fewer, series at the highest correlation cannot be told from a drift
MIN_WINDOWS = 40
#: Share of windows that differ from the most frequent value, at least
_DIFFERENT = 0.1


@dataclass(frozen=True)
class Series:
    """One number of a soak, window by window. `times_s`: middles of the windows that have it, seconds from the start;
    `values` in `unit`. `worse`: the sign of a change for the worse, 0 = neither. `reason`: why there is none, or why
    windows are missing."""

    name: str
    unit: str
    worse: int
    times_s: Floats
    values: Floats
    source: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """`p`: the smaller of the two tests', corrected for the whole run; None: not judged, for `reason`. `trend`
    wherever judged; `drift` where p <= the run's level."""

    series: Series
    p: float | None
    trend: Trend | None
    drift: Drift | None
    reason: str | None


def judge(series: Sequence[Series], level: float = FAMILY_LEVEL, families: int = 1) -> tuple[Judged, ...]:
    """Both tests on every series, corrected together (Holm 1979) and for the run's `families` (its arms and stages,
    Bonferroni): at most `level` of runs in which nothing changes have any drift in any of them."""
    reasons = [_unfit(one) for one in series]
    fit = [i for i, reason in enumerate(reasons) if reason is None]
    finer = _finer(2 * len(fit) * families, level)
    raw = {i: p_values(series[i].values[None, :], finer)[0] for i in fit}
    together = family_p(np.array([raw[i] for i in fit]).reshape(-1, 2), families)
    adjusted = dict(zip(fit, together, strict=True))
    found = []
    for i, one in enumerate(series):
        if i not in raw:
            found.append(Judged(one, None, None, None, reasons[i]))
            continue
        p = float(adjusted[i])
        dated = drift(one.times_s, one.values) if p <= level else None
        slope = slope_of(one.times_s, one.values, float(raw[i][0]))
        found.append(Judged(one, p, slope, dated, _doubt(one, dated)))
    return tuple(found)


def _doubt(series: Series, dated: Drift | None) -> str | None:
    if dated is None or dated.phi <= CORRELATIONS[-1]:
        return series.reason
    wandering = (
        f"beside the drift, windows follow each other at a correlation of {dated.phi:.2f}: a series that wanders, not "
        f"steady noise; above {CORRELATIONS[-1]:g} false alarms may be more frequent than promised"
    )
    return wandering if series.reason is None else f"{series.reason}; {wandering}"


def family_p(raw: Floats, families: int = 1) -> Floats:
    """(series, 2) p-values -> (series,): the smaller of the two after correction over all of them and all families."""
    if not len(raw):
        return np.zeros(0)
    return np.asarray(np.minimum(families * holm(raw.ravel()).reshape(raw.shape).min(axis=1), 1.0))


def _finer(tests: int, level: float) -> int:
    """How many times `STEADY_SERIES` the tables must hold for the smallest p there is, times `tests`, to reach
    `level`."""
    return max(ceil((tests / level - 1) / STEADY_SERIES), 1)


def _unfit(series: Series) -> str | None:
    """Why a series cannot be judged."""
    n = len(series.values)
    if n < MIN_WINDOWS:
        few = f"a drift needs at least {MIN_WINDOWS} windows with a value, there are {n}"
        return few if series.reason is None else f"{series.reason}; {few}" if n else series.reason
    _, counts = np.unique(series.values, return_counts=True)
    different = n - int(counts.max())
    if different < _DIFFERENT * n:
        return f"{different} of {n} windows differ from the most frequent value: too few to tell a drift"
    return None
