"""The queue: one run on a target at a time, in the order in which they were asked for.

A run that waits keeps its targets from those that were asked for after it, so that none waits for ever. On the
service's loop only; what asks the registry or the disk is done in threads.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Literal

import orjson

from loadgen.service.background import Background
from loadgen.service.config import ServiceConfig
from loadgen.service.events import RunEvents
from loadgen.service.lanes import Lanes
from loadgen.service.outgoing import Refused
from loadgen.service.registry import Registry, RunRow, RunState, utc_now
from loadgen.service.runner.active import ActiveRun
from loadgen.service.runner.keeping import Keeping, NotNow
from loadgen.service.runner.messages import Ended, Start
from loadgen.service.runner.recovery import STATES, after_left, look_at, recompute
from loadgen.service.runner.spawner import Spawner
from loadgen.service.runner.telling import Telling
from loadgen.service.targets import Targets
from loadgen.service.words import EXIT_CODES

log = logging.getLogger("specload.service")

#: How often a run that outlived its service is looked at.
ORPHAN_INTERVAL_S = 0.5
#: After what should not fail has failed: a full disk, a locked database.
RETRY_S = 5.0
#: After the second stop, before the process is killed.
CUT_TIMEOUT_S = 20.0
RunOver = Callable[[RunRow], None]


class Runner:
    """`start` first, `close` last. `boot`: see `events`."""

    def __init__(
        self,
        config: ServiceConfig,
        registry: Registry,
        targets: Targets,
        lanes: Lanes,
        background: Background,
        boot: str,
    ) -> None:
        self._config = config
        self._registry = registry
        self._targets = targets
        self._lanes = lanes
        self._background = background
        self._spawner = Spawner()
        self._active: dict[str, ActiveRun] = {}
        #: runs that a service before this one started, and that are still being written: their targets
        self._orphans: dict[str, frozenset[str]] = {}
        self._telling = Telling(boot, lambda: self._active)
        self._keeping = Keeping(config, registry, self._telling, self._orphans, targets.redact)
        self._tasks: set[asyncio.Task[None]] = set()
        self._driving: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        #: held while a run goes from the queue to its process: to whoever stops it, it is in one or the other
        self._moving = asyncio.Lock()
        self._closing = False
        #: called with the row of every run that is over
        self.on_over: list[RunOver] = []

    @property
    def active(self) -> dict[str, ActiveRun]:
        return dict(self._active)

    @property
    def closing(self) -> bool:
        return self._closing

    def events(self, row: RunRow) -> RunEvents:
        """What watchers of the run are told, and were. `row`: as it is by now."""
        return self._telling.of(row)

    async def start(self) -> None:
        """Take up what a service before this one left. Queued runs are still queued."""
        for row in await asyncio.to_thread(self._registry.runs.in_state, RunState.RUNNING):
            await self._left(row)
        await self._keeping.adopt()
        self._spawn(self._pick_for_ever())
        self._spawn(self._keeping.keep_house())
        self._wake.set()

    async def _left(self, row: RunRow) -> None:
        path = self._folder / row.id
        values, still_written = await asyncio.to_thread(after_left, row, path)
        await asyncio.to_thread(self._registry.runs.change, row.id, ended=utc_now(), **values)
        log.warning("run %s was running when the service ended: %s", row.id, values["state"].value)
        if still_written:
            self._orphans[row.id] = frozenset(row.arms.values())
            self._spawn(self._outlived(row.id, path))
        elif "path" in values and values.get("validity") is None:
            self._spawn(recompute(self._registry, self._background, row.id, path))

    async def _outlived(self, run_id: str, path: Path) -> None:
        """Its process notices that the service has gone, and ends it; until then its targets are taken."""
        while (found := await asyncio.to_thread(look_at, path)).state == "running":  # noqa: ASYNC110  (no child of ours)
            await asyncio.sleep(ORPHAN_INTERVAL_S)
        del self._orphans[run_id]
        await asyncio.to_thread(
            self._registry.runs.change, run_id, ended=utc_now(), verdict=found.verdict, validity=found.validity
        )
        await recompute(self._registry, self._background, run_id, path)
        self._wake.set()

    async def close(self) -> None:
        """Stop what runs, as Ctrl-C does; what takes too long is cut, then killed. Queued runs stay queued."""
        await self.ending()
        if not await self._none_active(self._config.stop_timeout_s):
            for run in self._active.values():
                run.stop("the end of the service")
            if not await self._none_active(CUT_TIMEOUT_S):
                for run in self._active.values():
                    run.kill()
                await self._none_active(CUT_TIMEOUT_S)
        self._spawner.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def ending(self) -> None:
        """Watchers are let go, nothing more begins, and what runs drains; what a user has stopped drains already."""
        self._closing = True
        self._telling.close()
        async with self._moving:
            for run in self._active.values():
                run.drain("the end of the service")

    async def _none_active(self, within_s: float) -> bool:
        if self._driving:
            await asyncio.wait(self._driving, timeout=within_s)
        return not self._driving

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a task of the service failed: %s", self._targets.redact(repr(error)), exc_info=error)

    def asked(self, row: RunRow) -> None:
        """A run was put into the registry."""
        self.events(row).publish("state", row.shown())
        self._wake.set()

    async def stop(self, run_id: str, who: str) -> Literal["unqueued", "drain", "cut"]:
        """Take it from the queue, or let what is in flight drain; a second stop cuts. Raises KeyError, NotNow."""
        async with self._moving:
            active = self._active.get(run_id)
            if active is not None:
                how = active.stop(f"the user {who}")
                doing = "draining" if how == "drain" else "cutting"
                active.tell("said", {"at": utc_now(), "text": f"{who} asked it to stop ({doing})"})
                return how
            row = await asyncio.to_thread(
                self._registry.runs.move, run_id, RunState.QUEUED, state=RunState.STOPPED,
                reason=f"taken from the queue by {who}", ended=utc_now(), exit_code=EXIT_CODES["interrupted"],
            )  # fmt: skip
        if row is None:
            state = (await asyncio.to_thread(self._registry.runs.one, run_id)).state
            raise NotNow(f"the run is {state.value}: only a queued or running one can be stopped")
        self._over(row)
        return "unqueued"

    async def delete(self, run_id: str, who: str) -> RunRow:
        """Its records go from the disk; the row stays. Raises KeyError, NotNow."""
        return await self._keeping.delete(run_id, who)

    async def _pick_for_ever(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._pick()
            except Exception as error:  # nothing may end the queue
                log.error("runs cannot be started: %s; tried again", self._targets.redact(repr(error)), exc_info=error)
                await asyncio.sleep(RETRY_S)
                self._wake.set()

    async def _pick(self) -> None:
        """Start every run that may start now."""
        taken = {name for run in self._active.values() for name in run.targets}.union(*self._orphans.values())
        for row in await asyncio.to_thread(self._registry.runs.in_state, RunState.QUEUED):
            names = frozenset(row.arms.values())
            if self._closing or len(self._active) >= self._config.limits.runs_at_once:
                return
            if names & taken or not await self._begin(row, names):
                taken |= names

    async def _begin(self, row: RunRow, names: frozenset[str]) -> bool:
        """False: a target of it was taken meanwhile, or a server of it under another name. A target whose name leads
        to several addresses is one, whichever of them it is placed at."""
        try:
            start, servers = await self._placed(row)
        except Refused as error:
            await self._refused(row, EXIT_CODES["target"], str(error))
            return True
        except KeyError as error:
            await self._refused(row, EXIT_CODES["usage"], f"there is no target {error.args[0]} any more")
            return True
        if any(names & run.targets or servers & run.servers for run in self._active.values()):
            return False
        async with self._moving:
            if self._closing:
                return False
            moved = await asyncio.to_thread(
                self._registry.runs.move, row.id, RunState.QUEUED, state=RunState.RUNNING, started=utc_now()
            )
            if moved is None:
                return True
            events = self.events(moved)
            run = ActiveRun(start, names, servers, self._lanes, events, self._targets.redact, self._spawner)
            self._active[row.id] = run
            events.publish("state", moved.shown())
            driving = self._spawn(self._run(run))
            self._driving.add(driving)
            driving.add_done_callback(self._driving.discard)
        return True

    async def _placed(self, row: RunRow) -> tuple[Start, frozenset[tuple[str, int]]]:
        placed = {arm: await self._targets.placed(target) for arm, target in row.arms.items()}
        servers = frozenset[tuple[str, int]]().union(*(one.servers for one in placed.values()))
        start = self.start_of(row, {arm: one.keys for arm, one in placed.items()})
        resolve = await self._targets.elsewhere(row.scenario_text or "", "drill")
        return start.model_copy(update={"resolve": resolve}), servers

    def start_of(self, row: RunRow, arms: dict[str, dict[str, Any]]) -> Start:
        """What the run's process is told. Raises KeyError where a target is not there any more."""
        environment, caps = self._targets.allowed(row.arms.values())
        folders = self._config.folders
        return Start(
            run_id=row.id,
            name=row.scenario,
            text=row.scenario_text or "",
            base=(folders.uploads if row.uploaded else folders.scenarios).absolute(),
            out=self._folder,
            overrides=overrides_of(row.overrides),
            arms=arms,
            environment=environment,
            caps=caps,
            time_budget_s=row.time_budget_s,
        )

    async def _ended(self, run_id: str, **values: Any) -> RunRow:
        """Written once the registry takes it: a run that is over must not stay listed as running."""
        while True:
            try:
                return await asyncio.to_thread(self._registry.runs.change, run_id, **values)
            except sqlite3.Error as error:
                log.error("run %s has ended, and the registry takes no writes: %s; tried again", run_id, error)
                await asyncio.sleep(RETRY_S)

    async def _run(self, run: ActiveRun) -> None:
        try:
            ended = await run.to_its_end()
            path = self._folder / run.id
            if isinstance(ended, Ended):
                row = await self._ended(run.id, **_values(ended), ended=utc_now())
            else:
                row = await self._ended(
                    run.id, state=RunState.FAILED, reason=ended, exit_code=EXIT_CODES["internal"], ended=utc_now(),
                    path=str(path) if (path / "manifest.json").exists() else None,
                )  # fmt: skip
                if row.path is not None:
                    await recompute(self._registry, self._background, run.id, path)
                    row = await asyncio.to_thread(self._registry.runs.one, run.id)
        finally:
            del self._active[run.id]
            self._wake.set()
        self._over(row)

    async def _refused(self, row: RunRow, code: int, why: str) -> None:
        moved = await asyncio.to_thread(
            self._registry.runs.move, row.id, RunState.QUEUED,
            state=RunState.FAILED, reason=why, exit_code=code, ended=utc_now(),
        )  # fmt: skip
        if moved is not None:
            self._over(moved)

    def _over(self, row: RunRow) -> None:
        log.info("run %s is %s%s", row.id, row.state.value, f": {row.reason}" if row.reason else "")
        self._telling.ended(row)
        for tell in self.on_over:
            tell(row)

    @property
    def _folder(self) -> Path:
        return self._config.folders.runs.absolute()


def overrides_of(overrides: dict[str, Any]) -> tuple[str, ...]:
    """As the command line's --set."""
    return tuple(f"{key}={orjson.dumps(value).decode()}" for key, value in overrides.items())


def _values(ended: Ended) -> dict[str, Any]:
    state = STATES.get(ended.state, RunState.FAILED)
    reason = "\n".join(ended.problems) if ended.problems else ended.reason
    return {
        "state": state,
        "reason": reason,
        "verdict": ended.verdict,
        "validity": ended.validity,
        "exit_code": EXIT_CODES[ended.ending],
        "path": ended.path,
    }
