"""Work beside the load of a run: anomalies that are sent, a switch that is pulled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from loadgen.clock import now_ns
from loadgen.errors import SpecloadError
from loadgen.experiment.preflight import Preflight
from loadgen.plan import Segment
from loadgen.record import Event, RunWriter


@dataclass(frozen=True)
class Beside:
    """What a companion has at hand. `ready`: the arms as they were found, with their clients. `say`: to everybody who
    watches, in our own words; `log`: what others said, to whoever runs this machine. `stop`: ends the run's
    load early, as a policy would, with this reason. `enough`: ends the load of one segment as if its time were over.
    `ended`: how many requests of the load have ended so far, and how many of them failed; a quarter of a second old."""

    ready: Preflight
    writer: RunWriter
    say: Callable[[str], None]
    log: Callable[[str], None]
    stop: Callable[[str], None]
    enough: Callable[[Segment], None]
    ended: Callable[[], tuple[int, int]]

    def event(self, name: str, at_ns: int | None = None, /, **data: Any) -> None:
        """Into the run's events.jsonl; secrets are masked there. `at_ns` None: now."""
        self.writer.event(Event(now_ns() if at_ns is None else at_ns, name, data))


class Companion(Protocol):
    """Runs on the coordinator's loop beside the workers that drive the load. Whatever it must remember is an event:
    its result is made from the run directory alone."""

    async def during(self, segment: Segment, begin_ns: int, beside: Beside) -> None:
        """Beside one measured segment whose load begins at `begin_ns` (CLOCK_MONOTONIC, still ahead). Cancelled when
        the load ends; must then leave nothing of its own running. A SpecloadError ends the run."""


class Accompanied:
    """Keeps a companion beside each measured segment, if there is one."""

    def __init__(self, companion: Companion | None, beside: Beside) -> None:
        self._companion, self._beside = companion, beside
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, segment: Segment, begin_ns: int) -> asyncio.Task[None] | None:
        if self._companion is None or segment.phase != "measure":
            return None
        task = asyncio.create_task(self._during(self._companion, segment, begin_ns))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def cut(self) -> None:
        """The user has interrupted the run: nothing more is done beside it, though requests in flight may still end."""
        for task in self._tasks:
            task.cancel()

    async def _during(self, companion: Companion, segment: Segment, begin_ns: int) -> None:
        """What the companion cannot go on from ends the load at once."""
        try:
            await companion.during(segment, begin_ns, self._beside)
        except SpecloadError as error:
            self._beside.stop(str(error))

    async def end(self, task: asyncio.Task[None] | None) -> None:
        """After the load: what is unfinished is cancelled. Raises what the companion raised, but a SpecloadError, which
        has stopped the run."""
        if task is None:
            return
        if task.cancel():
            self._beside.event("companion_cut")
        with suppress(asyncio.CancelledError):
            await task
