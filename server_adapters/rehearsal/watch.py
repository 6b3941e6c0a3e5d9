"""Faults of the process itself: what must happen at a time, whether or not a request comes."""

from __future__ import annotations

import asyncio
import mmap
import time
from collections.abc import Awaitable, Callable

from server_adapters.rehearsal.faults import Fault, Faults
from server_adapters.rehearsal.runner import DEATH, Runner

_TICK_S = 0.02
_MB = 1 << 20


class Watch:
    """A background task that looks at the faults a few dozen times a second.

    `flap` closes the port for some seconds; `leave` ends the process."""

    def __init__(
        self,
        runner: Runner,
        faults: Faults,
        flap: Callable[[float], Awaitable[None]],
        leave: Callable[[], Awaitable[None]],
    ) -> None:
        self._runner, self._faults, self._flap, self._leave = runner, faults, flap, leave
        self._done: dict[str, Fault] = {}
        self._grown: list[mmap.mmap] = []
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            now_s = time.monotonic()
            self._grow(now_s)
            self._die_or_revive(now_s)
            if self._is_over(now_s):
                await self._leave()
                return
            if self._once("counter_reset", now_s):
                self._runner.reset_counters()
            if (flap := self._once("port_flap", now_s)) is not None:
                await self._flap(flap.number("closed_s"))
            await asyncio.sleep(_TICK_S)

    def _once(self, name: str, now_s: float) -> Fault | None:
        """The fault, the first time it is seen active since it was set."""
        fault = self._faults.active(name, now_s)
        if fault is None or self._done.get(name) is fault:
            return None
        self._done[name] = fault
        return fault

    def _grow(self, now_s: float) -> None:
        fault = self._faults.active("memory_growth", now_s)
        if fault is None:
            self._grown.clear()
            return
        seconds = now_s - fault.since_s - fault.after_s
        wanted = int(min(seconds * fault.number("mb_per_s"), fault.number("max_mb")))
        while len(self._grown) < wanted:
            block = mmap.mmap(-1, _MB)  # pages of its own, which go back to the system when they are dropped
            block.write(b"\1" * _MB)  # touched, so that they are resident
            self._grown.append(block)

    def _die_or_revive(self, now_s: float) -> None:
        """A new engine takes over where the fault that killed the last one has gone, or its time is over."""
        runner, fault = self._runner, self._faults.active("engine_dead", now_s)
        if runner.dead is None:
            if fault is not None:
                runner.kill(DEATH, fault)
            return
        cause = runner.died_of
        if cause is None or fault is not None:
            return
        cause = self._faults.active(cause.name, now_s)
        if cause is None or (cause.name == "crash_on" and now_s - runner.died_s >= cause.number("down_s")):
            runner.revive()

    def _is_over(self, now_s: float) -> bool:
        """Whether the engine has been dead for so long that its process ends."""
        died_of = self._runner.died_of
        cause = None if died_of is None else self._faults.active(died_of.name, now_s)
        return cause is not None and now_s - self._runner.died_s >= cause.number("exit_s")
