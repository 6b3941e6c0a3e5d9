"""Ended requests become attempts, one at a time and in pieces, and go to the sink."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields

from loadgen.clock import now_ns
from loadgen.control import Live, Sample
from loadgen.drive.cap import Budget
from loadgen.drive.flight import Flight
from loadgen.drive.ledger import ExchangeReader, Redact
from loadgen.drive.live import Recent
from loadgen.drive.slack import Slack
from loadgen.drive.types import Attempt, Outcome, Sink
from server_adapters.base import Adapter

RECENT = 50
#: how long reading may hold the loop
TURN_NS = 500_000
#: bytes that ended requests may hold until they are read: more, and the next to end are read at once, which holds the
#: loop and so slows the load down (the run says how late it was) instead of filling the memory
UNREAD_BYTES = 64 * 2**20
#: what a request holds beside its bytes: case, stamps, headers, about so much
FLIGHT_BYTES = 6 * 1024
#: ended requests that wait, from which on reading takes whole turns though a request is due: a load that is always
#: late must not hide from control what comes back
LONG_QUEUE = 256

_SERVER_FAILURES = frozenset(
    {
        Outcome.HTTP_ERROR,
        Outcome.STREAM_ERROR,
        Outcome.TRUNCATED,
        Outcome.NO_OUTPUT,
        Outcome.STALLED,
        Outcome.TIMEOUT,
        Outcome.MALFORMED,
        Outcome.REFUSED,
    }
)


@dataclass(frozen=True, slots=True)
class Counts:
    """What a process has done in the run so far. `failed` of `ended` were neither ok nor cut by ourselves;
    `recent_failures` of the `recent_ended` last ones failed by the server's fault. Counts of several add up."""

    sent: int = 0
    ended: int = 0
    failed: int = 0
    output_tokens: int = 0
    recent_ended: int = 0
    recent_failures: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def live(self, price_per_million: float | None = None, server_waiting: tuple[float, ...] = ()) -> Live:
        cost = None if price_per_million is None else self.output_tokens * price_per_million / 1e6
        return Live(
            self.sent, self.output_tokens, cost, self.recent_ended, self.recent_failures, server_waiting
        )  # fmt: skip


class Tally:
    """Live aggregates of a run's requests in this process; the drivers of all its arms share one.

    `budget`: what the run may send, of all its processes together; None = no limit. `recent`: how many of
    the last ended requests are looked at for failures. `samples`: where measured requests are told to control.
    """

    def __init__(self, budget: Budget | None = None, recent: int = RECENT, samples: Recent | None = None) -> None:
        self.sent = 0
        self.ended = 0
        self.failed = 0
        self.output_tokens = 0
        self._budget = budget
        self._recent: deque[bool] = deque(maxlen=recent)
        self._samples = samples

    def permit(self) -> bool:
        """Whether one more request may be sent. It must be, then: it has been taken from the budget."""
        return self._budget is None or self._budget.take()

    def note_sent(self) -> None:
        self.sent += 1

    def note_ended(self, attempt: Attempt) -> None:
        """Where the server told no count, every chunk is at least one token."""
        self.output_tokens += len(attempt.ledger) if attempt.output_len is None else attempt.output_len
        self.ended += 1
        self.failed += attempt.outcome not in (Outcome.OK, Outcome.ABORTED)
        if attempt.outcome not in (Outcome.CLIENT_FAULT, Outcome.ABORTED):
            self._recent.append(attempt.outcome in _SERVER_FAILURES)
        if self._samples is not None:
            self._samples.add(attempt)

    def take_samples(self) -> tuple[Sample, ...]:
        """Of the measured requests that ended since the last call; empty where nobody watches."""
        return () if self._samples is None else self._samples.take()

    def counts(self) -> Counts:
        return Counts(
            self.sent, self.ended, self.failed, self.output_tokens, len(self._recent), sum(self._recent)
        )  # fmt: skip


class Recorder:
    """Reads ended exchanges off the path that stamps. What fails, the sink above all, is told to `fault`."""

    def __init__(
        self,
        adapter: Adapter,
        redact: Redact,
        keep_text: bool,
        sink: Sink,
        tally: Tally,
        fault: Callable[[Exception], None],
        slack: Slack | None = None,
    ) -> None:
        self._slack = slack or Slack()
        self._adapter = adapter
        self._redact = redact
        self._keep_text = keep_text
        self._sink = sink
        self._tally = tally
        self._fault = fault
        self._ended: deque[Flight] = deque()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._turn_ns = 0
        self._unread = 0

    def add(self, flight: Flight) -> None:
        self._ended.append(flight)
        self._unread += held_bytes(flight)
        self._idle.clear()
        self._wake.set()
        while self._unread > UNREAD_BYTES and self._ended:
            self._record_now(self._take())

    def _take(self) -> Flight:
        flight = self._ended.popleft()
        self._unread -= held_bytes(flight)
        return flight

    def _record_now(self, flight: Flight) -> None:
        try:
            reader = self._reader(flight)
            for _ in reader.steps():
                pass
            self._keep(flight, reader)
        except Exception as error:
            self._fault(error)

    async def work(self) -> None:
        """Runs beside the segment until cancelled."""
        while True:
            await self._wake.wait()
            await self._slack.spare()
            self._turn_ns = now_ns()
            while self._ended:
                try:
                    await self._record(self._take())
                except Exception as error:
                    self._fault(error)
            self._wake.clear()
            self._idle.set()

    async def flush(self) -> None:
        """Wait until every ended request has been recorded."""
        await self._idle.wait()

    async def _record(self, flight: Flight) -> None:
        reader = self._reader(flight)
        for _ in reader.steps():
            await self._pause()
        self._keep(flight, reader)
        await self._pause()

    def _reader(self, flight: Flight) -> ExchangeReader:
        return ExchangeReader(flight.exchange, flight.sent, self._adapter, self._redact, self._keep_text)

    def _keep(self, flight: Flight, reader: ExchangeReader) -> None:
        attempt = reader.attempt()
        flight.exchange.body.clear()
        self._tally.note_ended(attempt)
        self._sink.attempt(attempt)

    async def _pause(self) -> None:
        """A turn for others, where they have waited long enough for it to be worth a pass of the loop, or send soon."""
        waits = len(self._ended) < LONG_QUEUE and self._slack.soon()
        if waits or now_ns() - self._turn_ns > TURN_NS:
            await self._slack.spare()
            self._turn_ns = now_ns()


def held_bytes(flight: Flight) -> int:
    """What an ended request keeps in memory until it is read, about: an empty answer keeps its question."""
    exchange, post = flight.exchange, flight.outgoing.post
    asked = 0 if post is None else len(post.body)
    return FLIGHT_BYTES + asked + len(exchange.body) + exchange.piece_ns.itemsize * 2 * len(exchange.piece_ns)
