"""One epoll descriptor for all sockets of a transport, nested in the event loop as a single reader.

A wake-up of the loop then drains every ready socket, without a task or a callback of the loop for each.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable

from loadgen.clock import now_ns
from loadgen.drive.kernel.clock_offset import WallOffset

_MAX_EVENTS = 1024
#: `pump_if_due` polls no more often than this
_PUMP_NS = 500_000

Handler = Callable[[int], None]


class Poller:
    """Calls a socket's handler with its events, at most once a pass: fair, since epoll is level-triggered.

    A handler must not raise: one bad server must not keep the others from being read.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, offset: WallOffset) -> None:
        self.loop = loop
        self._offset = offset
        self._epoll = select.epoll()
        self._handlers: dict[int, Handler] = {}
        self._waiting: set[asyncio.Future[None]] = set()
        self._pumped_ns = 0
        loop.add_reader(self._epoll.fileno(), self.pump)

    def register(self, fd: int, mask: int, handler: Handler) -> None:
        self._epoll.register(fd, mask)
        self._handlers[fd] = handler

    def modify(self, fd: int, mask: int) -> None:
        self._epoll.modify(fd, mask)

    def unregister(self, fd: int) -> None:
        """Before the descriptor is closed. Once is enough, twice does no harm."""
        if self._handlers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def pump(self) -> None:
        """Read what has come. Runs by itself when the loop polls."""
        self._pumped_ns = now_ns()
        self._offset.check()
        handlers = self._handlers
        for fd, events in self._epoll.poll(0, _MAX_EVENTS):
            handler = handlers.get(fd)
            if handler is not None:
                handler(events)

    def pump_if_due(self) -> None:
        """The loop runs every ready task before it polls: call this between pieces of long work."""
        if now_ns() - self._pumped_ns > _PUMP_NS:
            self.pump()

    async def ready(self, fd: int, mask: int) -> None:
        """Wait until an unregistered descriptor is readable or writable, or has failed."""
        future: asyncio.Future[None] = self.loop.create_future()

        def wake(_events: int) -> None:
            if not future.done():
                future.set_result(None)

        self.register(fd, mask, wake)
        self._waiting.add(future)
        try:
            await future
        finally:
            self._waiting.discard(future)
            self.unregister(fd)

    def close(self) -> None:
        """Those who wait get a RuntimeError."""
        self.loop.remove_reader(self._epoll.fileno())
        self._epoll.close()
        self._handlers.clear()
        for future in self._waiting:
            if not future.done():
                future.set_exception(RuntimeError("the transport was closed"))
