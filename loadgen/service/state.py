"""Everything that the service is made of, in one place."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from loadgen.errors import StorageError
from loadgen.export import Metrics
from loadgen.service.background import Background
from loadgen.service.config import ServiceConfig
from loadgen.service.events import new_boot
from loadgen.service.lanes import Lanes, Page
from loadgen.service.limits import RateLimit
from loadgen.service.monitors import Monitors
from loadgen.service.outgoing import Outgoing, Resolver, look_up
from loadgen.service.registry import Registry
from loadgen.service.runner.queue import Runner
from loadgen.service.scenarios import Shelf
from loadgen.service.sessions import Sessions
from loadgen.service.targets import Targets
from loadgen.service.tokens import Tokens

log = logging.getLogger("specload.service")
REFUSALS = ("unknown", "role", "csrf", "rate", "host", "body")


class Service:
    """`start` before the first request, `close` after the last one. Raises ScenarioError or StorageError where the
    configuration cannot be used as it is. `resolver`: the seam of tests."""

    def __init__(self, config: ServiceConfig, resolver: Resolver = look_up) -> None:
        self.config = config
        self.boot = new_boot()
        self.outgoing = Outgoing(config.outgoing, resolver)
        self.targets = Targets(config, self.outgoing)
        self.redact = self.targets.redact
        self.shelf = Shelf(config.folders)
        for folder in (config.folders.runs, config.folders.uploads):
            _make(folder)
        self.tokens = Tokens(config.tokens)
        self.sessions = Sessions(config.limits.session_hours)
        self.asks = RateLimit(config.limits.requests_per_minute)
        self.failures = RateLimit(config.limits.failures_per_minute)
        self.registry = Registry(config.folders.database)
        self.background = Background()
        self.metrics = Metrics()
        self.lanes = Lanes(config.limits.runs_at_once, config.metrics.grace_s, canaries=config.limits.canaries)
        self.page = Page(self.metrics, self.lanes).registry()
        self.runner = Runner(config, self.registry, self.targets, self.lanes, self.background, self.boot)
        self.monitors = Monitors(config, self.targets, self.lanes)
        for reason in REFUSALS:
            self.metrics.declare("service_refused_total", reason=reason)
        #: where it really listens, once it does
        self.port = config.listen.port

    async def start(self) -> None:
        broken = self.registry.audit.broken_at()
        if broken is not None:
            log.error("the audit log is not what was written, from row %d on", broken)
        await self.runner.start()

    async def close(self) -> None:
        await asyncio.gather(self.runner.close(), self.monitors.close())
        self.background.close()
        self.registry.close()

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
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder}: the folder cannot be made: {error.strerror}") from None
