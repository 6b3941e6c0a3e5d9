"""What can wait gives way to what is due, and is not starved by a load that is always late."""

from __future__ import annotations

import asyncio

from loadgen.clock import now_ns
from loadgen.drive.slack import MARGIN_NS, PATIENCE_NS, Slack

FAR_NS = 3_600_000_000_000


def test_soon_is_of_the_earliest() -> None:
    slack, first, second = Slack(), object(), object()
    assert not slack.soon()
    slack.expect(first, now_ns() + FAR_NS)
    assert not slack.soon()
    slack.expect(second, now_ns() + MARGIN_NS // 2)
    assert slack.soon()
    slack.expect(second, now_ns() + FAR_NS)
    assert not slack.soon()
    slack.expect(second, now_ns() - 1)
    assert slack.soon()
    slack.forget(second)
    slack.forget(second)
    assert not slack.soon()


async def test_work_waits_until_what_is_due_was_sent() -> None:
    """E6, C21: three requests are due; the work begins after the third."""
    slack, events = Slack(), []

    async def dispatcher() -> None:
        for i in range(3):
            events.append(f"sent {i}")
            await asyncio.sleep(0)
        slack.expect(slack, now_ns() + FAR_NS)

    async def work() -> None:
        await slack.spare()
        events.append("work")

    slack.expect(slack, now_ns())
    await asyncio.gather(dispatcher(), work())
    assert events == ["sent 0", "sent 1", "sent 2", "work"]


async def test_a_load_that_is_always_late_does_not_starve_the_work() -> None:
    slack = Slack()
    slack.expect(slack, 0)
    begun_ns = now_ns()
    async with asyncio.timeout(30):
        for _ in range(3):
            await slack.spare()
    assert now_ns() - begun_ns >= 3 * PATIENCE_NS


async def test_without_a_schedule_others_get_one_turn() -> None:
    slack, turns = Slack(), []
    other = asyncio.create_task(asyncio.sleep(0, turns.append(1)))
    await slack.spare()
    assert turns == [1]
    await other
