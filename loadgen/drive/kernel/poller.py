"""All sockets of a transport behind two epoll descriptors, nested in the event loop.

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
#: Events of one pass that make a crowd, and how many of a crowd are served between two looks at who comes first
_CROWD = 128
_BETWEEN = 32

Handler = Callable[[int], None]


class Poller:
    """Calls a socket's handler with its events, at most once a pass: fair, since epoll is level-triggered.

    A handler must not raise: one bad server must not keep the others from being read. Sockets whose answer has yet to
    begin come first, in a crowd too: a first chunk that is read before the second comes keeps its own stamp.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, offset: WallOffset) -> None:
        self.loop = loop
        self._offset = offset
        self._first, self._later = select.epoll(), select.epoll()
        self._postponed: set[int] = set()
        self.crowded = False
        self._handlers: dict[int, Handler] = {}
        self._waiting: set[asyncio.Future[None]] = set()
        self._pumped_ns = 0
        for epoll in (self._first, self._later):
            loop.add_reader(epoll.fileno(), self.pump)

    def register(self, fd: int, mask: int, handler: Handler) -> None:
        self._first.register(fd, mask)
        self._handlers[fd] = handler

    def modify(self, fd: int, mask: int) -> None:
        (self._later if fd in self._postponed else self._first).modify(fd, mask)

    def postpone(self, fd: int, mask: int) -> None:
        """Its answer has begun: it comes after those whose answer has not."""
        self._first.unregister(fd)
        self._later.register(fd, mask)
        self._postponed.add(fd)

    def prefer(self, fd: int, mask: int) -> None:
        """The answer of one that was postponed has ended; the next is to come first again."""
        self._postponed.discard(fd)
        self._later.unregister(fd)
        self._first.register(fd, mask)

    def unregister(self, fd: int) -> None:
        """Before the descriptor is closed. Once is enough, twice does no harm."""
        if self._handlers.pop(fd, None) is not None:
            (self._later if fd in self._postponed else self._first).unregister(fd)
            self._postponed.discard(fd)

    def pump(self) -> None:
        """Read what has come. Runs by itself when the loop polls."""
        self._pumped_ns = now_ns()
        self._offset.check()
        first = self._serve(self._first.poll(0, _MAX_EVENTS))
        later = self._later.poll(0, _MAX_EVENTS) if self._postponed else []
        self.crowded = first + len(later) > _CROWD
        for begin in range(0, len(later), _BETWEEN):
            if begin:
                self._serve(self._first.poll(0, _MAX_EVENTS))
            self._serve(later[begin : begin + _BETWEEN])

    def _serve(self, ready: list[tuple[int, int]]) -> int:
        handlers = self._handlers
        for fd, events in ready:
            handler = handlers.get(fd)
            if handler is not None:
                handler(events)
        return len(ready)

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
        for epoll in (self._first, self._later):
            self.loop.remove_reader(epoll.fileno())
            epoll.close()
        self._handlers.clear()
        for future in self._waiting:
            if not future.done():
                future.set_exception(RuntimeError("the transport was closed"))
