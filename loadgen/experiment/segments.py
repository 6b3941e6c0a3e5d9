"""A run's segments, driven in the order of the plan, each between its idle edges, and what ends them early."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from loadgen.clock import now_ns
from loadgen.control import decide
from loadgen.drive import SegmentResult, StopReason, WorkerEnd
from loadgen.errors import TargetUnusable
from loadgen.experiment.afterwards import Afterwards, Done
from loadgen.experiment.breaking import Breakers
from loadgen.experiment.companion import Accompanied, Beside, Companion
from loadgen.experiment.driving import TransportName, make_workers
from loadgen.experiment.edges import Edges
from loadgen.experiment.places import Standing
from loadgen.experiment.preflight import Preflight
from loadgen.experiment.progress import Progress
from loadgen.experiment.servers import ArmServers
from loadgen.experiment.warmups import WarmUps
from loadgen.experiment.watching import Watch
from loadgen.export import RunMetrics
from loadgen.observe import Edge, Idle, Scrape, TelemetrySample
from loadgen.plan import LengthModel, Plan, Segment, correct_lengths
from loadgen.record import PhaseRecord, RunWriter
from loadgen.scenario import Limits, Scenario

CONTROL_INTERVAL_S = 0.5
#: Between all workers having said ready and a segment's time zero: the drivers' set-up must not make arrivals late.
START_LEAD_NS = 250_000_000
#: Queue lengths kept for control: the latest scrapes of one arm.
WAITING_KEPT = 8


@dataclass(frozen=True)
class Prepared:
    """All that is settled before the first request. `shard`, `transport`: see RunOptions. `metrics`: None where nobody
    asked for live metrics."""

    scenario: Scenario
    plan: Plan
    limits: Limits
    lengths: LengthModel
    ready: Preflight
    servers: ArmServers
    writer: RunWriter
    shard: tuple[int, int] | None
    transport: TransportName
    metrics: RunMetrics | None = None
    companion: Companion | None = None
    afterwards: Afterwards | None = None
    interrupted_by: Callable[[], str] = lambda: "the user"
    cuts: str = ""
    log: Callable[[str], None] | None = None


class Segments:
    """Drives what is prepared. `lengths` and `ends` (how the workers ended) are whole after `everything`."""

    def __init__(self, prepared: Prepared, progress: Progress) -> None:
        self._scenario, self._plan, self._limits = prepared.scenario, prepared.plan, prepared.limits
        self._writer = prepared.writer
        self._progress = progress
        self._metrics = prepared.metrics
        self._afterwards, self._ready = prepared.afterwards, prepared.ready
        self._interrupted_by, self._cuts = prepared.interrupted_by, prepared.cuts
        self.lengths = prepared.lengths
        self.ends: list[WorkerEnd] = []
        self.warmups = WarmUps(prepared.scenario.warmup)
        self.standing = Standing(
            prepared.scenario, prepared.plan, prepared.ready, prepared.servers, self._scraped, self._sampled
        )
        self._watch = Watch(prepared.scenario, prepared.plan)
        self._workers = make_workers(
            self._writer.manifest.workers, self._scenario, self._plan, self.lengths, prepared.ready, self._limits,
            self._writer, shard=prepared.shard, transport=prepared.transport, on_ended=progress.ended,
            on_lost=self._on_lost, on_waiting=progress.say, on_samples=self._watch.take, watched=self._watch.any,
            metrics=prepared.metrics, on_tripped=lambda told: self._breakers.tripped(told),
        )  # fmt: skip
        self._breakers = Breakers(
            self._scenario, self._limits, prepared.ready, self._writer, lambda: self._workers, progress.say,
            lambda reason: self._stop(reason, "policy"),
        )  # fmt: skip
        self._waiting: dict[str, deque[float]] = {name: deque(maxlen=WAITING_KEPT) for name in prepared.ready.arms}
        self._interrupted = asyncio.Event()
        self._edges = Edges(self.standing, self._scenario.scrape.idle_wait_s, self._interrupted, progress.say)
        self._accompanied = Accompanied(
            prepared.companion,
            Beside(
                prepared.ready,
                self._writer,
                progress.say,
                prepared.log or progress.say,
                lambda reason: self._stop(reason, "policy"),
                lambda segment: self._workers.finish(segment.number),
                lambda: (self._workers.counts.ended, self._workers.counts.failed),
            ),
        )
        self._stop_reason: str | None = None
        self._lost: str | None = None
        self._broke_threshold = False

    async def everything(self) -> tuple[str, str | None]:
        """The state that the run ended in, and why (see RunResult)."""
        try:
            await asyncio.gather(self.standing.scraper.start(), self._workers.start())
            await self._groups()
            await self._after()
        finally:
            await self._breakers.end()
            self.ends, _ = await asyncio.gather(self._workers.close(), self.standing.scraper.stop())
            try:
                await self.standing.servers.close()
            except TargetUnusable as error:
                if self._stop_reason is None:
                    self._stop(str(error), "policy")
                else:
                    self._stop_reason = f"{self._stop_reason}; {error}"
        if self._interrupted.is_set():
            return "interrupted", self._stop_reason
        if self._lost is not None:
            return "inconclusive", self._lost
        if self._broke_threshold:
            return "stopped", self._stop_reason
        return ("failed", self._stop_reason) if self._stop_reason else ("finished", None)

    async def _after(self) -> None:
        """What an experiment asks once everything is on the disk; the workers have nothing more to do then."""
        if self._afterwards is None or self._stop_reason:
            return
        await self._workers.close()
        done = Done(
            self._ready, self._plan, self.lengths, self._writer, self.standing, self._progress.say,
            self._interrupted.is_set,
        )  # fmt: skip
        await self._afterwards(done)

    def interrupt(self) -> None:
        """First Ctrl-C: send nothing new, let requests in flight drain. Second: cut them now."""
        first = not self._interrupted.is_set()
        self._interrupted.set()
        self._stop(f"interrupted by {self._interrupted_by()}", "user_stop")
        again = f"; {self._cuts}" if self._cuts else ""
        self._progress.say(f"finishing requests in flight{again}" if first else "cutting requests in flight")

    async def _groups(self) -> None:
        """Segments of one group are driven at once."""
        groups: dict[int, list[Segment]] = defaultdict(list)
        for segment in self._plan.segments:
            groups[segment.group].append(segment)
        for number, group in enumerate(groups.values()):
            await self._breakers.closed()
            if self._stop_reason:
                return
            wanted = [segment for segment in group if self.warmups.wanted(segment)]
            if not wanted or not await self._in_place(wanted[0]):
                continue
            for segment in wanted:
                self._progress.segment(segment, number, len(groups))
            idle = await asyncio.gather(*(self._edge(segment, "start") for segment in wanted))
            await self._workers.prepare(wanted, self.lengths)
            begin = now_ns() + START_LEAD_NS
            await asyncio.gather(*(self._segment(s, begin, i) for s, i in zip(wanted, idle, strict=True)))

    async def _in_place(self, segment: Segment) -> bool:
        """The servers that the segment needs stand where it asks them. False where they could not be brought there,
        which ends the run, or where that was interrupted."""
        if self.standing.fits(segment):
            return True
        self._edges.moved()
        moving = asyncio.create_task(self.standing.move(segment))
        interrupted = asyncio.create_task(self._interrupted.wait())
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

    async def _edge(self, segment: Segment, edge: Edge) -> Idle | None:
        """None: the run is being stopped, so the segment is not looked at any more before it starts."""
        if self._stop_reason and edge == "start":
            return None
        return await self._edges.scraped(segment, edge)

    async def _segment(self, segment: Segment, begin_ns: int, idle: Idle | None) -> None:
        record = PhaseRecord(
            segment.number, segment.arm, segment.phase, segment.stage, segment.stage_index, segment.repeat_idx,
            segment.block, segment.executor, segment.concurrency, segment.rate_per_s, begin_ns, idle_before=idle,
            swapped=segment.swapped,
        )  # fmt: skip
        self._writer.phase(record)
        if self._metrics is not None:
            self._metrics.began(segment, begin_ns)
        if segment.phase == "measure":
            self._watch.began(begin_ns)
        watcher = asyncio.create_task(self._control(segment))
        companion = self._accompanied.start(segment, begin_ns)
        try:
            result = await self._workers.drive(segment, begin_ns)
        finally:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)
            await self._accompanied.end(companion)
        if self._metrics is not None:
            self._metrics.drained(segment, result.accounting, result.load_end_ns)
        if segment.phase == "warmup":
            self._warmed(segment)
        after = await self._edge(segment, "end")
        self._writer.phase(_finished(record, result, after))
        if result.aborted and self._stop_reason is None:
            sent = self._workers.counts.sent
            self._stop(f"safety.max_requests reached: {sent:,} requests were sent", "policy")

    def _warmed(self, segment: Segment) -> None:
        """Whether it has settled, and what its prompts' lengths teach."""
        unsettled = self.warmups.note(segment, self._workers.warmed(segment.number))
        if unsettled is not None:
            self._progress.say(unsettled)
            self._writer.anomaly(unsettled)
        learned = self._workers.lengths_learned
        if self.lengths.source == "estimate" and learned:
            self.lengths = correct_lengths(self.lengths, learned)

    def _scraped(self, scrape: Scrape) -> None:
        self._writer.scrape(scrape)
        if self._metrics is not None:
            self._metrics.scraped(scrape)
        queued = self.standing.scraper.waiting(scrape.arm)
        if queued is not None:
            self._waiting[scrape.arm].append(queued)

    def _sampled(self, sample: TelemetrySample) -> None:
        self._writer.telemetry(sample)
        if self._metrics is not None:
            self._metrics.sampled(sample)

    async def _control(self, segment: Segment) -> None:
        """Twice a second: show what is going on, and ask control whether to go on."""
        while True:
            await asyncio.sleep(CONTROL_INTERVAL_S)
            price = self._limits.price_per_million_output_tokens
            live = self._workers.counts.live(price, tuple(self._waiting[segment.arm]))
            self._progress.live(segment, live)
            if self._metrics is not None:
                self._metrics.accounted(segment, self._workers.accounting(segment.number))
            failed = self._writer.failed or self._workers.sink_failed
            if failed is not None:
                self._stop(f"records cannot be written: {failed}", "policy")
            decision = decide(live, self._limits)
            if decision.action == "abort":
                self._stop(decision.reason or "stopped by control", "policy")
            broken = self._watch.decide()
            if broken.action == "abort" and self._stop_reason is None:
                self._broke_threshold = True
                self._stop(broken.reason or "a threshold failed", "policy")

    def _stop(self, reason: str, why: StopReason) -> None:
        """Control may find the same reason again and again: only the user's second stop cuts what is in flight."""
        first = self._stop_reason is None
        if first:
            self._stop_reason = reason
            self._progress.say(f"stopping: {reason}")
            self._writer.anomaly(f"run stopped: {reason}")
        if first or why == "user_stop":
            self._workers.stop(why)
        if why == "user_stop":
            self._accompanied.cut()
        self._breakers.give_up()

    def _on_lost(self, reason: str) -> None:
        """A worker is no more: the others stop, too, since the load is not what was asked for any longer."""
        self._lost = self._lost or f"{reason}; the measured requests are kept"
        self._stop(self._lost, "policy")


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
