"""Waiting for a moment: never too early, ended by a ring, with and without the kernel's timer."""

from __future__ import annotations

import asyncio

import pytest

from loadgen.clock import now_ns
from loadgen.drive.alarm import Alarm

MS = 1_000_000


@pytest.fixture(params=["timerfd", "loop"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "loop":
        monkeypatch.setattr("sys.platform", "darwin")
    return str(request.param)


async def until(alarm: Alarm, at_ns: int) -> None:
    """As the dispatcher waits: a timer of the loop may end a moment early."""
    while now_ns() < at_ns:
        await alarm.wait(at_ns)


async def test_every_wait_ends_at_its_moment(kind: str) -> None:
    """E6: absolute moments, so that being late once makes nothing after it late."""
    alarm = Alarm()
    assert (alarm._fd >= 0) is (kind == "timerfd")
    begun_ns = now_ns()
    for i in range(1, 6):
        await until(alarm, begun_ns + i * 3 * MS)
        assert now_ns() >= begun_ns + i * 3 * MS
    alarm.close()


async def test_a_moment_in_the_past_does_not_wait(kind: str) -> None:
    alarm = Alarm()
    async with asyncio.timeout(30):
        await alarm.wait(now_ns() - 1)
        await alarm.wait(0)
    alarm.close()


async def test_a_ring_ends_the_wait_and_leaves_nothing_behind(kind: str) -> None:
    alarm = Alarm()
    waiting = asyncio.create_task(alarm.wait(now_ns() + 3600 * 1000 * MS))
    await asyncio.sleep(0)
    alarm.ring()
    async with asyncio.timeout(30):
        await waiting
    alarm.ring()  # nobody waits
    at_ns = now_ns() + 5 * MS
    async with asyncio.timeout(30):
        await until(alarm, at_ns)
    assert now_ns() >= at_ns
    alarm.close()
    alarm.close()


async def test_closing_ends_the_wait(kind: str) -> None:
    alarm = Alarm()
    waiting = asyncio.create_task(alarm.wait(now_ns() + 3600 * 1000 * MS))
    await asyncio.sleep(0)
    alarm.close()
    async with asyncio.timeout(30):
        await waiting
