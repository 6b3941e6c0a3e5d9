"""All sockets of a transport behind two epoll descriptors, nested in the event loop.

A wake-up of the loop then drains every ready socket, without a task or a callback of the loop for each.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from loadgen.clock import now_ns
from loadgen.drive.kernel.aside import make_reader
from loadgen.drive.kernel.clock_offset import WallOffset
from loadgen.drive.kernel.pace import EVERY_NS, Pace

if TYPE_CHECKING:
    from loadgen.drive.kernel._reader import Reader

_MAX_EVENTS = 1024
#: `pump_if_due` polls no more often than this
_PUMP_NS = 500_000
#: Events of one pass that make a crowd, and how many of a crowd are served between two looks at who comes first
_CROWD = 128
_BETWEEN = 32


Handler = Callable[[int], None]


class Poller:
    """Calls a socket's handler with its events, or reads itself what its `reader` has attached: then the handler is
    called only where that wants it, with the negative of why (aside.py).

    Fair, since epoll is level-triggered: who has been served comes after all others that are ready. A handler must
    not raise: one bad server must not keep the others from being read. Sockets whose answer has yet to begin come
    first, in a crowd too: a first chunk that is read before the second comes keeps its own stamp. Of many attached
    streams whose answer has begun, the clock says when they are read (pace.py): waking for each read costs more than
    the read.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, offset: WallOffset) -> None:
        self.loop = loop
        self.reader = make_reader()
        self._offset = offset
        self._first, self._later = select.epoll(), select.epoll()
        self._first_fd, self._later_fd = self._first.fileno(), self._later.fileno()
        self._postponed: set[int] = set()
        self._pace = Pace()
        self._reads = 0
        self.crowded = False
        self._handlers: dict[int, Handler] = {}
        self._waiting: set[asyncio.Future[None]] = set()
        self._pumped_ns = 0
        for fd in (self._first_fd, self._later_fd):
            loop.add_reader(fd, self.pump)

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
            if self.reader is not None:
                self.reader.detach(fd)

    def pump(self) -> None:
        """Read what has come. Runs by itself when the loop polls."""
        self._pumped_ns = now_ns()
        self._offset.check()
        served = self._serve(self._first, _MAX_EVENTS)
        most = served + _MAX_EVENTS
        while self._postponed and served < most:
            later = self._serve(self._later, _BETWEEN)
            served += later
            if later < _BETWEEN:
                break
            self._serve(self._first, _MAX_EVENTS)
        self.crowded = served > _CROWD
        if self.reader is not None:
            self._keep_pace(self.reader)

    def _serve(self, epoll: select.epoll, most: int) -> int:
        """How many were ready."""
        rest: Sequence[tuple[int, int]] | None
        if self.reader is None:
            rest = epoll.poll(0, most)
            ready = len(rest)
        else:
            offset, spread = self._offset, self.crowded or self._pace.on
            ready, read, rest = self.reader.serve(
                epoll.fileno(), most, offset.offset_ns, offset.uncertainty_ns, spread
            )  # fmt: skip
            self._reads += read
        if rest:
            handlers = self._handlers
            for fd, events in rest:
                handler = handlers.get(fd)
                if handler is not None:
                    handler(events)
        return ready

    def _keep_pace(self, reader: Reader) -> None:
        if self._pace.on:
            reader.tick()
        reads, self._reads = self._reads, 0
        if self._pace.count(reads, self._pumped_ns):
            fd = reader.pace(EVERY_NS if self._pace.on else 0)
            idle, busy = (self._later_fd, fd) if self._pace.on else (fd, self._later_fd)
            self.loop.remove_reader(idle)
            self.loop.add_reader(busy, self.pump)

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
        if self.reader is not None:
            self.loop.remove_reader(self.reader.pace(0))
            self.reader.close()
        self._handlers.clear()
        for future in self._waiting:
            if not future.done():
                future.set_exception(RuntimeError("the transport was closed"))
