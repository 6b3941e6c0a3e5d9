"""One run while it is driven: its process, its lane, its watchers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from typing import Any, Literal

from loadgen.export import MetricsTold
from loadgen.redact import Redactor
from loadgen.service.events import RunEvents
from loadgen.service.lanes import Lanes
from loadgen.service.looks import WINDOW_S, State, look, state_of
from loadgen.service.registry import utc_now
from loadgen.service.runner.messages import Begun, Ended, Measured, Said, SegmentTold, Start, Up
from loadgen.service.runner.process import RunProcess
from loadgen.service.runner.spawner import Spawner

log = logging.getLogger("specload.service")
LOOK_INTERVAL_S = 1.0


class ActiveRun:
    """`targets`, `servers`: what it has to itself."""

    def __init__(
        self,
        start: Start,
        targets: frozenset[str],
        servers: frozenset[tuple[str, int]],
        lanes: Lanes,
        events: RunEvents,
        redact: Redactor,
        spawner: Spawner,
    ) -> None:
        self.id = start.run_id
        self.targets = targets
        self.servers = servers
        self.stopped_by: str | None = None
        self._lanes = lanes
        self._lane = lanes.begin()
        self._events = events
        self._redact = redact
        self._process = RunProcess(start, redact, self._hear, spawner)
        self._told: MetricsTold | None = None
        self._looks: deque[State] = deque()
        self._begun_s: float | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid

    async def to_its_end(self) -> Ended | str:
        """Its last message, or why there is none. The lane is free afterwards."""
        looking = asyncio.create_task(self._look_on())
        try:
            await self._process.start()
            return await self._process.wait()
        except OSError as error:
            log.error("run %s: its process cannot be started: %s", self.id, error.strerror)
            return "the run's process cannot be started"
        finally:
            looking.cancel()
            self._look()
            self._lanes.end(self._lane)

    def stop(self, by: str) -> Literal["drain", "cut"]:
        self.stopped_by = by
        return self._process.stop(by)

    def drain(self, by: str) -> None:
        """As the first stop; nothing where it is being stopped already."""
        self._process.drain(by)

    def tell(self, kind: str, data: dict[str, Any]) -> None:
        """Whoever watches it."""
        self._events.publish(kind, data)

    def kill(self) -> None:
        self._process.kill()

    def _hear(self, message: Up) -> None:
        match message:
            case Measured():
                self._measured(message)
            case Begun():
                self._begun_s = time.monotonic()
                self._events.publish("begun", {"segments": message.segments, "requests": message.requests})
            case SegmentTold():
                self._events.publish("segment", message.model_dump(exclude={"kind"}))
            case Said():
                self._events.publish("said", {"at": utc_now(), "text": self._redact(message.text)})

    def _measured(self, message: Measured) -> None:
        try:
            self._told = self._lanes.take(self._lane, message.changes)
        except (ValueError, TypeError, KeyError) as error:
            log.error("run %s: metrics that are none of ours were left out: %s", self.id, type(error).__name__)

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(LOOK_INTERVAL_S)
            self._look()

    def _look(self) -> None:
        """Publish the numbers of the last seconds, once there are any."""
        if self._told is None or self._begun_s is None:
            return
        now = state_of(self._told, time.monotonic())
        self._looks.append(now)
        while len(self._looks) > 2 and now.at_s - self._looks[1].at_s >= WINDOW_S:
            self._looks.popleft()
        before = self._looks[0]
        if before is not now:
            found: dict[str, Any] = look(before, now)
            self._events.publish("look", {"at": utc_now(), "run_s": round(now.at_s - self._begun_s, 2), **found})
