"""One run: every segment of the plan between its idle edges, then the summary."""

from __future__ import annotations

import asyncio
import signal
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol

from loadgen.analyze import Summary
from loadgen.clock import now_ns
from loadgen.control import Live, decide
from loadgen.drive import SegmentResult, StopReason, WorkerEnd
from loadgen.errors import StorageError, TargetUnusable
from loadgen.experiment.before import refuse_beyond, refuse_unwritable
from loadgen.experiment.budget import fit_time
from loadgen.experiment.ceiling import cpu_count
from loadgen.experiment.context import check_context
from loadgen.experiment.driving import TransportName, make_workers, worker_count
from loadgen.experiment.judging import Judged, judge_run, save_judged, save_report
from loadgen.experiment.lengths import measure_lengths
from loadgen.experiment.manifest import manifest_of
from loadgen.experiment.places import Standing, found_ready
from loadgen.experiment.preflight import Preflight, redactor_of
from loadgen.experiment.servers import ArmServers, arm_servers
from loadgen.experiment.warmups import WarmUps
from loadgen.experiment.watching import Watch
from loadgen.observe import Edge, Idle, Scrape
from loadgen.plan import Fitted, LengthModel, Plan, Segment, build_plan, correct_lengths
from loadgen.record import PhaseRecord, RunWriter, open_run
from loadgen.scenario import Limits, LoadedScenario, limits_of
from loadgen.verdict import Verdict

CONTROL_INTERVAL_S = 0.5
#: Between all workers having said ready and a segment's time zero: the drivers' set-up must not make arrivals late.
START_LEAD_NS = 250_000_000
#: A wait for an idle server longer than this is said.
SAY_AFTER_S = 1.5
#: An arm's server that was idle so shortly before is not looked at again for it.
STILL_IDLE_NS = 1_000_000_000
#: How long a server is waited for that was busy all through idle_wait_s before.
BUSY_WAIT_S = 2.0
#: Queue lengths kept for control: the latest scrapes of one arm.
WAITING_KEPT = 8


class Progress(Protocol):
    """Who watches a run. Called on the coordinator's loop: must be cheap."""

    def started(self, plan: Plan, path: Path, notes: tuple[str, ...]) -> None: ...

    def segment(self, segment: Segment, number: int, total: int) -> None: ...

    def ended(self, requests: int, failed: int) -> None:
        """So many more requests have ended, of which so many were neither ok nor cut by ourselves."""

    def live(self, segment: Segment, live: Live) -> None: ...

    def say(self, text: str) -> None: ...


@dataclass(frozen=True)
class RunOptions:
    """How to run, apart from what to run. `shard` (i, n): take that share of every segment. `workers`: processes
    that drive it; None = as many as the plan needs (`worker_count`). `transport`: how the wire is read."""

    out: Path
    overrides: tuple[str, ...] = ()
    shard: tuple[int, int] | None = None
    workers: int | None = None
    transport: TransportName = "plain"
    #: fit the scenario into so many seconds, by the pace of the servers at the preflight
    time_budget_s: float | None = None


@dataclass(frozen=True)
class RunResult:
    """`state`: finished, interrupted (by the user), stopped (by a threshold with abort_on_fail), inconclusive (a worker
    died) or failed (ended by control); all but the first with `reason`."""

    path: Path
    summary: Summary
    state: str
    reason: str | None
    verdict: Verdict | None = None


async def run_scenario(loaded: LoadedScenario, options: RunOptions, progress: Progress) -> RunResult:
    """Preflight, drive, record, analyze. Raises ScenarioError, TargetUnusable or StorageError before any
    load; afterwards everything measured is kept and a summary is written, whatever happens."""
    if options.time_budget_s is None:
        refuse_beyond(build_plan(loaded), limits_of(loaded.scenario))
    refuse_unwritable(options.out)
    async with arm_servers(redactor_of(loaded.scenario), progress.say) as servers:
        ready = await found_ready(loaded.scenario, servers)
        fitted = None
        if options.time_budget_s is not None:
            fitted = await fit_time(loaded, options.time_budget_s, ready, servers.start_s)
            loaded = fitted.loaded
        run, notes = await _prepared(loaded, fitted, ready, servers, progress, options)
        state, reason = await _driven(run, notes)
    judged = _judged(run.writer.path, progress)
    return RunResult(run.writer.path, judged.summary, state, reason, judged.verdict)


async def _prepared(
    loaded: LoadedScenario,
    fitted: Fitted | None,
    ready: Preflight,
    servers: ArmServers,
    progress: Progress,
    options: RunOptions,
) -> tuple[_Run, tuple[str, ...]]:
    """Everything up to the first request; and what is to be said about it."""
    limits, plan = limits_of(loaded.scenario), build_plan(loaded)
    refuse_beyond(plan, limits)
    notes = (*ready.notes, *check_context(plan, ready), *plan.design.marks)
    lengths = await measure_lengths(loaded, ready)
    manifest = manifest_of(
        loaded,
        plan,
        lengths,
        ready,
        overrides=options.overrides,
        shard=options.shard,
        workers=options.workers or worker_count(plan, cpu_count()),
        transport=options.transport,
        budget=fitted,
    )
    writer = RunWriter(options.out, manifest, ready.redact)
    run = _Run(loaded, plan, limits, lengths, ready, servers, writer, progress, options)
    return run, notes if fitted is None else (fitted.sentence(), *notes)


async def _driven(run: _Run, notes: tuple[str, ...]) -> tuple[str, str | None]:
    """Drive it, and close the records whatever happens."""
    state: str = "failed"
    reason: str | None = "internal error"
    with _interrupts(run.interrupt):
        run.progress.started(run.plan, run.writer.path, notes)
        try:
            state, reason = await run.everything()
        finally:
            lost = _close(run.writer, state, reason, run)
    return (state, reason) if lost is None else ("failed", str(lost))


def _close(writer: RunWriter, state: str, reason: str | None, run: _Run) -> StorageError | None:
    """Close the records; an error while writing them is the run's result, not the end of its report."""
    try:
        writer.manifest.comparison |= {"warmups": run.warmups.facts(), "hooks": run.standing.servers.facts()}
        writer.finish(state, reason, lengths=asdict(run.lengths), workers=run.ends)
        run.standing.servers.keep_logs(writer.path / "servers")
    except StorageError as error:
        return error
    return None


def _judged(path: Path, progress: Progress) -> Judged:
    run = open_run(path)
    judged = judge_run(run)
    try:
        save_judged(path, judged)
    except StorageError as error:
        progress.say(str(error))
    try:
        save_report(path, judged.summary, run.manifest)
    except Exception as error:  # a page that cannot be made must not cost the run its summary and its exit code
        progress.say(f"report.html was not written: {error}")
    return judged


class _Run:
    def __init__(
        self,
        loaded: LoadedScenario,
        plan: Plan,
        limits: Limits,
        lengths: LengthModel,
        ready: Preflight,
        servers: ArmServers,
        writer: RunWriter,
        progress: Progress,
        options: RunOptions,
    ) -> None:
        self.scenario = loaded.scenario
        self.plan = plan
        self.limits = limits
        self.lengths = lengths
        self.ready = ready
        self.warmups = WarmUps(self.scenario.warmup)
        self.idle_since: dict[str, int] = {}
        self.never_idle: set[str] = set()
        self.writer = writer
        self.progress = progress
        self.ends: list[WorkerEnd] = []
        self.watch = Watch(self.scenario, plan)
        self.broke_threshold = False
        self.workers = make_workers(
            writer.manifest.workers, self.scenario, plan, lengths, ready, limits, writer,
            shard=options.shard, transport=options.transport, on_ended=progress.ended, on_lost=self._lost,
            on_samples=self.watch.take, watched=self.watch.any,
        )  # fmt: skip
        self.waiting: dict[str, deque[float]] = {name: deque(maxlen=WAITING_KEPT) for name in ready.arms}
        self.standing = Standing(self.scenario, plan, ready, servers, self._scraped)
        self.stop_reason: str | None = None
        self.lost: str | None = None
        self.interrupted = asyncio.Event()

    async def everything(self) -> tuple[str, str | None]:
        try:
            await asyncio.gather(self.standing.scraper.start(), self.workers.start())
            await self._segments()
        finally:
            self.ends, _ = await asyncio.gather(self.workers.close(), self.standing.scraper.stop())
            try:
                await self.standing.servers.close()
            except TargetUnusable as error:
                self._stop(str(error), "policy")
        if self.interrupted.is_set():
            return "interrupted", self.stop_reason
        if self.lost is not None:
            return "inconclusive", self.lost
        if self.broke_threshold:
            return "stopped", self.stop_reason
        return ("failed", self.stop_reason) if self.stop_reason else ("finished", None)

    async def _segments(self) -> None:
        groups: dict[int, list[Segment]] = defaultdict(list)
        for segment in self.plan.segments:
            groups[segment.group].append(segment)
        for number, group in enumerate(groups.values()):
            if self.stop_reason:
                return
            wanted = [segment for segment in group if self.warmups.wanted(segment)]
            if not wanted or not await self._in_place(wanted[0]):
                continue
            for segment in wanted:
                self.progress.segment(segment, number, len(groups))
            idle = await asyncio.gather(*(self._edge(segment, "start") for segment in wanted))
            await self.workers.prepare(wanted, self.lengths)
            begin = now_ns() + START_LEAD_NS
            await asyncio.gather(*(self._segment(s, begin, i) for s, i in zip(wanted, idle, strict=True)))

    async def _in_place(self, segment: Segment) -> bool:
        """The servers that the segment needs stand where it asks them. False where they could not be brought there,
        which ends the run, or where that was interrupted."""
        if self.standing.fits(segment):
            return True
        self.idle_since.clear()
        moving = asyncio.create_task(self.standing.move(segment))
        interrupted = asyncio.create_task(self.interrupted.wait())
        try:
            await asyncio.wait((moving, interrupted), return_when=asyncio.FIRST_COMPLETED)
        finally:
            interrupted.cancel()
            moving.cancel()
        (moved,) = await asyncio.gather(moving, return_exceptions=True)
        if isinstance(moved, TargetUnusable):
            self._stop(str(moved), "policy")
        elif isinstance(moved, Exception):
            raise moved
        return moved is None

    async def _segment(self, segment: Segment, begin_ns: int, idle: Idle | None) -> None:
        record = PhaseRecord(
            segment.number, segment.arm, segment.phase, segment.stage, segment.stage_index, segment.repeat_idx,
            segment.block, segment.executor, segment.concurrency, segment.rate_per_s, begin_ns, idle_before=idle,
            swapped=segment.swapped,
        )  # fmt: skip
        self.writer.phase(record)
        if segment.phase == "measure":
            self.watch.began(begin_ns)
        watcher = asyncio.create_task(self._control(segment))
        try:
            result = await self.workers.drive(segment, begin_ns)
        finally:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)
        if segment.phase == "warmup":
            unsettled = self.warmups.note(segment, self.workers.warmed(segment.number))
            if unsettled is not None:
                self.progress.say(unsettled)
                self.writer.anomaly(unsettled)
            self._correct_lengths()
        after = await self._edge(segment, "end")
        self.writer.phase(_finished(record, result, after))
        if result.aborted and self.stop_reason is None:
            sent = self.workers.counts.sent
            self._stop(f"safety.max_requests reached: {sent:,} requests were sent", "policy")

    async def _edge(self, segment: Segment, edge: Edge) -> Idle | None:
        """Wait for an idle server, then scrape. Where the arm's last part has just ended so, only the scrape is left:
        what others asked in between is then counted in neither."""
        if self.stop_reason and edge == "start":
            return None
        idle_ns = self.idle_since.pop(segment.arm, None)
        if edge == "start" and idle_ns is not None and now_ns() - idle_ns < STILL_IDLE_NS:
            idle = Idle(True, None, 0.0)
        else:
            idle = await self._until_idle(segment.arm)
        await self.standing.scraper.edge(segment.arm, segment.number, edge)
        if edge == "end" and idle.reached:
            self.idle_since[segment.arm] = now_ns()
        return idle

    async def _until_idle(self, arm: str) -> Idle:
        """A server that did not become idle in the whole of idle_wait_s is busy with others' work: later waits are
        short."""
        limit = self.scenario.scrape.idle_wait_s
        if arm in self.never_idle:
            limit = min(limit, BUSY_WAIT_S)
        idle = await self._wait_idle(arm, limit)
        if idle.reached:
            self.never_idle.discard(arm)
        elif idle.reached is False:
            self.never_idle.add(arm)
        return idle

    async def _wait_idle(self, arm: str, limit: float) -> Idle:
        """One look is all that an interrupted run takes, also when the interrupt comes while it waits."""
        waiting = asyncio.create_task(self.standing.scraper.wait_idle(arm, limit))
        interrupted = asyncio.create_task(self.interrupted.wait())
        both = (waiting, interrupted)
        done, _ = await asyncio.wait(both, timeout=SAY_AFTER_S, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            self.progress.say(f"waiting for the server of {arm} to become idle, at most {limit:g} s …")
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        interrupted.cancel()
        if waiting.done():
            return waiting.result()
        waiting.cancel()
        return await self.standing.scraper.wait_idle(arm, 0.0)

    def _scraped(self, scrape: Scrape) -> None:
        self.writer.scrape(scrape)
        queued = self.standing.scraper.waiting(scrape.arm)
        if queued is not None:
            self.waiting[scrape.arm].append(queued)

    def _correct_lengths(self) -> None:
        learned = self.workers.lengths_learned
        if self.lengths.source == "estimate" and learned:
            self.lengths = correct_lengths(self.lengths, learned)

    async def _control(self, segment: Segment) -> None:
        """Twice a second: show what is going on, and ask control whether to go on."""
        while True:
            await asyncio.sleep(CONTROL_INTERVAL_S)
            price = self.limits.price_per_million_output_tokens
            live = self.workers.counts.live(price, tuple(self.waiting[segment.arm]))
            self.progress.live(segment, live)
            failed = self.writer.failed or self.workers.sink_failed
            if failed is not None:
                self._stop(f"records cannot be written: {failed}", "policy")
            decision = decide(live, self.limits)
            if decision.action == "abort":
                self._stop(decision.reason or "stopped by control", "policy")
            broken = self.watch.decide()
            if broken.action == "abort" and self.stop_reason is None:
                self.broke_threshold = True
                self._stop(broken.reason or "a threshold failed", "policy")

    def _stop(self, reason: str, why: StopReason) -> None:
        """Control may find the same reason again and again: only the user's second stop cuts what is in flight."""
        first = self.stop_reason is None
        if first:
            self.stop_reason = reason
            self.progress.say(f"stopping: {reason}")
            self.writer.anomaly(f"run stopped: {reason}")
        if first or why == "user_stop":
            self.workers.stop(why)

    def _lost(self, reason: str) -> None:
        """A worker is no more: the others stop, too, since the load is not what was asked for any longer."""
        self.lost = self.lost or f"{reason}; the measured requests are kept"
        self._stop(self.lost, "policy")

    def interrupt(self) -> None:
        """First Ctrl-C: send nothing new, let requests in flight drain. Second: cut them now."""
        first = not self.interrupted.is_set()
        self.interrupted.set()
        self._stop("interrupted by the user", "user_stop")
        self.progress.say(
            "finishing requests in flight; Ctrl-C again cuts them" if first else "cutting requests in flight"
        )


def _finished(record: PhaseRecord, result: SegmentResult, idle: Idle | None) -> PhaseRecord:
    return replace(
        record,
        started_ns=result.started_ns,
        full_ns=result.full_ns,
        load_end_ns=result.load_end_ns,
        ended_ns=result.ended_ns,
        accounting=result.accounting,
        aborted=result.aborted,
        idle_after=idle,
    )


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
