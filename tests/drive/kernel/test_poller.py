"""Many sockets behind one reader: who is served when, and that nobody is left out."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import AsyncIterator
from functools import partial

import pytest

from loadgen.drive.kernel.clock_offset import WallOffset
from loadgen.drive.kernel.poller import Poller

IN = select.EPOLLIN
CROWD = 200


class Pairs:
    """`CROWD` socket pairs whose ends are in the poller; a handler reads and notes its number."""

    def __init__(self, poller: Poller) -> None:
        self.poller = poller
        self.pairs = [socket.socketpair() for _ in range(CROWD)]
        self.served: list[int] = []
        for number, (mine, _) in enumerate(self.pairs):
            mine.setblocking(False)
            poller.register(mine.fileno(), IN, partial(self.serve, number))

    def serve(self, number: int, _events: int) -> None:
        self.pairs[number][0].recv(10)
        self.served.append(number)

    def say(self, *numbers: int) -> None:
        for number in numbers:
            self.pairs[number][1].send(b"x")

    def postpone(self, numbers: range) -> None:
        for number in numbers:
            self.poller.postpone(self.pairs[number][0].fileno(), IN)

    def close(self) -> None:
        for mine, peer in self.pairs:
            self.poller.unregister(mine.fileno())
            mine.close()
            peer.close()


@pytest.fixture
async def pairs() -> AsyncIterator[Pairs]:
    poller = Poller(asyncio.get_running_loop(), WallOffset())
    found = Pairs(poller)
    yield found
    found.close()
    poller.close()


async def test_answers_that_have_yet_to_begin_come_first(pairs: Pairs) -> None:
    """C21: a first chunk is read before the second one joins it, however many streams are at work."""
    pairs.postpone(range(150))
    pairs.say(*range(CROWD))
    pairs.poller.pump()
    assert sorted(pairs.served) == list(range(CROWD))
    assert set(pairs.served[:50]) == set(range(150, 200))
    assert pairs.poller.crowded


async def test_one_that_begins_while_a_crowd_is_served_need_not_wait_for_its_end(pairs: Pairs) -> None:
    pairs.postpone(range(150))
    own = pairs.serve

    def serve(number: int, events: int) -> None:
        own(number, events)
        if len(pairs.served) == 10:
            pairs.say(199)

    pairs.serve = serve  # type: ignore[method-assign]
    for number in range(150):
        fd = pairs.pairs[number][0].fileno()
        pairs.poller._handlers[fd] = partial(serve, number)
    pairs.say(*range(150))
    pairs.poller.pump()
    assert 10 < pairs.served.index(199) < 60
    assert len(pairs.served) == 151


async def test_preferred_again_it_comes_first_again(pairs: Pairs) -> None:
    pairs.postpone(range(100))
    for number in range(50):
        pairs.poller.prefer(pairs.pairs[number][0].fileno(), IN)
    pairs.say(*range(100))
    pairs.poller.pump()
    assert set(pairs.served[:50]) == set(range(50))
    assert not pairs.poller.crowded


async def test_the_loop_wakes_for_both(pairs: Pairs) -> None:
    pairs.postpone(range(2))
    pairs.say(1, 2)
    for _ in range(10):
        await asyncio.sleep(0.001)
    assert sorted(pairs.served) == [1, 2]


async def test_one_that_goes_while_it_is_postponed_leaves_nothing(pairs: Pairs) -> None:
    pairs.postpone(range(3))
    fd = pairs.pairs[1][0].fileno()
    pairs.poller.unregister(fd)
    pairs.poller.unregister(fd)
    pairs.say(0, 1, 2)
    pairs.poller.pump()
    assert sorted(pairs.served) == [0, 2]
    pairs.poller.register(fd, IN, partial(pairs.serve, 1))
    pairs.poller.modify(fd, IN | select.EPOLLOUT)
    pairs.poller.pump()
    assert sorted(pairs.served) == [0, 1, 2]
