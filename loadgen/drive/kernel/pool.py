"""Connections that wait for their next request, and the pace at which new ones are made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from loadgen.clock import now_ns
from loadgen.drive.kernel.connection import Connection

#: a burst of connects overflows a server's listen queue, and what is dropped is tried again a second later (E21)
CONNECTS_PER_S = 2000
CONNECT_BURST = 64
CONNECTS_AT_ONCE = 256


class Origin(NamedTuple):
    """What connections are alike for. `sni` is the name that TLS checks, None without TLS; `path`, a Unix socket."""

    host: str
    port: int
    sni: str | None
    path: str | None


class Pool:
    """Idle connections by origin, the latest used first, and every connection there is.

    There is no limit and no queue: the driver limits what is in flight (E1, E4).
    """

    def __init__(self, keepalive_ns: int) -> None:
        self._keepalive_ns = keepalive_ns
        self._idle: dict[Origin, dict[Connection, None]] = {}
        self._all: set[Connection] = set()

    def __len__(self) -> int:
        return len(self._all)

    def add(self, connection: Connection) -> None:
        self._all.add(connection)

    def take(self, origin: Origin) -> Connection | None:
        """A connection that is open and silent at this moment, or None."""
        idle = self._idle.get(origin)
        if idle is None:
            return None
        self._expire(idle)
        while idle:
            connection, _ = idle.popitem()
            if connection.usable():
                return connection
        return None

    def put(self, origin: Origin, connection: Connection) -> None:
        idle = self._idle.setdefault(origin, {})
        idle[connection] = None
        self._expire(idle)

    def drop(self, origin: Origin, connection: Connection) -> None:
        """It has been closed."""
        self._all.discard(connection)
        self._idle.get(origin, {}).pop(connection, None)

    def close(self) -> None:
        for connection in list(self._all):
            connection.abort(RuntimeError("the transport was closed"))

    def _expire(self, idle: dict[Connection, None]) -> None:
        limit_ns = now_ns() - self._keepalive_ns
        while idle and (oldest := next(iter(idle))).idle_since_ns < limit_ns:
            oldest.close()


class ConnectPacer:
    """`async with pacer.turn() as waited_ns`: at most so many connects at once, and so many a second after a burst."""

    def __init__(
        self, per_s: int = CONNECTS_PER_S, burst: int = CONNECT_BURST, at_once: int = CONNECTS_AT_ONCE
    ) -> None:
        self._gap_ns = 1_000_000_000 // per_s
        self._burst_ns = burst * self._gap_ns
        self._slots = asyncio.Semaphore(at_once)
        self._next_ns = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[int]:
        asked_ns = now_ns()
        async with self._slots:
            at_ns = max(self._next_ns, now_ns() - self._burst_ns)
            self._next_ns = at_ns + self._gap_ns
            if (wait_ns := at_ns - now_ns()) > 0:
                await asyncio.sleep(wait_ns / 1e9)
            yield now_ns() - asked_ns
