"""Monitors of canaries that the service was asked for: a process each, as long as the canary is watched.

What a monitor has seen is in its folder (`canaries`); here is only which of them are this service's, and why one could
not begin. A monitor ends with the service.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Literal

from loadgen.service.config import ServiceConfig
from loadgen.service.lanes import Lanes
from loadgen.service.registry import utc_now
from loadgen.service.runner.messages import Begun, Ended, Measured, Start, Up
from loadgen.service.runner.process import RunProcess
from loadgen.service.runner.spawner import Spawner
from loadgen.service.targets import Targets

log = logging.getLogger("specload.service")
#: Monitors that are over and still listed here.
KEPT = 50
#: Webhooks that are under way have their grace; then it is told to cut.
STOP_TIMEOUT_S = 30.0
#: After the second stop.
CUT_TIMEOUT_S = 20.0
MonitorState = Literal["starting", "watching", "stopping", "ended", "failed"]


class Refusal(Exception):
    """It cannot be done now; the message says why."""


@dataclass
class Monitor:
    """`reason`: of one that failed."""

    id: str
    scenario: str
    arms: dict[str, str]
    started_by: str
    dry_run: bool
    created: str = field(default_factory=utc_now)
    state: MonitorState = "starting"
    reason: str | None = None

    @property
    def over(self) -> bool:
        return self.state in ("ended", "failed")


class Monitors:
    """`close` last."""

    def __init__(self, config: ServiceConfig, targets: Targets, lanes: Lanes) -> None:
        self._most = config.limits.canaries
        self._targets = targets
        self._lanes = lanes
        self._spawner = Spawner()
        self._all: OrderedDict[str, Monitor] = OrderedDict()
        self._processes: dict[str, RunProcess] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

    @property
    def listed(self) -> list[Monitor]:
        """Newest first."""
        return list(reversed(self._all.values()))

    def find(self, canary_id: str) -> Monitor | None:
        return self._all.get(canary_id)

    def refusal(self, scenario: str) -> str | None:
        """Why no further one can begin now."""
        if self._closing:
            return "the service is being stopped"
        going = [one for one in self._all.values() if not one.over]
        if (same := next((one for one in going if one.scenario == scenario), None)) is not None:
            return f"this canary is being watched already: {same.id}"
        full = f"as many canaries are being watched as may be (limits.canaries: {self._most})"
        return full if len(going) >= self._most else None

    def begin(self, monitor: Monitor, start: Start) -> None:
        """Raises Refusal."""
        if (why := self.refusal(monitor.scenario)) is not None:
            raise Refusal(why)
        self._all[monitor.id] = monitor
        for old in [one.id for one in self._all.values() if one.over][: max(0, len(self._all) - KEPT)]:
            del self._all[old]
        lane = self._lanes.begin(canary=True)
        process = RunProcess(start, self._targets.redact, lambda up: self._hear(monitor, lane, up), self._spawner)
        self._processes[monitor.id] = process
        task = asyncio.create_task(self._to_its_end(monitor, process, lane))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self, canary_id: str, who: str) -> None:
        """Let what is in flight end; a second stop cuts. Raises Refusal."""
        monitor, process = self._all.get(canary_id), self._processes.get(canary_id)
        if monitor is None or process is None:
            why = "it has ended" if monitor is not None else "it was not started by this service"
            raise Refusal(f"{why}: there is nothing to stop here")
        monitor.state = "stopping"
        process.stop(f"the user {who}")

    async def all_over(self, within_s: float | None = None) -> None:
        """Wait until none is going."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=within_s)

    def ending(self) -> None:
        """Nothing more begins, and what goes on ends; what a user has stopped ends already."""
        self._closing = True
        for process in self._processes.values():
            process.drain("the end of the service")

    async def close(self) -> None:
        """Told to stop, then cut, then killed: each only where the one before did not end it."""
        self.ending()
        await self.all_over(STOP_TIMEOUT_S)
        for process in self._processes.values():
            process.stop("the end of the service")
        await self.all_over(CUT_TIMEOUT_S)
        for process in self._processes.values():
            process.kill()
        await self.all_over(STOP_TIMEOUT_S)
        self._spawner.close()

    def _hear(self, monitor: Monitor, lane: int, message: Up) -> None:
        if isinstance(message, Begun) and monitor.state == "starting":
            monitor.state = "watching"
        elif isinstance(message, Measured):
            try:
                self._lanes.take(lane, message.changes)
            except (ValueError, TypeError, KeyError) as error:
                log.error("canary %s: metrics that are none of ours: %s", monitor.id, type(error).__name__)

    async def _to_its_end(self, monitor: Monitor, process: RunProcess, lane: int) -> None:
        try:
            await process.start()
            ended = await process.wait()
        except OSError as error:
            log.error("canary %s: its process cannot be started: %s", monitor.id, error.strerror)
            ended = "the monitor's process cannot be started"
        except Exception as error:  # nobody hears it any more: it must not go on unseen, nor keep its place
            log.error("canary %s: %s", monitor.id, self._targets.redact(repr(error)))
            process.kill()
            ended = "its process cannot be understood any more, and was killed; see the service's log"
        finally:
            self._lanes.end(lane)
            del self._processes[monitor.id]
        monitor.state, monitor.reason = "ended", None
        if not isinstance(ended, Ended):
            monitor.state, monitor.reason = "failed", ended
        elif ended.state not in ("finished", "interrupted"):
            monitor.state, monitor.reason = "failed", "; ".join(ended.problems) or ended.reason
        log.info("canary %s has %s%s", monitor.id, monitor.state, f": {monitor.reason}" if monitor.reason else "")
