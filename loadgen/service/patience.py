"""HTTP with an end to waiting: for a request's head and body, and for a client that does not take its answer."""

from __future__ import annotations

import asyncio
import logging
import time
import weakref
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

log = logging.getLogger("specload.service")

#: How often connections are looked at.
LOOK_INTERVAL_S = 1.0
#: What a client still sends after its answer, a refused body, is read and thrown away for so long.
LINGER_S = 5.0
#: Of the scope: who is really connected, whatever a proxy says.
PEER = "specload.peer"
_TOO_SLOW = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: 29\r\n\r\n"
    b"the request came too slowly.\n"
)


#: What is to be done about a connection, and whether that is because it was too slow.
Due = tuple[Callable[[], None], bool]


class PatientHttp(H11Protocol):
    """One connection. What has taken too long by now is said by `overdue`; `Patience` asks."""

    def __init__(self, *values: Any, **more: Any) -> None:
        super().__init__(*values, **more)
        self._inner = self.app
        self.app = self._with_peer
        self._head_since: float | None = None
        self._body_since: float | None = None
        self._answered_at: float | None = None
        self._unsent = 0
        self._stuck_since: float | None = None

    async def _with_peer(self, scope: Any, receive: Any, send: Any) -> None:
        scope[PEER] = self.client
        await self._inner(scope, receive, send)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_since = time.monotonic()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._note()

    def on_response_complete(self) -> None:
        self._answered_at = time.monotonic()
        super().on_response_complete()
        self._note(idle=True)

    def _note(self, idle: bool = False) -> None:
        """What is waited for now. `idle`: between requests, which uvicorn bounds itself."""
        now, state = time.monotonic(), self.conn.their_state
        heading = state is h11.IDLE and not idle
        self._head_since = (self._head_since or now) if heading else None
        self._body_since = (self._body_since or now) if state is h11.SEND_BODY else None
        if state is not h11.SEND_BODY:
            self._answered_at = None

    def overdue(self, now: float, head_s: float, body_s: float, send_s: float) -> Due | None:
        """None: nothing is to be done. One that has its answer, and has not sent all, was not too slow."""
        unsent = self.transport.get_write_buffer_size()
        if unsent == 0 or unsent < self._unsent:
            self._stuck_since = None
        elif self._stuck_since is None:
            self._stuck_since = now
        self._unsent = unsent
        if _over(self._stuck_since, now, send_s):
            return self.transport.abort, True
        if self.transport.is_closing():
            return None
        if _over(self._answered_at, now, LINGER_S):
            return self.transport.close, False
        slow = _over(self._head_since, now, head_s) or _over(self._body_since, now, body_s)
        return (self._refuse, True) if slow else None

    def _refuse(self) -> None:
        """Said once, and only where no answer has begun."""
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self.transport.write(_TOO_SLOW)
        self.transport.close()


def _over(since: float | None, now: float, most_s: float) -> bool:
    return since is not None and now - since > most_s


class Patience:
    """Looks at every connection once a second. `slow` is told of each that is given up."""

    def __init__(self, head_s: float, body_s: float, send_s: float, slow: Callable[[], None]) -> None:
        self._limits = head_s, body_s, send_s
        self._slow = slow
        self._all: weakref.WeakSet[PatientHttp] = weakref.WeakSet()

    def protocol(self, *values: Any, **more: Any) -> PatientHttp:
        """For uvicorn, instead of its own."""
        made = PatientHttp(*values, **more)
        self._all.add(made)
        return made

    async def look_on(self) -> None:
        while True:
            await asyncio.sleep(LOOK_INTERVAL_S)
            self.look(time.monotonic())

    def look(self, now: float) -> None:
        for one in list(self._all):
            if one.transport is None or one not in one.connections:
                continue
            try:
                found = one.overdue(now, *self._limits)
                if found is not None:
                    end, slow = found
                    if slow:
                        self._slow()
                    end()
            except Exception as error:  # one that cannot be looked at must not keep the others from it
                log.error("a connection cannot be looked at: %s; it is closed", type(error).__name__)
                one.transport.abort()
