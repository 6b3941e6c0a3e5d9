"""All series of a soak judged together: a steady server is called drifting in at most 1 % of runs (docs/soak.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loadgen.analyze.soak.dating import Drift, drift
from loadgen.analyze.soak.evidence import CORRELATIONS, p_values
from loadgen.analyze.soak.trends import Trend, slope_of
from loadgen.analyze.statistics import Floats, holm

#: Level of a run, over all its series and both tests of each. Half of the 1 % that is promised: the other half is for
#: what the tables of steady series do not know exactly, so that the promise can be shown and not only hoped for.
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
    """`p`: the smaller of the two tests', corrected for the whole family; None: not judged, for `reason`. `trend`
    wherever judged; `drift` where p <= the family's level."""

    series: Series
    p: float | None
    trend: Trend | None
    drift: Drift | None
    reason: str | None


def judge(series: Sequence[Series], level: float = FAMILY_LEVEL) -> tuple[Judged, ...]:
    """Both tests on every series, corrected together (Holm 1979): at most `level` of runs in which nothing changes
    have any drift."""
    reasons = [_unfit(one) for one in series]
    fit = [i for i, reason in enumerate(reasons) if reason is None]
    raw = {i: p_values(series[i].values[None, :])[0] for i in fit}
    adjusted = dict(zip(fit, family_p(np.array([raw[i] for i in fit]).reshape(-1, 2)), strict=True))
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


def family_p(raw: Floats) -> Floats:
    """(series, 2) p-values -> (series,): the smaller of the two after correction over all of them."""
    return np.asarray(holm(raw.ravel()).reshape(raw.shape).min(axis=1)) if len(raw) else np.zeros(0)


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
