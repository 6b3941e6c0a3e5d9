"""The kill-switch drill: a run through the gateway, with the switch pulled beside its load (docs/drill.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from loadgen.analyze import DrillResult, drill_of
from loadgen.clock import now_ns
from loadgen.errors import ScenarioError
from loadgen.experiment.companion import Beside
from loadgen.experiment.preflight import ReadyArm
from loadgen.experiment.progress import Progress
from loadgen.experiment.single import RunOptions, RunResult, run_scenario
from loadgen.experiment.switch import Switched, dry_run, pull
from loadgen.plan import Segment
from loadgen.record import RunData
from loadgen.redact import Redactor
from loadgen.scenario import Direction, Drill, LoadedScenario


async def run_drill(loaded: LoadedScenario, options: RunOptions, progress: Progress) -> RunResult:
    """Errors as of `run_scenario`. What was found is in `RunResult.found`."""
    drill = loaded.scenario.drill
    if drill is None:
        raise ScenarioError(["drill: is missing: experiment: drill needs a switch to pull"])
    if options.shard is not None:
        raise ScenarioError(["--shard: every share of a drill would pull the switch: drive it from one machine"])
    if options.time_budget_s is not None:
        raise ScenarioError(["--time-budget: a drill lasts as long as its own times say: shorten these"])
    return await run_scenario(loaded, replace(options, companion=Puller(drill), read=read_drill), progress)


def read_drill(run: RunData) -> DrillResult:
    return drill_of(run)


def planned_pulls(drill: Drill, redact: Redactor) -> list[str]:
    """What the drill will do and when, for who looks before it is done."""
    said = []
    for number in range(drill.pulls):
        at_s = number * drill.cycle_s + drill.before_s
        said.append(f"drill: {at_s:g} s after the load began, off: {dry_run(drill.switch, 'off', redact)}")
        if drill.switch.on is not None:
            said.append(f"drill: {at_s + drill.after_s:g} s, on: {dry_run(drill.switch, 'on', redact)}")
    return said


class Puller:
    """Pulls the switch at its times. What was switched off is switched on again, whatever happens, where there is a
    way back."""

    def __init__(self, drill: Drill) -> None:
        self._drill = drill
        self._off = False

    async def during(self, segment: Segment, begin_ns: int, beside: Beside) -> None:
        (arm,) = beside.ready.arms.values()
        drill = self._drill
        beside.event("drill_servers", None, **_sources(drill, arm))
        try:
            for number in range(drill.pulls):
                off_ns = begin_ns + round((number * drill.cycle_s + drill.before_s) * 1e9)
                await _until(off_ns)
                await self._pull("off", number, arm, beside)
                if drill.switch.on is not None:
                    await _until(off_ns + round(drill.after_s * 1e9))
                    await self._pull("on", number, arm, beside)
        finally:
            if self._off and drill.switch.on is not None:
                await _to_its_end(self._restore(drill.pulls, arm, beside))

    async def _pull(self, direction: Direction, number: int, arm: ReadyArm, beside: Beside) -> None:
        self._off = direction == "off" or self._off
        switched = Switched(arm.targets, arm.client)
        found = await pull(self._drill.switch, direction, beside.ready.redact, switched)
        if direction == "on" and found.ok:
            self._off = False
        beside.event(
            "pulled", found.at_ns, direction=direction, number=number, took_s=found.took_s, ok=found.ok, said=found.said
        )
        how = "pulled" if found.ok else "FAILED"
        beside.say(f"switch {direction} {how} after {found.took_s:.2f} s: {found.said}")
        if found.answer:
            beside.log(f"switch {direction}: answered: {found.answer}")

    async def _restore(self, number: int, arm: ReadyArm, beside: Beside) -> None:
        """The drill was cut short, or switching back has failed: not left as it is without another try."""
        beside.say("switching back: the drill ended while the switch was off")
        beside.event("restoring")
        await self._pull("on", number, arm, beside)
        if self._off:
            beside.say("! the switch could NOT be pulled back: the target stays without speculation; see to it")


def _sources(drill: Drill, arm: ReadyArm) -> dict[str, list[str]]:
    """Names under which the sides' pages are scraped."""
    names = dict(zip(arm.targets[0].metrics_urls, arm.facts.metrics_sources, strict=False))
    sides = {"speculating": drill.speculating, "fallback": drill.fallback}
    return {side: [names[url] for url in keys.metrics_urls if url in names] for side, keys in sides.items()}


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Whoever cancels it, and how often: it ends by the time limits of the switch. Then the cancelling counts."""
    task, cancelled = asyncio.create_task(work), False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    await task


async def _until(at_ns: int) -> None:
    await asyncio.sleep(max(at_ns - now_ns(), 0) / 1e9)
