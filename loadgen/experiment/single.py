"""One run: every segment of the plan between its idle edges, then the summary."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol

import orjson

from loadgen.analyze import Summary, analyze
from loadgen.clock import now_ns
from loadgen.control import Live, decide
from loadgen.drive import SegmentResult, StopReason, WorkerEnd
from loadgen.errors import ScenarioError, StorageError
from loadgen.experiment.ceiling import cpu_count
from loadgen.experiment.context import check_context
from loadgen.experiment.driving import TransportName, make_workers, worker_count
from loadgen.experiment.lengths import measure_lengths
from loadgen.experiment.manifest import manifest_of
from loadgen.experiment.preflight import Preflight, preflight
from loadgen.experiment.watching import Watch
from loadgen.observe import Edge, Idle, Scrape, ScrapeArm, Scraper
from loadgen.plan import LengthModel, Plan, Segment, build_plan, correct_lengths
from loadgen.record import PhaseRecord, RunWriter, open_run
from loadgen.scenario import Limits, LoadedScenario, limits_of

CONTROL_INTERVAL_S = 0.5
#: Between all workers having said ready and a segment's time zero: the drivers' set-up must not make arrivals late.
START_LEAD_NS = 250_000_000
#: A wait for an idle server longer than this is said.
SAY_AFTER_S = 1.5
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


@dataclass(frozen=True)
class RunResult:
    """`state`: finished, interrupted (by the user), stopped (by a threshold with abort_on_fail) or failed (ended by
    control), with `reason`."""

    path: Path
    summary: Summary
    state: str
    reason: str | None


async def run_scenario(loaded: LoadedScenario, options: RunOptions, progress: Progress) -> RunResult:
    """Preflight, drive, record, analyze. Raises ScenarioError, TargetUnusable or StorageError before any
    load; afterwards everything measured is kept and a summary is written, whatever happens."""
    limits = limits_of(loaded.scenario)
    plan = build_plan(loaded)
    refuse_beyond(plan, limits)
    _writable(options.out)
    ready = await preflight(loaded.scenario)
    cut = check_context(plan, ready)
    lengths = await measure_lengths(loaded, ready)
    workers = options.workers or worker_count(plan, cpu_count())
    manifest = manifest_of(
        loaded,
        plan,
        lengths,
        ready,
        overrides=options.overrides,
        shard=options.shard,
        workers=workers,
        transport=options.transport,
    )
    writer = RunWriter(options.out, manifest, ready.redact)
    run = _Run(loaded, plan, limits, lengths, ready, writer, progress, options)
    state: str = "failed"
    reason: str | None = "internal error"
    with _interrupts(run.interrupt):
        progress.started(plan, writer.path, (*ready.notes, *cut))
        try:
            state, reason = await run.everything()
        finally:
            lost = _close(writer, state, reason, run)
    if lost is not None:
        state, reason = "failed", str(lost)
    return RunResult(writer.path, _summary(writer.path, progress), state, reason)


def _close(writer: RunWriter, state: str, reason: str | None, run: _Run) -> StorageError | None:
    """Close the records; an error while writing them is the run's result, not the end of its report."""
    try:
        writer.finish(state, reason, lengths=asdict(run.lengths), workers=run.ends)
    except StorageError as error:
        return error
    return None


def _summary(path: Path, progress: Progress) -> Summary:
    summary = analyze(open_run(path))
    try:
        save_summary(path, summary)
    except StorageError as error:
        progress.say(str(error))
    return summary


def save_summary(path: Path, summary: Summary) -> None:
    """Write summary.json into a run directory, whole or not at all."""
    data = orjson.dumps(summary.model_dump(mode="json"), option=orjson.OPT_INDENT_2)
    temporary = path / "summary.json.part"
    try:
        temporary.write_bytes(data)
        temporary.replace(path / "summary.json")
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise StorageError(f"{path}: summary.json cannot be written: {error.strerror}") from None


def refuse_beyond(plan: Plan, limits: Limits) -> None:
    """Refuse a plan that certainly exceeds the environment's caps: no load is sent."""
    asked = plan.totals
    pairs: list[tuple[str, float | None, float | None]] = [
        ("max_requests", asked.requests, limits.max_requests),
        ("max_output_tokens", asked.output_tokens, limits.max_output_tokens),
        ("max_concurrency", asked.peak_concurrency, limits.max_concurrency),
        ("max_requests_per_second", asked.peak_rate_per_s, limits.max_requests_per_second),
    ]
    problems = [
        f"the plan asks for {key} = {value:,.10g}, and {cap:,.10g} is allowed "
        f"(safety.{key}, or its default for environment: {limits.environment}); ask for less, or raise safety.{key}"
        for key, value, cap in pairs
        if value is not None and cap is not None and value > cap
    ]
    if problems:
        raise ScenarioError(problems)


class _Run:
    def __init__(
        self,
        loaded: LoadedScenario,
        plan: Plan,
        limits: Limits,
        lengths: LengthModel,
        ready: Preflight,
        writer: RunWriter,
        progress: Progress,
        options: RunOptions,
    ) -> None:
        self.scenario = loaded.scenario
        self.plan = plan
        self.limits = limits
        self.lengths = lengths
        self.ready = ready
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
        self.scraper = Scraper(
            [
                ScrapeArm(a.name, a.adapter.name, a.model, a.targets[0].metrics_urls, a.targets[0].headers)
                for a in ready.arms.values()
            ],
            interval_s=self._scrape_interval(),
            timeout_s=self.scenario.scrape.timeout_s,
            on_scrape=self._scraped,
        )
        self.stop_reason: str | None = None
        self.interrupted = asyncio.Event()

    def _scrape_interval(self) -> float:
        """The scenario's interval, or a tenth of the shortest stage, so that every stage has samples."""
        times = [s.duration_ns / 1e9 for s in self.plan.segments if s.duration_ns and s.phase == "measure"]
        shortest = min(times, default=float("inf"))
        return max(0.2, min(self.scenario.scrape.interval_s, shortest / 10))

    async def everything(self) -> tuple[str, str | None]:
        try:
            await asyncio.gather(self.scraper.start(), self.workers.start())
            await self._segments()
        finally:
            self.ends, _ = await asyncio.gather(self.workers.close(), self.scraper.stop())
        if self.interrupted.is_set():
            return "interrupted", self.stop_reason
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
            for segment in group:
                self.progress.segment(segment, number, len(groups))
            idle = await asyncio.gather(*(self._edge(segment, "start") for segment in group))
            await self.workers.prepare(group, self.lengths)
            begin = now_ns() + START_LEAD_NS
            await asyncio.gather(*(self._segment(s, begin, i) for s, i in zip(group, idle, strict=True)))

    async def _segment(self, segment: Segment, begin_ns: int, idle: Idle | None) -> None:
        record = PhaseRecord(
            segment.number, segment.arm, segment.phase, segment.stage, segment.stage_index, segment.repeat_idx,
            segment.block, segment.executor, segment.concurrency, segment.rate_per_s, begin_ns, idle_before=idle,
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
            self._correct_lengths()
        after = await self._edge(segment, "end")
        self.writer.phase(_finished(record, result, after))
        if result.aborted and self.stop_reason is None:
            sent = self.workers.counts.sent
            self._stop(f"safety.max_requests reached: {sent:,} requests were sent", "policy")

    async def _edge(self, segment: Segment, edge: Edge) -> Idle | None:
        """Wait for an idle server, then scrape: only measured parts need it exactly; warm-up just drains."""
        if self.stop_reason and edge == "start":
            return None
        idle = await self._until_idle(segment.arm)
        await self.scraper.edge(segment.arm, segment.number, edge)
        return idle

    async def _until_idle(self, arm: str) -> Idle:
        """One look is all that an interrupted run takes, also when the interrupt comes while it waits."""
        waiting = asyncio.create_task(self.scraper.wait_idle(arm, self.scenario.scrape.idle_wait_s))
        interrupted = asyncio.create_task(self.interrupted.wait())
        both = (waiting, interrupted)
        done, _ = await asyncio.wait(both, timeout=SAY_AFTER_S, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            limit = self.scenario.scrape.idle_wait_s
            self.progress.say(f"waiting for the server of {arm} to become idle, at most {limit:g} s …")
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        interrupted.cancel()
        if waiting.done():
            return waiting.result()
        waiting.cancel()
        return await self.scraper.wait_idle(arm, 0.0)

    def _scraped(self, scrape: Scrape) -> None:
        self.writer.scrape(scrape)
        queued = self.scraper.waiting(scrape.arm)
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
        self._stop(f"{reason}; the measured requests are kept", "policy")

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


def _writable(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out, prefix=".specload-write-test-") as probe:
            probe.write(b"x" * 4096)
    except OSError as error:
        raise StorageError(f"{out}: cannot write there: {error.strerror}; choose another folder with --out") from None
