"""Everything that the service is made of, in one place."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from pathlib import Path

from loadgen.errors import StorageError
from loadgen.export import Metrics
from loadgen.service.background import Background
from loadgen.service.canaries import Canaries
from loadgen.service.config import ServiceConfig
from loadgen.service.connections import Connections
from loadgen.service.events import new_boot
from loadgen.service.lanes import Lanes, Page
from loadgen.service.limits import RateLimit
from loadgen.service.monitors import Monitors
from loadgen.service.outgoing import Outgoing, Resolver, look_up
from loadgen.service.patience import Patience
from loadgen.service.refusals import Refusals
from loadgen.service.registry import Registry
from loadgen.service.runner.queue import Runner
from loadgen.service.scenarios import Shelf
from loadgen.service.sessions import Sessions
from loadgen.service.targets import Targets
from loadgen.service.tokens import Tokens
from loadgen.service.watching import Watching

log = logging.getLogger("specload.service")
REFUSALS = ("unknown", "role", "csrf", "rate", "host", "body", "connections", "slow")
#: Tokens that are compared at once: a hash takes a core and 16 MiB.
COMPARED_AT_ONCE = 2
#: Scenarios that are read at once.
READ_AT_ONCE = 2
#: Refused logins of one address under whatever names, as a multiple of those under one.
GUESSES = 10
#: How often what was counted is written down, and the audit log read again.
MINUTE_S = 60.0


class Service:
    """`start` before the first request, `close` after the last one. Raises ScenarioError or StorageError where the
    configuration cannot be used as it is. `resolver`: the seam of tests."""

    def __init__(self, config: ServiceConfig, resolver: Resolver = look_up) -> None:
        self.config = config
        self.boot = new_boot()
        self.outgoing = Outgoing(config.outgoing, resolver)
        self.targets = Targets(config, self.outgoing)
        self.redact = self.targets.redact
        self.shelf = Shelf(config.folders, config.limits)
        for folder in (config.folders.runs, config.folders.uploads):
            _make(folder)
        self.shelf.tidy()
        self.tokens = Tokens(config.tokens)
        self.sessions = Sessions(config.limits.session_hours)
        self.asks = RateLimit(config.limits.requests_per_minute)
        self.failures = RateLimit(config.limits.failures_per_minute)
        self.guesses = RateLimit(GUESSES * config.limits.failures_per_minute)
        #: a megabyte of YAML takes seconds of a core
        self.reading = asyncio.Semaphore(READ_AT_ONCE)
        self.comparing = asyncio.Semaphore(COMPARED_AT_ONCE)
        self.watching = Watching(config.limits.watchers, config.limits.watchers_per_token)
        self.patience = Patience(
            config.limits.head_timeout_s, config.limits.body_timeout_s, config.limits.send_timeout_s,
            lambda: self.refused("slow"),
        )  # fmt: skip
        self.connections = Connections(
            config.limits.connections, config.limits.connections_per_address, config.listen.trusted_proxies,
            lambda: self.refused("connections"),
        )  # fmt: skip
        self.registry = Registry(config.folders.database)
        self.refusals = Refusals(self.registry.audit)
        self.background = Background()
        self.metrics = Metrics()
        self.lanes = Lanes(config.limits.runs_at_once, config.metrics.grace_s, canaries=config.limits.canaries)
        self.page = Page(self.metrics, self.lanes).registry()
        self.runner = Runner(config, self.registry, self.targets, self.lanes, self.background, self.boot)
        self.monitors = Monitors(config, self.targets, self.lanes)
        self.canaries = Canaries(config.folders.runs)
        for reason in REFUSALS:
            self.metrics.declare("service_refused_total", reason=reason)
        #: where it really listens, once it does
        self.port = config.listen.port
        self._minding: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self._minding = [asyncio.create_task(self._mind()), asyncio.create_task(self._keep_canaries())]
        await self.runner.start()

    async def ending(self) -> None:
        """Streams end, nothing more begins, and what runs or is watched begins to end: requests that are being answered
        are waited for meanwhile. `close` follows."""
        self.monitors.ending()
        await self.runner.ending()

    async def close(self) -> None:
        await asyncio.gather(self.runner.close(), self.monitors.close())
        for task in self._minding:
            task.cancel()
        await asyncio.gather(*self._minding, return_exceptions=True)
        try:
            await asyncio.to_thread(self.refusals.tell, ending=True)
        except sqlite3.Error as error:
            log.error("the audit log takes no row: %s", error)
        self.background.close()
        self.registry.close()

    async def _mind(self) -> None:
        """The audit log, while the service lives: what was counted is written, what is there is read again."""
        while True:
            try:
                await asyncio.to_thread(self.refusals.tell)
                if await asyncio.to_thread(self.registry.audit.verify):
                    await asyncio.sleep(MINUTE_S)
            except sqlite3.Error as error:
                log.error("the audit log cannot be used: %s; tried again", error)
                await asyncio.sleep(MINUTE_S)

    async def _keep_canaries(self) -> None:
        """Delete those that the configuration does not keep."""
        while True:
            try:
                await asyncio.to_thread(self.retain_canaries)
            except (sqlite3.Error, OSError) as error:
                log.error("old canaries cannot be deleted: %s; tried again", self.redact(str(error)))
            await asyncio.sleep(MINUTE_S)

    def retain_canaries(self) -> None:
        keys = self.config.retention
        for canary_id in self.canaries.too_old(keys.days, keys.runs, time.time()):
            if (problem := self.canaries.erase(canary_id)) is not None:
                log.warning("canary %s is not deleted: %s", canary_id, problem)
            else:
                self.registry.audit.add("retention", "canary.delete", subject=canary_id)

    def refused(self, reason: str) -> None:
        self.metrics.inc("service_refused_total", reason=reason)

    def not_ready(self) -> list[str]:
        """Why no run can be asked for now; nothing: one can."""
        found = []
        if self.runner.closing:
            found.append("the service is being stopped")
        if not self.registry.usable():
            found.append("the registry takes no writes")
        if not self.config.folders.runs.is_dir():
            found.append("the folder of runs is not there")
        return found

    @property
    def url(self) -> str:
        """How others reach it."""
        if self.config.public_url is not None:
            return self.config.public_url.rstrip("/")
        listen = self.config.listen
        host = f"[{listen.host}]" if ":" in listen.host else listen.host
        return f"{'https' if listen.secure else 'http'}://{host}:{self.port}"


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder}: the folder cannot be made: {error.strerror}") from None
