"""One run: every segment of the plan between its idle edges, then the summary."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from loadgen.analyze import ExperimentResult, Summary
from loadgen.errors import StorageError
from loadgen.experiment.afterwards import Afterwards
from loadgen.experiment.before import refuse_beyond, refuse_unwritable, with_baseline
from loadgen.experiment.budget import fit_time
from loadgen.experiment.ceiling import cpu_count
from loadgen.experiment.companion import Companion
from loadgen.experiment.context import check_context
from loadgen.experiment.driving import DEFAULT_TRANSPORT, TransportName, worker_count
from loadgen.experiment.judging import judged_run
from loadgen.experiment.lengths import measure_lengths
from loadgen.experiment.manifest import manifest_of
from loadgen.experiment.places import found_ready
from loadgen.experiment.preflight import Preflight, redactor_of
from loadgen.experiment.progress import Progress
from loadgen.experiment.segments import Prepared, Segments
from loadgen.experiment.servers import ArmServers, arm_servers
from loadgen.export import Metrics, RunMetrics, task_types
from loadgen.plan import Fitted, build_plan
from loadgen.record import RunData, RunWriter, new_run_id
from loadgen.scenario import LoadedScenario, limits_of
from loadgen.verdict import Verdict


@dataclass(frozen=True)
class RunOptions:
    """How to run, apart from what to run. `shard` (i, n): take that share of every segment. `workers`: processes
    that drive it; None = as many as the plan needs (`worker_count`). `transport`: how the wire is read."""

    out: Path
    overrides: tuple[str, ...] = ()
    shard: tuple[int, int] | None = None
    workers: int | None = None
    transport: TransportName = DEFAULT_TRANSPORT
    #: fit the scenario into so many seconds, by the pace of the servers at the preflight
    time_budget_s: float | None = None
    #: where the run's live metrics go; None = nobody asked for them
    metrics: Metrics | None = None
    #: arms that are elsewhere than their scenario says
    arm_urls: Mapping[str, str] = field(default_factory=dict)
    #: what goes on beside the measured load
    companion: Companion | None = None
    #: changes the scenario by what was found at the servers; with what is to be said of it
    adapted: Callable[[LoadedScenario, Preflight], tuple[LoadedScenario, tuple[str, ...]]] | None = None
    #: what is asked after the load
    afterwards: Afterwards | None = None
    #: an earlier run that this one is held against
    reference: Path | None = None
    #: makes of the run directory what the experiment found
    read: Callable[[RunData], ExperimentResult] | None = None
    #: name of the run directory; None: a new one
    run_id: str | None = None
    #: who interrupts, in the words of the report, asked when it happens
    interrupted_by: Callable[[], str] = lambda: "the user"
    #: what is said to whoever has interrupted it once, of interrupting it again; empty: nothing
    cuts: str = "Ctrl-C again cuts them"
    #: hears what others than ourselves said, masked: for who runs this machine; None: said to who watches the run
    log: Callable[[str], None] | None = None


@dataclass(frozen=True)
class RunResult:
    """`state`: finished, interrupted (by the user), stopped (by a threshold with abort_on_fail), inconclusive (a worker
    died) or failed (ended by control); all but the first with `reason`."""

    path: Path
    summary: Summary
    state: str
    reason: str | None
    verdict: Verdict | None = None
    #: what an experiment found that is more than a run
    found: ExperimentResult | None = None


async def run_scenario(loaded: LoadedScenario, options: RunOptions, progress: Progress) -> RunResult:
    """Preflight, drive, record, analyze. Raises ScenarioError, TargetUnusable or StorageError before any
    load; afterwards everything measured is kept and a summary is written, whatever happens."""
    if options.time_budget_s is None:
        refuse_beyond(build_plan(loaded), limits_of(loaded.scenario))
    refuse_unwritable(options.out)
    run_id = options.run_id or new_run_id(loaded.scenario.name)
    logs = options.out / run_id / "servers"
    async with arm_servers(logs, redactor_of(loaded.scenario), progress.say) as servers:
        ready = await found_ready(loaded.scenario, servers)
        loaded, said = with_baseline(loaded, ready)
        if options.adapted is not None:
            loaded, more = options.adapted(loaded, ready)
            said = (*said, *more)
        fitted = None
        if options.time_budget_s is not None:
            fitted = await fit_time(loaded, options.time_budget_s, ready, servers.start_s)
            loaded = fitted.loaded
        prepared, notes = await _prepared(run_id, loaded, fitted, ready, servers, options)

        state, reason = await _driven(prepared, (*said, *notes), progress)
    judged, found = judged_run(prepared.writer.path, options.read, progress)
    if prepared.metrics is not None:
        prepared.metrics.judged(judged.summary, judged.verdict)
    return RunResult(prepared.writer.path, judged.summary, state, reason, judged.verdict, found)


async def _prepared(
    run_id: str,
    loaded: LoadedScenario,
    fitted: Fitted | None,
    ready: Preflight,
    servers: ArmServers,
    options: RunOptions,
) -> tuple[Prepared, tuple[str, ...]]:
    """Everything up to the first request; and what is to be said about it."""
    limits, plan = limits_of(loaded.scenario), build_plan(loaded)
    refuse_beyond(plan, limits)
    notes = (*ready.notes, *check_context(plan, ready, loaded.scenario.experiment == "soak"), *plan.design.marks)
    lengths = await measure_lengths(loaded, ready)
    manifest = manifest_of(
        run_id,
        loaded,
        plan,
        lengths,
        ready,
        overrides=options.overrides,
        arm_urls=options.arm_urls,
        shard=options.shard,
        workers=options.workers or worker_count(plan, cpu_count()),
        transport=options.transport,
        budget=fitted,
    )
    writer = RunWriter(options.out, manifest, ready.redact)
    metrics = None
    if options.metrics is not None:
        metrics = RunMetrics(
            options.metrics, loaded.scenario, plan.segments, task_types(loaded), manifest, manifest.anchors[0]
        )
    prepared = Prepared(
        loaded.scenario, plan, limits, lengths, ready, servers, writer, options.shard, options.transport, metrics,
        options.companion,
        options.afterwards,
        options.interrupted_by,
        options.cuts,
        options.log,
    )  # fmt: skip
    return prepared, notes if fitted is None else (fitted.sentence(), *notes)


async def _driven(prepared: Prepared, notes: tuple[str, ...], progress: Progress) -> tuple[str, str | None]:
    """Drive it, and close the records whatever happens."""
    segments = Segments(prepared, progress)
    state: str = "failed"
    reason: str | None = "internal error"
    with _interrupts(segments.interrupt):
        progress.started(prepared.plan, prepared.writer.path, notes)
        try:
            state, reason = await segments.everything()
        finally:
            lost = _close(prepared.writer, state, reason, segments)
            if prepared.metrics is not None:
                prepared.metrics.over()
    return (state, reason) if lost is None else ("failed", str(lost))


def _close(writer: RunWriter, state: str, reason: str | None, segments: Segments) -> StorageError | None:
    """Close the records; an error while writing them is the run's result, not the end of its report."""
    servers = segments.standing.servers
    try:
        writer.manifest.comparison |= {"warmups": segments.warmups.facts(), "hooks": servers.facts()}
        writer.finish(state, reason, lengths=asdict(segments.lengths), workers=segments.ends)
    except StorageError as error:
        return error
    return None


@contextmanager
def _interrupts(handler: Callable[[], None]) -> Iterator[None]:
    """SIGINT and SIGTERM go to `handler` while the run lives, and until its records are closed."""
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, handler)
    try:
        yield
    finally:
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(name)
