"""The state of one segment while it runs: its clock, what is in flight, its accounting, its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Literal, TypeVar

import httpx

from loadgen.clock import now_ns
from loadgen.drive.alarm import Alarm
from loadgen.drive.cap import RateCap
from loadgen.drive.flight import Flight
from loadgen.drive.ledger import Sent
from loadgen.drive.post import sender
from loadgen.drive.recorder import Tally
from loadgen.drive.request import Outgoing, Prepared
from loadgen.drive.slack import Slack
from loadgen.drive.types import Accounting, Outcome, SegmentResult
from loadgen.plan import Segment

#: sent later than this after due counts as late
LATE_NS = 10_000_000

StopReason = Literal["user_stop", "policy"]
T = TypeVar("T")


class SegmentRun:
    """What the loops and the driver share. `start_ns` is the segment's time zero (CLOCK_MONOTONIC).

    Closed (`closed`): no new request starts. That is the end of the load, or a stop.
    """

    def __init__(
        self,
        segment: Segment,
        start_ns: int,
        arm: str,
        worker: int,
        transport: httpx.AsyncBaseTransport,
        prepared: Prepared,
        cap: RateCap | None,
        tally: Tally,
        on_end: Callable[[Flight], None],
        slack: Slack,
    ) -> None:
        self.segment = segment
        self.start_ns = start_ns
        self.accounting = Accounting()
        self.prepared = prepared
        self.flights: dict[Flight, None] = {}
        self.reason: StopReason | None = None
        self.send_lag_max_ns = 0
        self._arm = arm
        self._worker = worker
        self._send = sender(transport)
        self._cap = cap
        self._tally = tally
        self._on_end = on_end
        self._closing = asyncio.Event()
        self._cutting = asyncio.Event()
        self._ended = asyncio.Event()
        self._going = asyncio.Event()
        self._going.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._slack = slack
        self._alarm: Alarm | None = None

    @property
    def closed(self) -> bool:
        return self._closing.is_set()

    def close(self) -> None:
        self._closing.set()
        if self._alarm is not None:
            self._alarm.ring()

    @property
    def held(self) -> bool:
        return not self._going.is_set()

    def hold(self) -> None:
        """Start nothing new until `release`: a closed loop waits, an open loop gives arrivals up (`dropped`)."""
        self._going.clear()

    def release(self) -> None:
        self._going.set()

    async def going(self) -> bool:
        """Wait while held. False if the segment was closed meanwhile."""
        self._slack.forget(self)
        await self._unless_closed(self._going.wait())
        return not self.closed

    def stop(self, reason: StopReason) -> None:
        """First call: start nothing more, let what is in flight drain. Second call: cut it at once."""
        if self.reason is not None:
            self._cutting.set()
        self.reason = self.reason or reason
        self.close()

    async def until(self, at_ns: int) -> bool:
        """Wait for a moment. True if the segment was closed before it; others always get a turn.

        Timers have a grain of 1 ms: asyncio's fire late by up to that, uvloop's early, and then the rest is
        waited for. No spinning for less.
        """
        await asyncio.sleep(0)
        while not self.closed and (wait_ns := at_ns - now_ns()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_ns / 1e9):
                    await self._closing.wait()
        return self.closed

    @contextlib.contextmanager
    def on_time(self) -> Iterator[Callable[[int], Coroutine[Any, Any, bool]]]:
        """An `until` that is exact to some tens of microseconds, for one waiter; other work gives way to it."""
        self._alarm = Alarm()
        try:
            yield self._until_exactly
        finally:
            self._slack.forget(self)
            self._alarm.close()
            self._alarm = None

    async def _until_exactly(self, at_ns: int) -> bool:
        assert self._alarm is not None
        self._slack.expect(self, at_ns)
        await asyncio.sleep(0)
        while not self.closed and now_ns() < at_ns:
            await self._alarm.wait(at_ns)
        return self.closed

    async def pass_cap(self) -> int | None:
        """Wait for the safety cap: nanoseconds waited, None if the segment was closed meanwhile, or
        if the run has sent all it may: that ends it. `launch` must follow without another await."""
        waited_ns: int | None = 0
        if self._cap is not None:
            self._slack.forget(self)
            waited_ns = await self._unless_closed(self._cap.acquire())
        if waited_ns is not None and not self._tally.permit():
            self.stop("policy")
            return None
        return waited_ns

    async def room(self, max_in_flight: int) -> bool:
        """Wait until fewer than `max_in_flight` are in flight; False if the segment was closed first."""
        self._slack.forget(self)  # nothing can be sent: other work need not wait for it
        while len(self.flights) >= max_in_flight and not self.closed:
            self._ended.clear()
            await self._unless_closed(self._ended.wait())
        return not self.closed

    def launch(self, outgoing: Outgoing, due_ns: int, wait_ns: int) -> Flight:
        """Count a request as sent and in flight; `fly` must follow."""
        self.accounting.sent += 1
        self._tally.note_sent()
        case = outgoing.case
        flight = Flight(
            outgoing,
            Sent(
                seq=case.index,
                arm=self._arm,
                replica=outgoing.replica,
                worker=self._worker,
                segment=self.segment.number,
                case=case,
                request_id=outgoing.request_id,
                stream=case.stream,
                sampling=outgoing.sampling,
                max_tokens=case.output_len_requested,
                due_ns=due_ns,
                concurrency=len(self.flights) + 1,
                wait_ns=wait_ns,
                prompt=outgoing.prompt,
                served_by_header=outgoing.served_by_header,
            ),
        )
        self.flights[flight] = None
        return flight

    async def fly(self, flight: Flight) -> None:
        try:
            await flight.fly(self._send)
        finally:
            del self.flights[flight]
            self._note_lag(flight)
            self._ended.set()
            self._on_end(flight)

    def fly_beside(self, flight: Flight) -> None:
        task = asyncio.create_task(self.fly(flight))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def drain(self, until_ns: int) -> None:
        """Let what is in flight end until `until_ns`; then, or at a second stop, cut the rest and see it end."""
        while self.flights and not self._cutting.is_set() and (left_ns := until_ns - now_ns()) > 0:
            self._ended.clear()
            await self._first(self._ended.wait(), self._cutting.wait(), timeout_s=left_ns / 1e9)
        await self.cut()

    async def cut(self) -> None:
        why = f"{self.reason}: cut by a stop" if self.reason else "drain: still in flight when the drain ended"
        while self.flights:
            for flight in list(self.flights):
                flight.cut(Outcome.ABORTED, why)
            self._ended.clear()
            await self._ended.wait()

    def result(self, full_ns: int, load_end_ns: int) -> SegmentResult:
        """How it went. Everything scheduled is accounted for, and everything sent has ended."""
        books = self.accounting
        assert not self.flights
        assert books.scheduled == books.sent + books.dropped + books.unsent
        return SegmentResult(
            segment=self.segment.number,
            worker=self._worker,
            started_ns=self.start_ns,
            full_ns=full_ns,
            load_end_ns=load_end_ns,
            ended_ns=now_ns(),
            accounting=books,
            aborted=self.reason,
        )

    def _note_lag(self, flight: Flight) -> None:
        sent_ns, due_ns = flight.exchange.sent_ns, flight.sent.due_ns
        if sent_ns is None or due_ns is None:
            return
        self.send_lag_max_ns = max(self.send_lag_max_ns, sent_ns - due_ns)
        if sent_ns - due_ns > LATE_NS:
            self.accounting.late += 1

    async def _unless_closed(self, work: Coroutine[Any, Any, T]) -> T | None:
        task = asyncio.ensure_future(work)
        await self._first(task, self._closing.wait())
        return task.result() if task.done() and not task.cancelled() else None

    @staticmethod
    async def _first(*work: Coroutine[Any, Any, Any] | asyncio.Task[Any], timeout_s: float | None = None) -> None:
        """Wait for the first of `work`; the others are cancelled and have ended on return."""
        tasks = [asyncio.ensure_future(w) for w in work]
        try:
            await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pending = [task for task in tasks if not task.done()]
            for task in pending:
                task.cancel()
            if pending:
                await asyncio.wait(pending)
