"""Servers that the arms' own commands start and stop: for one node that holds one arm at a time, or for all at once.

Commands come from the scenario alone. Nothing of a target is ever put into one: what a command must know
(SPECLOAD_ARM, SPECLOAD_URL, SPECLOAD_URLS) is in its environment. Every server runs under a guard in a process group of
its own (`server_adapters.launch`), so only what was started here is stopped here, also after a crash.
"""

from __future__ import annotations

import asyncio
import shlex
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from loadgen.errors import SpecloadError, StorageError, TargetUnusable
from loadgen.redact import Redactor, printable
from loadgen.scenario import Arm, Scenario
from server_adapters.launch import CommandLaunch, LaunchedServer, LaunchError, start


@dataclass(frozen=True, slots=True)
class HookRun:
    """One command that was run: `at` is wall time (ISO 8601, UTC). `failed`: why, None if it did what it should."""

    arm: str
    action: Literal["start", "stop"]
    url: str
    at: str
    took_s: float
    failed: str | None


@dataclass(frozen=True, slots=True)
class _Running:
    server: LaunchedServer
    url: str


@dataclass
class ArmServers:
    """The servers of a run's arms that have `start`; arms without are left alone. `runs`: every command, in order.
    `folder`: takes what the commands say, secrets masked before it is written; made when the first is run."""

    folder: Path
    redact: Redactor
    say: Callable[[str], None]
    runs: list[HookRun] = field(default_factory=list)
    _running: dict[str, _Running] = field(default_factory=dict)

    @property
    def running(self) -> tuple[str, ...]:
        return tuple(self._running)

    def pid(self, name: str) -> int | None:
        """Of an arm's server that was started here and is a child of ours; None for any other."""
        running = self._running.get(name)
        return None if running is None else running.server.pid

    @property
    def start_s(self) -> float:
        """How long a start has taken at most; 0 where none was needed."""
        return max((run.took_s for run in self.runs if run.action == "start"), default=0.0)

    async def hold(self, scenario: Scenario, *names: str) -> None:
        """Have these arms running where `scenario` says they are, and no other that was started here. Raises
        TargetUnusable where one does not start, or does not answer in time."""
        for name, running in list(self._running.items()):
            if name not in names or running.url != first_url(scenario.arms[name]):
                await self.stop(name)
        for name in names:
            if name not in self._running and scenario.arms[name].start is not None:
                await self._start(name, scenario.arms[name])

    async def stop(self, name: str) -> None:
        """Stop an arm's server, if it was started here. Raises TargetUnusable where it stays."""
        running = self._running.pop(name, None)
        if running is None:
            return
        begin, at = time.monotonic(), _now()
        try:
            await running.server.stop()
        except LaunchError as error:
            self._note(name, "stop", running.url, at, begin, str(error))
            raise TargetUnusable(f"{name}: {self._shown(error)}") from None
        self._note(name, "stop", running.url, at, begin, None)

    async def close(self) -> None:
        """Stop all; the first failure is raised when all have been asked to."""
        failed = None
        for name in self.running:
            try:
                await self.stop(name)
            except TargetUnusable as error:
                failed = failed or error
        if failed is not None:
            raise failed

    async def _start(self, name: str, arm: Arm) -> None:
        url = first_url(arm)
        self.say(f"starting the server of {name} (at most {arm.start_timeout_s:g} s) …")
        begin, at = time.monotonic(), _now()
        number = sum(run.action == "start" for run in self.runs)
        try:
            server = await start(launch_of(name, arm, self.folder / f"{number}-{name}.log", self.redact))
        except LaunchError as error:
            self._note(name, "start", url, at, begin, str(error))
            raise TargetUnusable(f"{name}: {self._shown(error)}") from None
        except OSError as error:
            raise StorageError(f"{self.folder}: cannot be written: {error.strerror}") from None
        self._running[name] = _Running(server, url)
        self._note(name, "start", url, at, begin, None)

    def _note(
        self, arm: str, action: Literal["start", "stop"], url: str, at: str, begin: float, failed: str | None
    ) -> None:
        failed = None if failed is None else printable(self.redact(failed.splitlines()[0]))
        self.runs.append(HookRun(arm, action, self.redact(url), at, time.monotonic() - begin, failed))

    def _shown(self, error: LaunchError) -> str:
        return printable(self.redact(str(error)))

    def facts(self) -> list[dict[str, Any]]:
        """For the manifest."""
        return [{key: getattr(run, key) for key in HookRun.__slots__} for run in self.runs]


@asynccontextmanager
async def arm_servers(folder: Path, redact: Redactor, say: Callable[[str], None]) -> AsyncIterator[ArmServers]:
    """Nothing that was started inside is left running. SIGTERM inside is what Ctrl-C is, unless the loop has another
    handler for it. `folder`: as in ArmServers."""
    servers = ArmServers(folder, redact, say)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, signal.raise_signal, signal.SIGINT)
    try:
        yield servers
    except SpecloadError as error:
        try:
            await servers.close()
        except TargetUnusable as stopping:
            if isinstance(error, TargetUnusable):
                raise TargetUnusable(f"{error}\n{stopping}") from None
            say(str(stopping))
        raise
    finally:
        try:
            await servers.close()
        finally:
            loop.remove_signal_handler(signal.SIGTERM)


def first_url(arm: Arm) -> str:
    return arm.url or arm.urls[0]


def launch_of(name: str, arm: Arm, log_path: Path, redact: Redactor) -> CommandLaunch:
    """How an arm is started and stopped."""
    assert arm.start is not None
    url = first_url(arm)
    return CommandLaunch(
        start=_shell(arm.start),
        stop="" if arm.stop is None else _shell(arm.stop),
        url=url,
        health_url=arm.health_url or f"{url}/health",
        log_path=log_path,
        env={"SPECLOAD_ARM": name, "SPECLOAD_URL": url, "SPECLOAD_URLS": " ".join(arm.urls or [url])},
        start_timeout_s=arm.start_timeout_s,
        stop_timeout_s=arm.stop_timeout_s,
        mask=redact,
    )


def _shell(command: str | list[str]) -> str:
    """A list's words stay what they are, and the process is the command itself, not a shell around it."""
    return command if isinstance(command, str) else f"exec {shlex.join(command)}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
