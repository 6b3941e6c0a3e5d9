"""Streams that are alive but say nothing: bytes come, tokens do not (E28, E30)."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Collection

from loadgen.clock import now_ns
from loadgen.drive.flight import Flight
from loadgen.drive.sse import Event, Framer, is_done
from loadgen.drive.types import Exchange, Outcome
from server_adapters.base import Adapter, Chunk

#: looks a second
_LOOKS_PER_S = 4


class TokenClock:
    """When a stream last bore a token, found without touching the path that stamps.

    It frames what has come since its last look, and parses from the newest event back only
    until it has found a token. Comments, role and usage-only chunks are none.
    """

    def __init__(self, exchange: Exchange, adapter: Adapter) -> None:
        self._exchange = exchange
        self._adapter = adapter
        self._framer = Framer()
        self._read = 0
        self._last_ns: int | None = None
        self._tokens = 0

    def quick_ns(self) -> int | None:
        """The last token known of, else when the request was sent: never later than the truth."""
        return self._last_ns if self._last_ns is not None else self._exchange.sent_ns

    def look(self) -> int | None:
        """Read what has come, and say when the last token came. [DONE] counts as one: a connection that stays open
        after it is let go, and the answer is whole (`cut_after_end`)."""
        if self._exchange.refresh is not None:
            self._exchange.refresh()
        fresh = bytes(memoryview(self._exchange.body)[self._read :])
        self._read += len(fresh)
        bearer, count = None, self._tokens
        for event in reversed(self._framer.feed(fresh)):
            if is_done(event.data):
                self._last_ns = self._arrival(event)
                return self._last_ns
            chunk = self._chunk(event)
            if chunk is None or not chunk.has_choices:
                continue
            if chunk.completion_tokens is None:
                if not (chunk.token_ids or chunk.has_output):
                    continue
                bearer = bearer or event
                break
            if chunk.completion_tokens <= self._tokens or (bearer and chunk.completion_tokens < count):
                break  # an earlier count: it rose with `bearer`
            bearer, count = event, chunk.completion_tokens
        if bearer is not None:
            self._tokens = count
            self._last_ns = self._arrival(bearer)
        return self.quick_ns()

    def _arrival(self, event: Event) -> int:
        return self._exchange.piece_ns[bisect_left(self._exchange.piece_end, event.end)]

    def _chunk(self, event: Event) -> Chunk | None:
        try:
            return self._adapter.parse_chunk(event.data)
        except Exception:
            return None  # no token; what is wrong with it is said when the answer is read


class Watchdog:
    """Cuts streams that have borne no token for `limit_ns`, counted from when they were sent.

    A whole answer bears all its tokens at its end: it has `limit_ns` beyond the first byte's own limit, `begin_ns`;
    where that is None, for ever.
    """

    def __init__(
        self, flights: Collection[Flight], adapter: Adapter, limit_ns: int, begin_ns: int | None = None
    ) -> None:
        self._flights = flights
        self._adapter = adapter
        self._limit_ns = limit_ns
        self._whole_ns = None if begin_ns is None else begin_ns + limit_ns
        self._clocks: dict[Flight, TokenClock] = {}

    async def watch(self) -> None:
        """Runs beside the segment until cancelled. Streams within the limit cost one comparison a look."""
        pause_s = min(1 / _LOOKS_PER_S, self._limit_ns / 1e9 / 2)
        while True:
            await asyncio.sleep(pause_s)
            live = {f: self._clocks.get(f) for f in self._flights if f.sent.stream}
            self._clocks = {f: clock or TokenClock(f.exchange, self._adapter) for f, clock in live.items()}
            for flight, clock in self._clocks.items():
                if _over(clock.quick_ns(), self._limit_ns):
                    if _over(clock.look(), self._limit_ns):
                        flight.cut(Outcome.STALLED, f"token_idle: no token for {self._limit_ns / 1e9:g} s")
                    await asyncio.sleep(0)
            self._cut_unended()

    def _cut_unended(self) -> None:
        if self._whole_ns is None:
            return
        for flight in self._flights:
            if not flight.sent.stream and _over(flight.exchange.sent_ns, self._whole_ns):
                flight.cut(Outcome.STALLED, f"token_idle: the answer did not end within {self._whole_ns / 1e9:g} s")


def _over(since_ns: int | None, limit_ns: int) -> bool:
    return since_ns is not None and now_ns() - since_ns > limit_ns
