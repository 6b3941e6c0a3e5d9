"""A run's soak to its part of the summary: every arm in every stage of constant load (docs/soak.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from loadgen.analyze.arms import ArmData
from loadgen.analyze.groups import Group, groups_of
from loadgen.analyze.latency import pace
from loadgen.analyze.soak.dating import Drift
from loadgen.analyze.soak.family import Judged, judge
from loadgen.analyze.soak.series import KINDS, Kind, series_of
from loadgen.analyze.soak.windows import windows_over
from loadgen.analyze.soak.words import sentence
from loadgen.analyze.summary import Absent, DriftFound, N, SeriesTrend, Stability
from loadgen.analyze.values import CLIENT, absent, ratio
from loadgen.record import RunData

NO_SOAK = "not a soak: the scenario says no experiment: soak"
NO_STAGE = "no stage of constant load was measured"
#: What `FAMILY_LEVEL` promises of a run, whatever its number of arms and stages
FALSE_ALARMS = 0.01
HOUR_S = 3600.0


def stability_of(run: RunData, arms: Mapping[str, ArmData]) -> Absent | list[Stability]:
    """Only of runs whose scenario is a soak. Each arm in each stage is a family; the promise is the run's, so each is
    corrected for their number, too."""
    if run.manifest.scenario.get("experiment") != "soak":
        return Absent(reason=NO_SOAK)
    parts = [(data, stage, group) for data in arms.values() for stage, group in _stages(data).items()]
    found = [stability(run, data, stage, group, len(parts)) for data, stage, group in parts]
    return found or Absent(reason=NO_STAGE)


def _stages(data: ArmData) -> dict[str, Group]:
    """Stages whose load stands; a ramp is meant to change things."""
    return {
        g.stage: g
        for g in groups_of(data.frame, data.windows)
        if g.stage is not None
        and g.task_type is None
        and all(w.phase.concurrency is not None or w.phase.rate_per_s is not None for w in g.windows)
    }


def stability(run: RunData, data: ArmData, stage: str, group: Group, families: int) -> Stability:
    """Of one arm in one stage, of the `families` that the run has."""
    windows = windows_over([w for w in data.windows if w.phase.stage == stage])
    judged = judge(series_of(run, data, stage, windows), families=families)
    shown = [_shown(one) for one in judged]
    frame, rows = data.frame, group.rows
    known = pace(frame, rows)
    return Stability(
        arm=frame.arm,
        stage=stage,
        state=_state(shown),
        seconds=windows.seconds,
        windows=windows.n,
        window_s=windows.seconds / windows.n if windows.n else 0.0,
        false_alarms_at_most=FALSE_ALARMS,
        failure_rate=ratio(float((~frame.net[rows]).sum()), len(rows), CLIENT, "no request was sent"),
        jitter=known["jitter"],
        jitter_between_minutes=known["jitter_between_minutes"],
        series=shown,
    )


def _state(series: list[SeriesTrend]) -> Literal["steady", "drifting", "too_short"]:
    if any(s.drift is not None and s.drift.matters for s in series):
        return "drifting"
    return "steady" if any(s.p is not None for s in series) else "too_short"


def _shown(judged: Judged) -> SeriesTrend:
    series, trend = judged.series, judged.trend
    slope = absent(judged.reason or "not judged", len(series.values), series.source)
    if trend is not None:
        per_h = [v * HOUR_S for v in (trend.slope_per_s, trend.low, trend.high)]
        slope = N(value=per_h[0], low=per_h[1], high=per_h[2], n=trend.n, source=series.source)
    return SeriesTrend(
        name=series.name,
        unit=series.unit,
        source=series.source,
        n=len(series.values),
        mean=float(series.values.mean()) if len(series.values) else None,
        slope_per_h=slope,
        p=judged.p,
        correlation=None if trend is None else trend.phi,
        drift=None if judged.drift is None else _found(series.name, KINDS[series.name], judged.drift),
        reason=judged.reason,
        times_s=series.times_s.tolist(),
        values=series.values.tolist(),
    )


def _found(name: str, kind: Kind, drift: Drift) -> DriftFound:
    share = drift.size / drift.before if drift.before > 0 else None
    size = (share if share is not None else float("inf")) if kind.relative else drift.size
    return DriftFound(
        shape=drift.shape,
        start_s=drift.start_s,
        start_interval_s=(drift.start_low_s, drift.start_high_s),
        end_s=drift.end_s,
        before=drift.before,
        size=drift.size,
        size_interval=(drift.size_low, drift.size_high),
        share=share,
        worse=None if not kind.worse else kind.worse * drift.size > 0,
        matters=abs(size) >= kind.matters,
        text=sentence(name, kind.unit, drift),
    )
