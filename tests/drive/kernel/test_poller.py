"""Reads gathered once a millisecond: which streams allow it, and that no stamp and no connection pays for it."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from loadgen.clock import now_ns
from loadgen.drive import Exchange
from loadgen.drive.kernel import KernelTransport
from loadgen.drive.kernel.clock_offset import WallOffset
from loadgen.drive.kernel.poller import Gathering, Poller

MS = 1_000_000
Kernel = Callable[..., KernelTransport]
Send = Callable[..., Awaitable[Exchange]]


def test_slow_streams_allow_gathering_and_quick_ones_do_not() -> None:
    """C22: chunks that come within a few milliseconds of each other would be merged."""
    gathering = Gathering()
    for _ in range(200):
        gathering.note(20 * MS)
    assert gathering.allowed(1_000 * MS)
    for i in range(200):
        gathering.note(1 * MS if i < 11 else 20 * MS)
    assert not gathering.allowed(2_000 * MS)
    assert not gathering.allowed(2_999 * MS)
    for i in range(200):
        gathering.note(1 * MS if i < 10 else 20 * MS)
    assert gathering.allowed(3_000 * MS)


class Pairs:
    """Connected pairs of sockets, one end registered: `heard` is when a handler was called."""

    def __init__(self, poller: Poller, n: int) -> None:
        self.ends = [socket.socketpair() for _ in range(n)]
        self.heard: list[int] = []
        self.poller = poller
        for mine, _theirs in self.ends:
            mine.setblocking(False)
            poller.register(mine.fileno(), select.EPOLLIN, self._handler(mine))

    def _handler(self, mine: socket.socket) -> Callable[[int], None]:
        def handle(_events: int) -> None:
            mine.recv(100)
            self.heard.append(now_ns())

        return handle

    def close(self) -> None:
        for mine, theirs in self.ends:
            self.poller.unregister(mine.fileno())
            mine.close()
            theirs.close()


@pytest.fixture
async def pairs() -> Any:
    poller = Poller(asyncio.get_running_loop(), WallOffset())
    made: list[Pairs] = []

    def make(n: int) -> Pairs:
        made.append(Pairs(poller, n))
        return made[-1]

    yield make
    for one in made:
        one.close()
    if not poller._epoll.closed:
        poller.close()


async def heard(pairs: Pairs, n: int) -> None:
    async with asyncio.timeout(5):
        while len(pairs.heard) < n:  # noqa: ASYNC110  (what sets the list is under test)
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("n", [4, 40])
async def test_everything_is_heard(pairs: Any, n: int) -> None:
    """With few sockets at once, with many when the millisecond is over, again and again."""
    found = pairs(n)
    for round_ in range(1, 6):
        for _mine, theirs in found.ends:
            theirs.send(b"x")
        await heard(found, n * round_)
    assert len(found.heard) == 5 * n


async def test_many_are_looked_at_together(pairs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One look for what came within a millisecond, instead of one for each."""
    found, looks = pairs(40), []
    pump = Poller.pump

    def counted(poller: Poller) -> None:
        before = len(found.heard)
        pump(poller)
        looks.append(len(found.heard) - before)

    monkeypatch.setattr(Poller, "pump", counted)
    found.ends[0][1].send(b"x")
    await heard(found, 1)
    looks.clear()
    for _mine, theirs in found.ends:
        theirs.send(b"x")
        await asyncio.sleep(0)
    await heard(found, 41)
    assert max(looks) > 10


async def test_a_connection_being_made_ends_gathering(pairs: Any) -> None:
    """Connect times are taken when the loop is told of the connection, not a millisecond later."""
    found = pairs(40)
    found.ends[0][1].send(b"x")
    await heard(found, 1)
    poller = found.poller
    assert poller._timer is not None
    mine, theirs = socket.socketpair()
    waiting = asyncio.create_task(poller.ready(mine.fileno(), select.EPOLLOUT))
    await asyncio.sleep(0)
    assert poller._timer is None
    await waiting
    mine.close()
    theirs.close()


async def test_nothing_stops_the_looking(pairs: Any) -> None:
    """A handler's fault while reads are gathered costs that look only; a poller closed from inside one stays closed."""
    found = pairs(40)
    found.ends[0][1].send(b"x")
    await heard(found, 1)
    poller, loop = found.poller, asyncio.get_running_loop()
    told: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _loop, context: told.append(context))
    mine, theirs = socket.socketpair()

    def fails(_events: int) -> None:
        mine.recv(100)
        raise RuntimeError("a fault")

    poller.register(mine.fileno(), select.EPOLLIN, fails)
    theirs.send(b"x")
    found.ends[1][1].send(b"x")
    await heard(found, 2)
    loop.set_exception_handler(None)
    assert len(told) == 1
    poller.unregister(mine.fileno())
    mine.close()
    theirs.close()


async def test_closing_while_reads_are_gathered(pairs: Any) -> None:
    found = pairs(40)
    found.ends[0][1].send(b"x")
    await heard(found, 1)
    poller = found.poller
    assert poller._timer is not None
    found.close()
    found.ends.clear()
    poller.close()
    await asyncio.sleep(0.01)
    assert poller._timer is None


@pytest.fixture
def quiet_gathering(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("loadgen.drive.kernel.poller._GATHER_S", 0.01)
    return None


async def test_gathered_reads_keep_the_kernels_stamps(
    play: Any, http: Any, kernel: Kernel, send: Send, quiet_gathering: None
) -> None:
    """C21: read up to 10 ms late, forty streams of chunks 30 ms apart still have gaps of 30 ms."""
    server, one = await play(http.answer(tokens=5, gap_s=0.03)), kernel(connect_s=10)
    found = await asyncio.gather(*(send(one, server.url) for _ in range(40)))
    assert {e.timestamp_source for e in found} == {"kernel"}
    gaps = [b - a for e in found for a, b in zip(e.piece_ns, e.piece_ns[1:], strict=False)]
    assert gaps
    slow = sorted(gap for gap in gaps if gap > 10 * MS)
    assert 28 * MS < slow[len(slow) // 2] < 32 * MS
