"""The safety cap in front of the target. It never paces: the schedule does."""

from __future__ import annotations

import asyncio
import math
from typing import Any

from asyncio_throttle.throttler import Throttler

from loadgen.clock import now_ns

#: the throttle polls every 10 ms: whoever it held waited longer than this; less is the loop's own lag
_WAITED_NS = 9_000_000


class RateCap:
    """At most `per_second` requests a second, on average and in any window of the throttle.

    asyncio-throttle takes whole rates and every waiter of it polls (E9): so the window is stretched for
    fractions (2.5/s = 3 in 1.2 s), and only one waiter at a time stands in it; the others queue on a lock.
    """

    def __init__(self, per_second: float) -> None:
        limit = max(1, math.ceil(per_second))
        self._throttler: Any = Throttler(rate_limit=limit, period=limit / per_second)
        self._turn = asyncio.Lock()

    async def acquire(self) -> int:
        """Nanoseconds waited; 0 if let through at once."""
        begun_ns = now_ns()
        async with self._turn:
            await self._throttler.acquire()
        waited_ns = now_ns() - begun_ns
        return waited_ns if waited_ns > _WAITED_NS else 0
