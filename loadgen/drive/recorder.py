"""Ended requests become attempts, one at a time and in pieces, and go to the sink."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from loadgen.control import Live
from loadgen.drive.flight import Flight
from loadgen.drive.ledger import ExchangeReader, Redact
from loadgen.drive.types import Attempt, Outcome, Sink
from server_adapters.base import Adapter

RECENT = 50

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


class Tally:
    """Live aggregates of a run; the drivers of all its arms may share one.

    `max_requests` is exact: the request that would be one more is never sent.
    """

    def __init__(self, max_requests: int | None = None) -> None:
        self.max_requests = max_requests
        self.sent = 0
        self.output_tokens = 0
        self._recent: deque[bool] = deque(maxlen=RECENT)

    @property
    def may_send(self) -> bool:
        return self.max_requests is None or self.sent < self.max_requests

    def note_sent(self) -> None:
        self.sent += 1

    def note_ended(self, attempt: Attempt) -> None:
        """Where the server told no count, every chunk is at least one token."""
        self.output_tokens += len(attempt.ledger) if attempt.output_len is None else attempt.output_len
        if attempt.outcome not in (Outcome.CLIENT_FAULT, Outcome.ABORTED):
            self._recent.append(attempt.outcome in _SERVER_FAILURES)

    def live(self, price_per_million: float | None = None, server_waiting: tuple[float, ...] = ()) -> Live:
        cost = None if price_per_million is None else self.output_tokens * price_per_million / 1e6
        return Live(self.sent, self.output_tokens, cost, len(self._recent), sum(self._recent), server_waiting)


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
    ) -> None:
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

    def add(self, flight: Flight) -> None:
        self._ended.append(flight)
        self._idle.clear()
        self._wake.set()

    async def work(self) -> None:
        """Runs beside the segment until cancelled."""
        while True:
            await self._wake.wait()
            while self._ended:
                try:
                    await self._record(self._ended.popleft())
                except Exception as error:
                    self._fault(error)
            self._wake.clear()
            self._idle.set()

    async def flush(self) -> None:
        """Wait until every ended request has been recorded."""
        await self._idle.wait()

    async def _record(self, flight: Flight) -> None:
        reader = ExchangeReader(flight.exchange, flight.sent, self._adapter, self._redact, self._keep_text)
        for _ in reader.steps():
            await asyncio.sleep(0)
        attempt = reader.attempt()
        self._tally.note_ended(attempt)
        self._sink.attempt(attempt)
        await asyncio.sleep(0)
