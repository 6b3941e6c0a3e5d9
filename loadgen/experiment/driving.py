"""The worker processes of a run: how many, and what they are told."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import ceil
from typing import Literal

import httpcore
import httpx

from loadgen.control import Sample
from loadgen.drive import (
    Deadlines,
    DriveArm,
    Tripped,
    Workers,
    WorkerSetup,
    asking_of,
    drive_limits_of,
    make_kernel_transport,
    make_transport,
)
from loadgen.experiment.places import with_places_exchanged
from loadgen.experiment.preflight import Preflight, targets_of
from loadgen.export import RunMetrics
from loadgen.plan import LengthModel, Plan, estimate
from loadgen.record import RunWriter
from loadgen.scenario import Limits, Reach, Scenario

#: What one worker is given at most, where there are cores for more. At the estimate's 50 tokens/s a stream, and a
#: chunk for each, that is about the 50,000 chunks/s that one core of a server sustains.
STREAMS, REQUESTS_PER_S = 1024, 1000.0

#: How the wire is read: httpx's own reading with stamps in user space, or our own with the kernel's.
TransportName = Literal["plain", "kernel"]
TRANSPORTS: Mapping[TransportName, Callable[..., httpx.AsyncBaseTransport]] = {
    "plain": make_transport,
    "kernel": make_kernel_transport,
}
#: The kernel's stamps where they are had: stamps in user space are late by what the loop is late (docs/accuracy.md).
DEFAULT_TRANSPORT: TransportName = "kernel" if sys.platform == "linux" else "plain"


def worker_count(plan: Plan, cores: int) -> int:
    """One worker, unless the planned peak clearly needs more; one core is left to the coordinator and the scraper."""
    peak = estimate(plan).peak
    needed = ceil(max(peak.streams / STREAMS, peak.requests_per_s / REQUESTS_PER_S))
    return max(1, min(needed, most_workers(cores)))


def most_workers(cores: int) -> int:
    """What a run takes at most unless it is told otherwise."""
    return max(1, cores - 1)


def transport_used(reach: Reach, asked: TransportName) -> str:
    """As manifest and report say it: `kernel`, or `plain (proxy)` where the arm cannot be read otherwise."""
    used = asked if reach.plain_because is None else f"plain ({reach.plain_because})"
    return used if reach.verify else f"{used}, certificates not checked"


def wire_of(reach: Reach, asked: TransportName, deadlines: Deadlines) -> httpx.AsyncBaseTransport:
    """The wire to an arm's servers, whatever way it is reached."""
    return TRANSPORTS[asked](deadlines) if reach.usual else _reaching(reach, asked, deadlines)


def _reaching(reach: Reach, asked: TransportName, deadlines: Deadlines) -> httpx.AsyncBaseTransport:
    """The wire of an arm that is not reached in the usual way."""
    context, addresses = reach.ssl_context(), dict(reach.resolve)
    if reach.plain_because is None:
        return TRANSPORTS[asked](deadlines, None, context, addresses=addresses)
    proxy = None if reach.proxy is None else httpcore.Proxy(reach.proxy, auth=_as_bytes(reach.proxy_account()))
    return make_transport(deadlines, None, context, proxy, reach.http2, addresses)


def _lower(header: str | None) -> str | None:
    return None if header is None else header.lower()


def _as_bytes(account: tuple[str, str] | None) -> tuple[bytes, bytes] | None:
    return None if account is None else (account[0].encode(), account[1].encode())


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
    transport: TransportName,
    on_ended: Callable[[int, int], None],
    on_lost: Callable[[str], None],
    on_waiting: Callable[[str], None],
    on_samples: Callable[[Sequence[Sample]], None],
    watched: bool,
    metrics: RunMetrics | None,
    on_tripped: Callable[[Tripped], None],
) -> Workers:
    """The run's workers, not yet started. The caps count the requests of all arms together: they may share hardware."""
    exchanged = with_places_exchanged(scenario)
    arms = tuple(
        DriveArm(
            name,
            arm.adapter,
            arm.targets,
            arm.model,
            arm.capabilities,
            scenario.workload.endpoint,
            targets_of(exchanged.arms[name]),
            _lower(scenario.arms[name].served_by_header),
        )
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
        transport=TRANSPORTS[transport],
        transports={a.name: partial(_reaching, a.reach, transport) for a in ready.arms.values() if not a.reach.usual},
        watched=watched,
        teller=None if metrics is None else metrics.tally,
        breaker_failures=limits.breaker_failures,
    )
    return Workers(
        setup,
        workers,
        max_requests=limits.max_requests,
        max_requests_per_second=limits.max_requests_per_second,
        on_ended=on_ended,
        on_lost=on_lost,
        on_waiting=on_waiting,
        on_samples=on_samples,
        on_tripped=on_tripped,
        on_told=(lambda _told: None) if metrics is None else metrics.told,
    )
