"""The safety caps in front of the target. They never pace: the schedule does."""

from __future__ import annotations

import asyncio
import fcntl
import math
import os
import tempfile
from multiprocessing.reduction import DupFd
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


class Budget:
    """How many requests the processes of a run may still send, together: exact.

    A number in an unlinked file, changed under a record lock: whatever ends a process, the kernel takes its
    lock away. Handed to a child process as an argument of its start.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (DupFd(self._fd),)

    @classmethod
    def of(cls, requests: int) -> Budget:
        """A new one. The caller closes it."""
        with tempfile.TemporaryFile(prefix="specload-budget-") as file:
            budget = cls(os.dup(file.fileno()))
        budget._write(requests)
        return budget

    def take(self) -> bool:
        """Take one; False if none is left."""
        fcntl.lockf(self._fd, fcntl.LOCK_EX)
        try:
            left = int.from_bytes(os.pread(self._fd, 8, 0), "little")
            if left:
                self._write(left - 1)
            return left > 0
        finally:
            fcntl.lockf(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._fd)

    def _write(self, left: int) -> None:
        os.pwrite(self._fd, left.to_bytes(8, "little"), 0)


def _received(copy: Any) -> Budget:
    return Budget(copy.detach())
