"""The contract of sweep_summary.json (schema 1): what a sweep's points measured, and what follows from them together.

Units and absence as in summary.json: seconds, ratios 0–1, rates per second; a number that could not be had is null
with a reason beside it. A *point* is one setting of all axes, a *visit* one run of it; `where` names the settings of
the other axes that a result holds for, so that nothing is said beyond what was measured.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from loadgen.analyze.summary import Finding, Interval
from loadgen.analyze.summary.base import Model, N

SWEEP_SCHEMA = 1

#: Value of an axis: a level, a rate, tokens, k, a temperature, or the name of a task type.
AxisValue = int | float | str
Where = dict[str, AxisValue]
PointState = Literal["done", "failed", "skipped", "interrupted", "pending"]


class TaskNumbers(Model):
    """One task type within a point: numbers by metric name and arm, and the speedup where arms are paired."""

    numbers: dict[str, dict[str, Interval]]
    speedup: Interval | None = None


class PointResult(Model):
    """One visit of one point. `number`: place in the order of the sweep; `index`: of the point on the grid.

    `state`: done (a run whose numbers count), failed (with `reason`: the server did not start, the preflight or the
    run failed, or its measurement is invalid), skipped (the time budget was spent), interrupted (its run directory is
    kept, `run_id` names it, and the visit is to be made again), pending. `numbers`: by metric name, then by arm.
    `arm`: the one that the point's settings are about, the candidate of `speedup`. `speedup`: paired within the run
    where it has a baseline arm, else against the baseline's point of the same visit, which is then said in its method.
    """

    number: int
    index: int
    repeat: int  # the pass over the grid that it belongs to: visits of one pass are paired
    visit: int  # of this point, counted over all passes
    values: Where
    baseline: bool
    state: PointState
    reason: str | None = None
    directory: str | None = None  # relative to the sweep's
    run_id: str | None = None
    arm: str
    at_s: float | None = None  # begin, from the sweep's begin, across resumes
    took_s: float | None = None
    validity: Literal["valid", "doubtful", "invalid"] | None = None
    numbers: dict[str, dict[str, Interval]] = Field(default_factory=dict)
    speedup: Interval | None = None
    e_decode: Interval | None = None
    c: Interval | None = None
    per_position: dict[str, list[N]] = Field(default_factory=dict)
    by_task: dict[str, TaskNumbers] = Field(default_factory=dict)
    reasons: dict[str, str] = Field(default_factory=dict)


class CurvePoint(Model):
    """`value`: over the visits of this level; `visits`: what each measured, null where it did not."""

    level: AxisValue
    value: Interval
    visits: list[float | None]


class Curve(Model):
    """One number of one arm along one axis, the other axes held. Metric "speedup": of `arm` over the baseline."""

    axis: str
    where: Where
    metric: str
    arm: str
    unit: str
    lower_is_better: bool | None
    points: list[CurvePoint]


class KneeResult(Model):
    """Where more load stops giving more. `saturated`: levels from which throughput is flat, to the last one tested."""

    axis: str
    where: Where
    arm: str
    knee: Interval
    saturated: tuple[float, float] | None
    sentence: str


class StopsPaying(Model):
    """The level at which the speedup falls to 1."""

    axis: str
    where: Where
    arm: str
    level: Interval
    sentence: str


class BestKResult(Model):
    """`k`: best by `metric`; `not_worse`: those that are not shown to be worse, k itself included. 0 = off."""

    where: Where
    metric: str
    k: int | None
    not_worse: list[int]
    value: Interval
    reason: str | None = None
    sentence: str


class CostResult(Model):
    """c(k) = 1 + a + b·k, the cost of a decode step over a plain one. `label` is always "estimate"."""

    where: Where
    c: dict[int, Interval]
    intercept: Interval
    per_draft: Interval
    residual: float | None
    label: str
    draft_s: Interval | None = None
    verify_s: Interval | None = None
    reason: str | None = None
    sentence: str


class AdviceAt(Model):
    """What replaying the accepted sequences predicts at one k, beside what was measured there, if it was."""

    k: int
    e: Interval
    c: Interval
    speedup: Interval
    measured_e: Interval | None = None
    measured_speedup: Interval | None = None
    agrees: bool | None = None
    reason: str | None = None


class AdviceResult(Model):
    """The draft-length advisor (docs/method.md): from the runs at `k_max`. `best` 0 = off."""

    where: Where
    k_max: int
    source: str
    label: str
    at: list[AdviceAt]
    best: int | None
    not_worse: list[int]
    reason: str | None = None
    sentence: str


class DecayResult(Model):
    """How one number goes with the input length. `limit`: prompt tokens from which acceptance is about 0."""

    where: Where
    arm: str
    metric: str
    per_doubling: Interval
    per_1k_tokens: Interval
    limit: Interval | None = None
    sentence: str


class RateVisit(Model):
    """One run of the search for the maximum rate."""

    rate_per_s: float
    outcome: Literal["pass", "fail", "inconclusive"]
    why: str
    directory: str | None = None


class MaxRateResult(Model):
    """The highest arrival rate within the SLOs. `state` unresolved: `reason` says why, the bracket is what is left."""

    where: Where
    arm: str
    slo: list[str]
    state: Literal["resolved", "unresolved"]
    rate_per_s: Interval
    visits: list[RateVisit]
    reason: str | None = None
    sentence: str


class DriftPoint(Model):
    at_s: float
    value: float


class Drift(Model):
    """The baseline points over the time of the sweep: what changed by itself. `change`: last to first, as a ratio, from
    the fitted line."""

    metric: str
    arm: str
    points: list[DriftPoint]
    change: Interval
    significant: bool | None
    sentence: str


class SweepSummary(Model):
    """`reasons`: why a part is empty, by its name. `totals`: visits by state. `by_task`: curves of the task types of a
    mix, where the points have more than one."""

    schema_version: int = Field(SWEEP_SCHEMA, alias="schema")
    sweep_id: str
    name: str
    objective: str
    plan_hash: str
    finished: bool
    axes: dict[str, list[AxisValue]]
    arms: list[str]
    baseline: Where
    totals: dict[str, int]
    seconds: float
    points: list[PointResult]
    curves: list[Curve]
    by_task: list[Curve] = Field(default_factory=list)
    knee: list[KneeResult]
    stops_paying: list[StopsPaying]
    best_k: list[BestKResult]
    cost: list[CostResult]
    advice: list[AdviceResult]
    decay: list[DecayResult]
    max_rate: list[MaxRateResult]
    drift: list[Drift]
    findings: list[Finding]
    reasons: dict[str, str]
    conditions: dict[str, Any]
