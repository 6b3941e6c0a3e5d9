"""When the clock, and when the data, decides that streams are read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from loadgen.clock import now_ns
from loadgen.drive.kernel.clock_offset import WallOffset
from loadgen.drive.kernel.pace import Pace
from loadgen.drive.kernel.poller import Poller

MS = 1_000_000


def test_many_reads_turn_it_on_and_few_off() -> None:
    """12,000 a second and 6,000, judged every 20 ms; between the two it stays as it is."""
    pace, at_ns = Pace(), 10**12
    pace.count(0, at_ns)
    changes = []
    for reads in (200, 241, 200, 121, 119, 200):
        at_ns += 20 * MS
        changes.append((pace.count(reads, at_ns), pace.on))
    assert changes == [(False, False), (True, True), (False, True), (False, True), (True, False), (False, False)]


def test_it_is_judged_from_all_reads_of_the_time() -> None:
    pace, at_ns = Pace(), 10**12
    pace.count(0, at_ns)
    assert [pace.count(100, at_ns + step * MS) for step in (5, 10, 15, 20)] == [False, False, False, True]


@pytest.fixture
def poller() -> Iterator[Poller]:
    """Outside of a running loop: nothing pumps it but the test."""
    loop = asyncio.new_event_loop()
    made = Poller(loop, WallOffset())
    if made.reader is None:
        made.close()
        loop.close()
        pytest.skip("the C reader is not built: python setup.py build_ext --inplace")
    yield made
    made.close()
    loop.close()


def test_the_loop_is_woken_by_the_clock_or_by_data_never_by_both(poller: Poller) -> None:
    loop, later = poller.loop, poller._later_fd
    assert loop.remove_reader(later)
    loop.add_reader(later, poller.pump)
    for reads, by_clock in ((10**6, True), (0, False), (10**6, True)):
        poller._reads = reads
        poller._pace._since_ns = now_ns() - 10**9
        poller.pump()
        assert poller._pace.on is by_clock
        assert (loop.remove_reader(later), loop.remove_reader(poller.reader.pace(0))) == (not by_clock, by_clock)
        loop.add_reader(poller.reader.pace(1) if by_clock else later, poller.pump)
