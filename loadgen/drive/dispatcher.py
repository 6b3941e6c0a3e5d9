"""Open and closed loop: when each request of a segment starts. One absolute clock, no accumulated gaps (E6)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from loadgen.clock import now_ns
from loadgen.drive.flight import Flight
from loadgen.drive.segment_run import SegmentRun
from loadgen.drive.types import Outcome
from loadgen.plan import NEVER, ClosedLoop, OpenLoop

#: a slot whose request never reached the server waits, so that a dead target is not hammered
UNSENT_PAUSE_NS = 100_000_000
#: overdue arrivals are sent for so long at least, also where nothing may drain
GRACE_NS = 1_000_000_000
_FAR_NS = 10 * 365 * 86_400 * 10**9


async def open_loop(run: SegmentRun, load: OpenLoop, drain_ns: int) -> int:
    """Start every arrival when it is due, whatever the server does. Returns when the load ended (ns).

    Behind schedule, arrivals are sent one by one at once until it has caught up: none is left
    out, and never more than the schedule has by then (E11). What is still waiting when the drain ends, too, is
    unsent: a segment is never longer than its plan and its drain.
    """
    books, gate = run.accounting, _Gate(run, load)
    books.scheduled = len(load.due_ns)
    duration_ns = run.segment.duration_ns
    if duration_ns is None:
        duration_ns = int(load.due_ns[-1]) if len(load.due_ns) else 0
    with run.on_time() as until, _closed_at(run, run.start_ns + duration_ns + max(drain_ns, GRACE_NS)):
        for offset_ns in load.due_ns.tolist():
            due_ns = run.start_ns + offset_ns
            if await until(due_ns):
                break
            if run.held or (load.when_full == "drop" and len(run.flights) >= load.max_in_flight):
                books.dropped += 1
                run.prepared.skip()
                continue
            wait_ns = await gate.passed(due_ns)
            if wait_ns is None:
                break
            run.fly_beside(run.launch(run.prepared.take(), due_ns, wait_ns))
    await run.until(run.start_ns + duration_ns)
    books.unsent = books.scheduled - books.sent - books.dropped
    return min(now_ns(), run.start_ns + duration_ns)


@contextmanager
def _closed_at(run: SegmentRun, at_ns: int) -> Iterator[None]:
    """Nothing starts after `at_ns`."""
    closing = asyncio.get_running_loop().call_later(max(0, at_ns - now_ns()) / 1e9, run.close)
    try:
        yield
    finally:
        closing.cancel()


class _Gate:
    """Where the open loop's arrivals wait, in order: for room in flight, then for the safety cap.

    An arrival that became due while another stood there was held as well, and counts (E7, E8).
    """

    def __init__(self, run: SegmentRun, load: OpenLoop) -> None:
        self._run = run
        self._max_in_flight = load.max_in_flight
        self._room_ns = 0  # when an arrival last got the room it had waited for
        self._rate_ns = 0  # likewise the safety cap

    async def passed(self, due_ns: int) -> int | None:
        """Nanoseconds held since `due_ns`; None if the segment was closed meanwhile."""
        run, books = self._run, self._run.accounting
        if len(run.flights) >= self._max_in_flight:
            if not await run.room(self._max_in_flight):
                return None
            self._room_ns = now_ns()
        capped_ns = await run.pass_cap()
        if capped_ns is None:
            return None
        if capped_ns:
            self._rate_ns = now_ns()
        books.capped_in_flight += due_ns < self._room_ns
        books.capped_rate += due_ns < self._rate_ns
        return max(0, self._room_ns - due_ns, self._rate_ns - due_ns)


class ClosedRun:
    """A closed loop in progress. `full_ns`: when the last slot had begun, None until then; `load_end_ns`: the
    last moment at which a new request could start, known when `load` has returned."""

    def __init__(self, run: SegmentRun, load: ClosedLoop) -> None:
        self.full_ns: int | None = None if len(load.start_ns) else run.start_ns
        self.load_end_ns = run.start_ns
        self._run = run
        self._load = load
        self._begun = 0
        self._taken = 0
        self._launched = 0
        self._launched_ns = run.start_ns
        self._time_over = load.end == "first"
        self._slots: list[asyncio.Task[None]] = []

    async def load(self) -> None:
        """Run the slots until no new request can start; the last ones may still be in flight."""
        run, stops = self._run, self._load.stop_ns
        self._slots = [asyncio.create_task(self._slot(k)) for k in range(len(stops))]
        timed = [int(ns) for ns in stops if ns != NEVER]
        if self._load.end == "first" and len(timed) < len(stops):
            end_ns = now_ns() + _FAR_NS
        else:
            end_ns = run.start_ns + max(timed, default=0)
        if self._load.end == "both":
            await run.until(end_ns)
            self._time_over = True
            if self._load.cases is not None and self._launched < self._load.cases:
                await run.until(now_ns() + _FAR_NS)
        else:
            self._note_exhausted()
            await run.until(end_ns)
        by_cases = run.reason is None and run.closed
        self.load_end_ns = self._launched_ns if by_cases else min(now_ns(), end_ns)
        if run.reason is not None:
            self.load_end_ns = now_ns()
        run.close()

    async def finish(self) -> None:
        """After the drain. An error in a slot is a bug of ours, and is raised."""
        await asyncio.gather(*self._slots)

    async def _slot(self, k: int) -> None:
        try:
            await self._serve(k)
        except BaseException:
            self._run.close()
            raise

    async def _serve(self, k: int) -> None:
        run, due_ns = self._run, self._run.start_ns + int(self._load.start_ns[k])
        if await run.until(due_ns):
            return
        self._begun += 1
        if self._begun == len(self._load.start_ns):
            self.full_ns = now_ns()
        while not run.closed and self._may_take(k):
            if run.held:
                if not await run.going():
                    return
                due_ns = now_ns()
                continue
            self._taken += 1
            run.accounting.scheduled += 1
            wait_ns = await run.pass_cap()
            if wait_ns is None:
                run.accounting.unsent += 1
                return
            run.accounting.capped_rate += wait_ns > 0
            flight = run.launch(run.prepared.take(), due_ns, wait_ns)
            self._launched += 1
            self._launched_ns = now_ns()
            self._note_exhausted()
            await run.fly(flight)
            if never_reached(flight) and await run.until(now_ns() + UNSENT_PAUSE_NS):
                return
            due_ns = now_ns()

    def _may_take(self, k: int) -> bool:
        stop_ns, cases = int(self._load.stop_ns[k]), self._load.cases
        if self._load.end == "first":
            in_time = stop_ns == NEVER or now_ns() < self._run.start_ns + stop_ns
            return in_time and (cases is None or self._taken < cases)
        in_time = stop_ns != NEVER and now_ns() < self._run.start_ns + stop_ns
        return in_time or (cases is not None and self._taken < cases)

    def _note_exhausted(self) -> None:
        cases = self._load.cases
        if self._time_over and cases is not None and self._launched >= cases:
            self._run.close()


def never_reached(flight: Flight) -> bool:
    """The request did not get to the server: no connection, or a fault of ours."""
    return flight.exchange.failure in (Outcome.REFUSED, Outcome.CLIENT_FAULT)
