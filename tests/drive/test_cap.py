"""The safety cap."""

from __future__ import annotations

import asyncio
import time

import pytest

from loadgen.clock import now_ns
from loadgen.drive import RateCap


@pytest.mark.parametrize(("per_second", "limit", "period_s"), [(20, 20, 1.0), (2.5, 3, 1.2), (0.5, 1, 2.0)])
def test_fractions_stretch_the_window(per_second: float, limit: int, period_s: float) -> None:
    """E9, E10: asyncio-throttle rounds fractions up; the window is stretched so that the rate is kept."""
    throttler = RateCap(per_second)._throttler
    assert throttler.rate_limit == limit
    assert throttler.period == pytest.approx(period_s)


async def test_the_rate_holds_with_many_waiters_at_little_cost() -> None:
    """E9: 300 waiters, of which one polls; no window of the period lets more through than the limit."""
    cap, passed = RateCap(50), list[int]()

    async def one() -> int:
        waited = await cap.acquire()
        passed.append(now_ns())
        return waited

    cpu = time.process_time()
    begun = now_ns()
    waiters = [asyncio.create_task(one()) for _ in range(300)]
    await asyncio.sleep(2.2)
    for waiter in waiters:
        waiter.cancel()
    await asyncio.gather(*waiters, return_exceptions=True)
    assert 50 <= len(passed) <= 150
    assert all(b - a >= 990_000_000 for a, b in zip(passed, passed[50:], strict=False))
    assert time.process_time() - cpu < 0.5 * (now_ns() - begun) / 1e9


async def test_a_free_cap_does_not_wait() -> None:
    assert await RateCap(1000).acquire() == 0
