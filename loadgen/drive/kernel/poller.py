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
_OUT = select.EPOLLOUT
#: `pump_if_due` polls no more often than this
_PUMP_NS = 500_000

#: From so many sockets on, reads may be gathered: waking for each costs more than reading it. The kernel has
#: stamped what waits, and timers have a grain of 1 ms anyway
_GATHER_FROM = 32
_GATHER_S = 0.001
#: What follows its predecessor this quickly may be merged with it by gathering: where that is more than one read in
#: twenty, judged over so many reads, reads are not gathered for a second
_QUICK_NS = 4_000_000
_QUICK_SHARE = 0.05
_JUDGED = 200
_AWAKE_NS = 1_000_000_000

Handler = Callable[[int], None]


class Gathering:
    """Whether reads may wait for each other a moment: only where no stream is so quick that its chunks would merge."""

    __slots__ = ("_quick", "_reads", "_until_ns")

    def __init__(self) -> None:
        self._reads = 0
        self._quick = 0
        self._until_ns = 0

    def note(self, gap_ns: int) -> None:
        """A stream brought something `gap_ns` after it last had, or after its request."""
        self._reads += 1
        if gap_ns < _QUICK_NS:
            self._quick += 1

    def allowed(self, at_ns: int) -> bool:
        if self._reads >= _JUDGED:
            if self._quick > _QUICK_SHARE * self._reads:
                self._until_ns = at_ns + _AWAKE_NS
            self._reads = self._quick = 0
        return at_ns >= self._until_ns


class Poller:
    """Calls a socket's handler with its events, at most once a pass: fair, since epoll is level-triggered.

    A handler must not raise: one bad server must not keep the others from being read. With many slow streams the
    sockets are looked at once a millisecond instead of at every event (`gathering`); never while a connection is being
    made or a request is still on its way out.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, offset: WallOffset) -> None:
        self.loop = loop
        self.gathering = Gathering()
        self._timer: asyncio.TimerHandle | None = None
        self._sending: set[int] = set()
        self._offset = offset
        self._epoll = select.epoll()
        self._handlers: dict[int, Handler] = {}
        self._waiting: set[asyncio.Future[None]] = set()
        self._pumped_ns = 0
        loop.add_reader(self._epoll.fileno(), self._look)

    def register(self, fd: int, mask: int, handler: Handler) -> None:
        self._epoll.register(fd, mask)
        self._handlers[fd] = handler
        self._note_mask(fd, mask)

    def modify(self, fd: int, mask: int) -> None:
        self._epoll.modify(fd, mask)
        self._note_mask(fd, mask)

    def _note_mask(self, fd: int, mask: int) -> None:
        if mask & _OUT:
            self._sending.add(fd)
            self._wake()
        else:
            self._sending.discard(fd)

    def unregister(self, fd: int) -> None:
        """Before the descriptor is closed. Once is enough, twice does no harm."""
        if self._handlers.pop(fd, None) is not None:
            self._epoll.unregister(fd)
            self._sending.discard(fd)

    def _look(self) -> None:
        """The loop says that something has come, or a gathering's time is over."""
        try:
            self.pump()
        finally:
            self._go_on()

    def _go_on(self) -> None:
        """Whatever happened, somebody looks again: the timer, or the loop."""
        if self._epoll.closed:
            return
        gather = (
            len(self._handlers) >= _GATHER_FROM
            and not self._sending
            and not self._waiting
            and self.gathering.allowed(self._pumped_ns)
        )
        if gather:
            if self._timer is None:
                self.loop.remove_reader(self._epoll.fileno())
            self._timer = self.loop.call_later(_GATHER_S, self._look)
        else:
            self._wake()

    def _wake(self) -> None:
        """Look at every event again."""
        if self._timer is not None and not self._epoll.closed:
            self._timer.cancel()
            self._timer = None
            self.loop.add_reader(self._epoll.fileno(), self._look)

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

        self._waiting.add(future)
        self._wake()
        self.register(fd, mask, wake)
        try:
            await future
        finally:
            self._waiting.discard(future)
            self.unregister(fd)

    def close(self) -> None:
        """Those who wait get a RuntimeError."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.loop.remove_reader(self._epoll.fileno())
        self._epoll.close()
        self._handlers.clear()
        for future in self._waiting:
            if not future.done():
                future.set_exception(RuntimeError("the transport was closed"))
