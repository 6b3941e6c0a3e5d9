"""A timer that is exact to some tens of microseconds; those of asyncio have a grain of a millisecond."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys

from loadgen.clock import now_ns

_CLOCK_MONOTONIC, _ABSTIME = 1, 1


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Setting(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class Alarm:
    """Wakes one waiter at a moment of CLOCK_MONOTONIC: by a timerfd on Linux, elsewhere by a timer of the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
        self._fd = -1
        if self._libc is not None:
            self._fd = self._libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd >= 0:
            self._loop.add_reader(self._fd, self._rung)

    async def wait(self, at_ns: int) -> None:
        """Until `at_ns`, or until `ring` is called. One waiter at a time."""
        self._waiter = self._loop.create_future()
        timer = None if self._set(at_ns) else self._loop.call_later(max(0, at_ns - now_ns()) / 1e9, self.ring)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def ring(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        self.ring()
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _set(self, at_ns: int) -> bool:
        if self._fd < 0 or self._libc is None:
            return False
        seconds, nanoseconds = divmod(max(1, at_ns), 1_000_000_000)
        setting = _Setting(_Timespec(0, 0), _Timespec(seconds, nanoseconds))
        return bool(self._libc.timerfd_settime(self._fd, _ABSTIME, ctypes.byref(setting), None) == 0)

    def _rung(self) -> None:
        """A setting since then has taken the ring back: there is nothing to read, and nobody to wake."""
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            return
        self.ring()
