"""One request in flight: what it is, when it was due, and how it can be cut."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import httpx

from loadgen.clock import now_ns
from loadgen.drive.ledger import Sent
from loadgen.drive.post import Post
from loadgen.drive.request import Outgoing
from loadgen.drive.types import Outcome


class Flight:
    """Sends one request and ends with its exchange filled, whatever happens.

    A cut ends only the wait for the transport: the flight itself goes on to be recorded.
    """

    def __init__(self, outgoing: Outgoing, sent: Sent) -> None:
        self.outgoing = outgoing
        self.sent = sent
        self.exchange = outgoing.exchange
        self._cut_as: tuple[Outcome, str] | None = None
        self._scope: asyncio.Timeout | None = None

    def cut(self, outcome: Outcome, detail: str) -> None:
        """End it now. `detail` is "code: message". The first cut's reason stays; an ended flight is left alone."""
        if self._cut_as is None:
            self._cut_as = (outcome, detail)
            if self._scope is not None:
                self._scope.reschedule(asyncio.get_running_loop().time())

    async def fly(self, send: Callable[[Post], Awaitable[object]]) -> None:
        exchange = self.exchange
        try:
            await self._send(send)
        except httpx.TransportError:
            pass  # the transport has written into the exchange what it was
        except TimeoutError:
            assert self._cut_as is not None
            exchange.failure, exchange.failure_detail = self._cut_as
        except asyncio.CancelledError:
            exchange.failure, exchange.failure_detail = Outcome.ABORTED, "user_stop: the run was cancelled"
            raise
        except Exception as bug:
            exchange.failure = Outcome.CLIENT_FAULT
            exchange.failure_detail = f"{type(bug).__name__}: {bug}"
        finally:
            self._scope = None
            if exchange.end_ns is None:
                exchange.end_ns = now_ns()

    async def _send(self, send: Callable[[Post], Awaitable[object]]) -> None:
        if self.outgoing.post is None:
            self.exchange.failure = Outcome.CLIENT_FAULT
            self.exchange.failure_detail = self.outgoing.fault
            return
        if self._cut_as is not None:
            raise TimeoutError
        async with asyncio.timeout(None) as self._scope:
            await send(self.outgoing.post)
