"""What becomes of ended runs: listed where nobody told of them, deleted where they are not kept."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Container
from pathlib import Path

from loadgen.errors import SpecloadError
from loadgen.redact import Redactor
from loadgen.service.config import ServiceConfig
from loadgen.service.registry import Registry, RunRow, RunState
from loadgen.service.runner.recovery import adopt
from loadgen.service.runner.retention import erase, too_old
from loadgen.service.runner.telling import Telling

log = logging.getLogger("specload.service")

HOUSEKEEPING_INTERVAL_S = 60.0
#: After what should not fail has failed: a full disk, a locked database.
RETRY_S = 5.0


class NotNow(Exception):
    """The run is not in a state in which this can be done; the message says which."""


class Keeping:
    """`written`: ids of runs that are over to the registry, and whose process still writes. On the service's loop;
    disk and database are left to threads."""

    def __init__(
        self, config: ServiceConfig, registry: Registry, telling: Telling, written: Container[str], redact: Redactor
    ) -> None:
        self._retention = config.retention
        self._folder = config.folders.runs.absolute()
        self._registry = registry
        self._telling = telling
        self._written = written
        self._redact = redact
        self._deleting = asyncio.Lock()

    async def delete(self, run_id: str, who: str) -> RunRow:
        """Its records go from the disk; the row stays. Raises KeyError, NotNow."""
        async with self._deleting:
            row = await asyncio.to_thread(self._registry.runs.one, run_id)
            if row.state is RunState.DELETED:
                return row
            if not row.state.over or run_id in self._written:
                raise NotNow(f"the run is {row.state.value}: stop it first, and delete it when it has ended")
            if row.path is not None:
                problem = await asyncio.to_thread(erase, Path(row.path), self._folder, run_id)
                if problem is not None:
                    raise NotNow(problem)
            self._telling.forget(run_id)
            return await asyncio.to_thread(
                self._registry.runs.change, run_id, state=RunState.DELETED, reason=f"deleted by {who}", path=None
            )

    async def adopt(self) -> None:
        for row in await asyncio.to_thread(adopt, self._registry, self._folder):
            log.info("run %s was found on the disk: %s", row.id, row.state.value)

    async def keep_house(self) -> None:
        while True:
            try:
                await self._retain()
                await asyncio.sleep(HOUSEKEEPING_INTERVAL_S)
                await self.adopt()
            except (sqlite3.Error, OSError, SpecloadError) as error:
                log.error("housekeeping failed: %s; tried again", self._redact(str(error)))
                await asyncio.sleep(RETRY_S)

    async def _retain(self) -> None:
        """Delete what the configuration does not keep."""
        keys = self._retention
        if keys.days is None and keys.runs is None:
            return
        states = [s for s in RunState if s.over and s is not RunState.DELETED]
        over = await asyncio.to_thread(self._registry.runs.in_state, *states)
        for run_id in too_old(over, keys.days, keys.runs, time.time()):
            try:
                await self.delete(run_id, "retention")
            except NotNow as error:
                log.warning("run %s is not deleted: %s", run_id, error)
            else:
                await asyncio.to_thread(self._registry.audit.add, "retention", "run.delete", subject=run_id)
