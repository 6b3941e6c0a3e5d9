"""Faults of the process itself: what must happen at a time, whether or not a request comes."""

from __future__ import annotations

import asyncio
import mmap
import time
from collections.abc import Awaitable, Callable

from server_adapters.rehearsal.faults import Fault, Faults
from server_adapters.rehearsal.runner import Runner

_TICK_S = 0.02
_MB = 1 << 20


class Watch:
    """A background task that looks at the faults a few dozen times a second.

    `flap` closes the port for some seconds."""

    def __init__(self, runner: Runner, faults: Faults, flap: Callable[[float], Awaitable[None]]) -> None:
        self._runner, self._faults, self._flap = runner, faults, flap
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
        fault = self._faults.active("engine_dead", now_s)
        if fault is not None and self._runner.dead is None:
            self._done["engine_dead"] = fault
            self._runner.kill("EngineCore encountered an issue. See stack trace (above) for the root cause.")
        elif fault is None and self._runner.dead is not None and self._done.pop("engine_dead", None) is not None:
            self._runner.revive()
