"""Whether a soak stayed as it began (docs/soak.md)."""

from __future__ import annotations

from typing import Literal

from loadgen.analyze.summary.base import Model, N


class DriftFound(Model):
    """A change that chance does not explain. Times: seconds from the first window's start. `size`: second level less
    `before`, in the series' unit; `share`: of `before`, null where that is 0. `worse` null: neither better nor worse.
    `matters`: at least as large as docs/soak.md says is worth a word. `shape`: "either" = sudden and slow both fit."""

    shape: Literal["jump", "ramp", "either"]
    start_s: float
    start_interval_s: tuple[float, float]
    end_s: float
    before: float
    size: float
    size_interval: tuple[float, float]
    share: float | None
    worse: bool | None
    matters: bool
    text: str


class SeriesTrend(Model):
    """One number, window by window. `p`: of no drift, corrected for all series of all arms and stages; null: not
    judged, for `reason`. `correlation`: from window to window, beside the trend."""

    name: str
    unit: str
    source: str
    n: int
    mean: float | None
    slope_per_h: N
    p: float | None
    correlation: float | None
    drift: DriftFound | None
    reason: str | None
    times_s: list[float]
    values: list[float]


class Stability(Model):
    """One arm in one stage of constant load. `state`: "drifting" where any drift matters, "too_short" where no series
    could be judged. `false_alarms_at_most`: of whole soaks of servers that do not change, with any drift in any arm or
    stage. `failure_rate`: of the requests that ended in the windows."""

    arm: str
    stage: str
    state: Literal["steady", "drifting", "too_short"]
    seconds: float
    windows: int
    window_s: float
    false_alarms_at_most: float
    failure_rate: N
    jitter: N
    jitter_between_minutes: N
    series: list[SeriesTrend]
