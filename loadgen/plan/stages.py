"""One stage of the scenario as load: its measured part and its warm-up."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from loadgen.plan.arrivals import arrivals
from loadgen.plan.slots import plateau, ramp
from loadgen.plan.types import ClosedLoop, Executor, OpenLoop
from loadgen.scenario import ArrivalStage, ConcurrencyStage, Ramp, Scenario, Warmup, ends_by_time

#: Warm-up of an open loop runs with the requests of one second at the peak rate, at most so many.
_WARM_UP_SECONDS = 1.0
_WARM_UP_MOST = 64


@dataclass(frozen=True, slots=True)
class StagePlan:
    """`load` is driven against every arm in every repeat, after `warmup` (None where there is none).

    `concurrency`, `rate_per_s`: the level of a plateau, None for a ramp and for the other executor.
    `peak_rate_per_s`: highest rate of an open loop. `warmup` is one window of it. `paired`: every arm answers the same
    requests, because the stage ends by its cases or its arrivals, not by time alone.
    """

    name: str
    executor: Executor
    duration_ns: int | None
    concurrency: int | None
    rate_per_s: float | None
    peak_rate_per_s: float | None
    load: OpenLoop | ClosedLoop
    warmup: ClosedLoop | None
    warmup_ns: int | None
    paired: bool


def plan_stages(scenario: Scenario) -> tuple[StagePlan, ...]:
    """The stages in order."""
    return tuple(
        _closed(stage, scenario.warmup)
        if isinstance(stage, ConcurrencyStage)
        else _open(stage, scenario.warmup, scenario.seed, index)
        for index, stage in enumerate(scenario.load)
    )


def _closed(stage: ConcurrencyStage, warmup: Warmup) -> StagePlan:
    duration_ns = None if stage.duration_s is None else round(stage.duration_s * 1e9)
    level = stage.concurrency
    if isinstance(level, Ramp):
        assert duration_ns is not None, "the scenario's check: a ramp has a duration"
        start_ns, stop_ns = ramp(level.start, level.end, duration_ns)
    else:
        start_ns, stop_ns = plateau(level, duration_ns)
    return StagePlan(
        name=stage.name,
        executor="concurrency",
        duration_ns=duration_ns,
        concurrency=None if isinstance(level, Ramp) else level,
        rate_per_s=None,
        peak_rate_per_s=None,
        load=ClosedLoop(start_ns, stop_ns, first_index=0, index_step=1, cases=stage.cases, end="first"),
        warmup=_warm_up(len(start_ns), warmup),
        warmup_ns=_warm_up_ns(warmup),
        paired=not ends_by_time(stage),
    )


def _open(stage: ArrivalStage, warmup: Warmup, seed: int, index: int) -> StagePlan:
    duration_ns = round(stage.duration_s * 1e9)
    rate = stage.rate_per_s
    first, last = (rate.start, rate.end) if isinstance(rate, Ramp) else (rate, rate)
    due_ns = arrivals(stage.arrivals, first, last, duration_ns, stage.burstiness, seed, "arrivals", index)
    concurrency = min(stage.max_in_flight, _WARM_UP_MOST, ceil(stage.peak * _WARM_UP_SECONDS))
    return StagePlan(
        name=stage.name,
        executor="arrival_rate",
        duration_ns=duration_ns,
        concurrency=None,
        rate_per_s=None if isinstance(rate, Ramp) else rate,
        peak_rate_per_s=stage.peak,
        load=OpenLoop(due_ns, np.arange(len(due_ns), dtype=np.int64), stage.max_in_flight, stage.when_full),
        warmup=_warm_up(concurrency, warmup),
        warmup_ns=_warm_up_ns(warmup),
        paired=True,
    )


def _warm_up(concurrency: int, warmup: Warmup) -> ClosedLoop | None:
    """A closed loop, also before an open one: it leaves no backlog behind (sysbench#408).

    All slots start at once: so few requests would be over before a staggered level is reached.
    """
    cases = max(3, 2 * concurrency) if warmup.warmup_requests is None else warmup.warmup_requests
    if cases == 0 and warmup.warmup_seconds == 0:
        return None
    stop_ns = np.full(concurrency, _warm_up_ns(warmup) or 0, dtype=np.int64)
    return ClosedLoop(np.zeros_like(stop_ns), stop_ns, first_index=0, index_step=1, cases=cases, end="both")


def _warm_up_ns(warmup: Warmup) -> int | None:
    return round(warmup.warmup_seconds * 1e9) or None
