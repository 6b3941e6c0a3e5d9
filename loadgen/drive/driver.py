"""Drives segments against one arm: sends what the plan says, and ends every request in one outcome."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import httpx

from loadgen.drive.asking import Asking, DriveLimits
from loadgen.drive.cap import RateCap
from loadgen.drive.dispatcher import ClosedRun, open_loop
from loadgen.drive.health import quiet_gc, steps_of, watch_loop
from loadgen.drive.ledger import Redact
from loadgen.drive.recorder import Recorder, Tally
from loadgen.drive.request import DriveArm, Prepared, RequestBuilder
from loadgen.drive.segment_run import SegmentRun, StopReason
from loadgen.drive.slack import Slack
from loadgen.drive.transport import make_transport
from loadgen.drive.types import Accounting, Deadlines, SegmentResult, Sink
from loadgen.drive.watchdog import Watchdog
from loadgen.plan import Case, ClosedLoop, LengthModel, OpenLoop, Plan, Segment, render


class Driver:
    """One arm's driver, in the event loop that it is called in. Runs one segment at a time.

    `lengths` and `cap` may be replaced between segments. `cap` is shared by the drivers whose requests it
    counts together; `tally` likewise. `transport` makes the wire of each segment.
    """

    def __init__(
        self,
        arm: DriveArm,
        plan: Plan,
        lengths: LengthModel,
        sink: Sink,
        limits: DriveLimits,
        asking: Asking,
        redact: Redact,
        *,
        worker: int = 0,
        cap: RateCap | None = None,
        tally: Tally | None = None,
        transport: Callable[[Deadlines], httpx.AsyncBaseTransport] = make_transport,
        slack: Slack | None = None,
    ) -> None:
        self.lengths = lengths
        self.tally = tally or Tally()
        self._slack = slack or Slack()
        self._arm = arm
        self._plan = plan
        self._sink = sink
        self._limits = limits
        self._asking = asking
        self._redact = redact
        self._worker = worker
        self.cap = cap
        self._transport = transport
        self._run: SegmentRun | None = None
        self._prepared: Prepared | None = None
        self._stopped: StopReason | None = None
        self._held = False
        self._fault: Exception | None = None

    def stop(self, reason: StopReason) -> None:
        """Start nothing more, also in later segments; a second call cuts what is in flight at once."""
        self._stopped = self._stopped or reason
        if self._run is not None:
            self._run.stop(reason)

    def finish(self) -> None:
        """The load of the segment in progress ends now, as if its time were over."""
        if self._run is not None:
            self._run.close()

    def hold(self) -> None:
        """Start nothing new until `release`, also in later segments. What is in flight goes on."""
        self._held = True
        if self._run is not None:
            self._run.hold()

    def release(self) -> None:
        self._held = False
        if self._run is not None:
            self._run.release()

    @property
    def accounting(self) -> Accounting | None:
        """Of the segment that is being driven, so far."""
        return None if self._run is None else self._run.accounting

    async def prepare(self, segment: Segment, nonce: str | None = None) -> None:
        """Make the segment's first requests before its time zero is fixed. `run` of the same segment takes them."""
        prepared = self._prepared = Prepared(self._cases(segment), self._builder(segment, nonce))
        await prepared.make_ready()

    async def run(self, segment: Segment, start_ns: int, nonce: str | None = None) -> SegmentResult:
        """Drive `segment` with its time zero at `start_ns` (CLOCK_MONOTONIC). `nonce` begins the cache salts of
        its requests; drivers of parts of one segment share it; a prepared segment has had it.

        Setting up takes up to some tenths of a second: arrivals due before it is done are sent late, and
        counted. Returns when every request has ended and is with the sink. Raises what the sink raised
        (StorageError), after that. Cancelling cuts what is in flight and records it first.
        """
        self._fault = None
        transport = self._transport(self._limits.deadlines)
        recorder = Recorder(
            self._arm.adapter, self._redact, self._asking.keep_text, self._sink, self.tally, self._on_fault,
            self._slack,
        )  # fmt: skip
        run = self._run = self._begin(segment, start_ns, transport, recorder, nonce)
        beside = [asyncio.create_task(work) for work in self._beside(run, recorder, transport)]
        try:
            with quiet_gc():
                result = await self._drive(run)
                await recorder.flush()
        except BaseException:
            run.stop(run.reason or "user_stop")
            await run.cut()
            await recorder.flush()
            raise
        finally:
            self._run = None
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await transport.aclose()
        if self._fault is not None:
            raise self._fault
        return result

    def _begin(
        self,
        segment: Segment,
        start_ns: int,
        transport: httpx.AsyncBaseTransport,
        recorder: Recorder,
        nonce: str | None,
    ) -> SegmentRun:
        prepared, self._prepared = self._prepared, None
        run = SegmentRun(
            segment,
            start_ns,
            self._arm.name,
            self._worker,
            transport,
            prepared or Prepared(self._cases(segment), self._builder(segment, nonce)),
            self.cap,
            self.tally,
            recorder.add,
            self._slack,
        )
        if self._held:
            run.hold()
        if self._stopped is not None:
            run.stop(self._stopped)
        return run

    async def _drive(self, run: SegmentRun) -> SegmentResult:
        load, full_ns, closed = run.segment.load, run.start_ns, None
        if isinstance(load, OpenLoop):
            load_end_ns = await open_loop(run, load, self._limits.drain_ns)
        else:
            closed = ClosedRun(run, load)
            await closed.load()
            load_end_ns = closed.load_end_ns
            full_ns = load_end_ns if closed.full_ns is None else min(closed.full_ns, load_end_ns)
        run.close()
        await run.drain(load_end_ns + self._limits.drain_ns)
        if closed is not None:
            await closed.finish()
        return run.result(full_ns, load_end_ns)

    def _beside(
        self, run: SegmentRun, recorder: Recorder, transport: httpx.AsyncBaseTransport
    ) -> Iterator[Coroutine[Any, Any, None]]:
        yield recorder.work()
        yield run.prepared.fill(self._slack)
        yield watch_loop(run, self._worker, self._sink, self._on_fault, steps_of(transport))
        deadlines = self._limits.deadlines
        if deadlines.token_idle_ns is not None:
            yield Watchdog(run.flights, self._arm.adapter, deadlines.token_idle_ns, deadlines.byte_idle_ns).watch()

    def _on_fault(self, error: Exception) -> None:
        """The sink cannot take what is measured: end the run, keep the first error."""
        if self._fault is None:
            self._fault = error
            self.stop("policy")

    def _builder(self, segment: Segment, nonce: str | None) -> RequestBuilder:
        lengths = self.lengths
        return RequestBuilder(self._arm, self._asking, segment, lambda case: render(self._plan, case, lengths), nonce)

    def _cases(self, segment: Segment) -> Iterator[Case]:
        load = segment.load
        if isinstance(load, OpenLoop):
            indices: Iterator[int] = iter(load.index.tolist())
        else:
            indices = itertools.islice(itertools.count(load.first_index, load.index_step), _most(load))
        return (self._plan.case(segment.stage_index, segment.phase, index) for index in indices)


def _most(load: ClosedLoop) -> int | None:
    """Requests that the loop can ask for; None where its time decides."""
    return None if load.end == "both" and load.stop_ns.any() else load.cases
