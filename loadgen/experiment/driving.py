"""The worker processes of a run: how many, and what they are told."""

from __future__ import annotations

import os
from collections.abc import Callable
from math import ceil

from loadgen.drive import DriveArm, Workers, WorkerSetup, asking_of, drive_limits_of
from loadgen.experiment.preflight import Preflight
from loadgen.plan import ClosedLoop, LengthModel, Plan
from loadgen.record import RunWriter
from loadgen.scenario import Limits, Scenario

#: What one worker is given at most, where there are cores for more: streams of a closed loop, requests a second
#: and output tokens a second of an open loop (each token a chunk). About half of what one core can do.
STREAMS, REQUESTS_PER_S, TOKENS_PER_S = 1024, 1000.0, 50_000.0


def worker_count(plan: Plan, cores: int) -> int:
    """One worker, unless the planned peak clearly needs more; one core is left to the coordinator and the scraper."""
    totals = plan.totals
    slots = [len(s.load.start_ns) for s in plan.segments if isinstance(s.load, ClosedLoop)]
    rate = totals.peak_rate_per_s or 0.0
    mean_tokens = (totals.output_tokens or 0) / totals.requests if totals.requests else 0.0
    needed = max(max(slots, default=0) / STREAMS, rate / REQUESTS_PER_S, rate * mean_tokens / TOKENS_PER_S)
    return max(1, min(ceil(needed), cores - 1))


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def make_workers(
    workers: int,
    scenario: Scenario,
    plan: Plan,
    lengths: LengthModel,
    ready: Preflight,
    limits: Limits,
    writer: RunWriter,
    *,
    shard: tuple[int, int] | None,
    on_ended: Callable[[int, int], None],
    on_lost: Callable[[str], None],
) -> Workers:
    """The run's workers, not yet started. The caps count the requests of all arms together: they may share hardware."""
    arms = tuple(
        DriveArm(name, arm.adapter, arm.targets, arm.model, arm.capabilities, scenario.workload.endpoint)
        for name, arm in ready.arms.items()
    )
    setup = WorkerSetup(
        arms=arms,
        plan=plan,
        lengths=lengths,
        limits=drive_limits_of(scenario.deadlines),
        asking=asking_of(scenario),
        redact=ready.redact,
        sinks=writer.sinks({segment.number: segment for segment in plan.segments}),
        shard=shard,
    )
    return Workers(
        setup,
        workers,
        max_requests=limits.max_requests,
        max_requests_per_second=limits.max_requests_per_second,
        on_ended=on_ended,
        on_lost=on_lost,
    )
