"""Watching a canary: looks and probes come in, windows are judged, changes of the state are told."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from loadgen.clock import now_ns
from loadgen.control import Canary, CanaryStanding, CanaryWindow
from loadgen.errors import ScenarioError
from loadgen.experiment.before import refuse_unwritable, with_baseline
from loadgen.experiment.canary.checks import Checks, checks_of
from loadgen.experiment.canary.hooks import Hooks, Place, as_it_is
from loadgen.experiment.canary.metrics import CanaryMetrics
from loadgen.experiment.canary.probes import ProbeEnded, Prober
from loadgen.experiment.canary.records import CanaryRecords, CanaryResult, iso
from loadgen.experiment.canary.webhooks import Client, plain_client
from loadgen.experiment.canary.windows import CanaryWindows, WindowData
from loadgen.experiment.lengths import measure_lengths
from loadgen.experiment.preflight import Preflight, preflight
from loadgen.export import Metrics
from loadgen.observe import Scrape, ScrapeArm, Scraper
from loadgen.plan import LengthModel
from loadgen.record import new_run_id
from loadgen.scenario import CanaryKeys, LoadedScenario

#: Webhooks that are under way at the end are given so long.
HOOKS_GRACE_S = 10.0


@dataclass(frozen=True)
class CanaryOptions:
    """How to watch. `for_s`: end by itself after the last whole window in so many seconds; None: when interrupted.
    `dry_run`: as `canary.dry_run`. `client`: what webhooks connect by; `place`: where the kill switch is by then.
    `stopping`: set by others, it ends as an interrupt would. `canary_id`: name of the folder under `out`; None: a new
    one."""

    out: Path
    for_s: float | None = None
    dry_run: bool = False
    metrics: Metrics | None = None
    arm_urls: Mapping[str, str] = field(default_factory=dict)
    client: Client = plain_client
    place: Place = as_it_is
    stopping: asyncio.Event | None = None
    canary_id: str | None = None


class CanaryWatch(Protocol):
    """Who is shown what happens."""

    def begun(self, folder: Path, checks: Checks) -> None: ...

    def window(self, standing: CanaryStanding) -> None: ...

    def say(self, text: str) -> None: ...


def new_canary_id(scenario: str) -> str:
    return new_run_id(f"{scenario}-canary")


def canary_keys(loaded: LoadedScenario) -> CanaryKeys:
    """The scenario's section. Raises ScenarioError where there is none."""
    keys = loaded.scenario.canary
    if keys is None:
        raise ScenarioError(["the scenario has no section canary: say there what is watched (docs/canary.md)"])
    return keys


async def run_canary(loaded: LoadedScenario, options: CanaryOptions, watch: CanaryWatch) -> tuple[Path, CanaryResult]:
    """Watch until interrupted, or for `for_s`. Raises ScenarioError, TargetUnusable or StorageError before anything is
    watched; afterwards servers and hooks may do what they like."""
    keys = canary_keys(loaded)
    if options.for_s is not None and options.for_s < keys.window_s:
        raise ScenarioError([f"canary.window_s is {keys.window_s:g}, and {options.for_s:g} s hold no whole window"])
    refuse_unwritable(options.out)
    ready = await preflight(loaded.scenario)
    loaded, said = with_baseline(loaded, ready)
    lengths = None if keys.probes is None else await measure_lengths(loaded, ready)
    monitor = _Monitor(loaded, keys, ready, lengths, options, watch)
    for note in (*said, *ready.notes):
        monitor.records.note(note)
    with _interrupts(monitor.stop):
        await monitor.run()
    return monitor.records.folder, monitor.records.result


class _Monitor:
    """`lengths`: of generated prompts; None: without probes."""

    def __init__(
        self, loaded: LoadedScenario, keys: CanaryKeys, ready: Preflight, lengths: LengthModel | None,
        options: CanaryOptions, watch: CanaryWatch,
    ) -> None:  # fmt: skip
        scenario = loaded.scenario
        (canary,) = [name for name in scenario.arms if name != scenario.baseline]
        self._arms = canary, scenario.baseline
        self._loaded, self._keys, self._ready, self._options, self._watch = loaded, keys, ready, options, watch
        self._checks = checks_of(keys, *(ready.arms[name] for name in self._arms))
        if not self._checks.ids:
            reasons = "; ".join(f"{check.name} ({check.source}): {why}" for check, why in self._checks.left_out.items())
            raise ScenarioError([f"canary: nothing can be checked: {reasons}"])
        self._canary = Canary(self._checks.ids, keys.share_needed)
        models = {name: arm.model for name, arm in ready.arms.items()}
        artefacts = {name: arm.capabilities.counts_artefact for name, arm in ready.arms.items()}
        self._windows = CanaryWindows(keys, self._checks, *self._arms, artefacts, models, scenario.seed)
        self._metrics = CanaryMetrics(options.metrics, scenario.name, self._arms, keys)
        canary_id = options.canary_id or new_canary_id(scenario.name)
        dry_run = keys.dry_run or options.dry_run
        # hooks first: a secret that is missing must leave no folder
        self._hooks = Hooks(
            keys, loaded, ready.arms[canary], dry_run, options.client, self._metrics, watch.say, options.place
        )
        self.records = CanaryRecords(options.out / canary_id, self._result(canary_id, dry_run))
        self._hooks.records = self.records
        self._start_ns = now_ns()
        self._judged_to_s = time.time()
        self._stopped = options.stopping or asyncio.Event()
        self._scraper = Scraper(self._scraped_arms(), scenario.scrape.interval_s, scenario.scrape.timeout_s, self._look)
        self._prober = None if lengths is None else self._made_prober(lengths)

    def _result(self, canary_id: str, dry_run: bool) -> CanaryResult:
        scenario, keys, canary = self._loaded.scenario, self._keys, self._ready.arms[self._arms[0]]
        return CanaryResult(
            canary_id=canary_id, scenario=scenario.name, arm=self._arms[0], baseline=self._arms[1],
            environment=scenario.environment, model=canary.model, engine_version=canary.capabilities.version,
            window_s=keys.window_s, pooled_windows=keys.pooled_windows,
            dry_run=dry_run, started=iso(time.time()), share_needed=keys.share_needed,
            not_checked=[{"check": c.name, "source": c.source, "reason": w} for c, w in self._checks.left_out.items()],
        )  # fmt: skip

    def _scraped_arms(self) -> list[ScrapeArm]:
        """Without counters nobody looks."""
        arms = [self._ready.arms[name] for name in self._arms] if self._keys.counters else []
        return [
            ScrapeArm(a.name, a.adapter.name, a.model, a.targets[0].metrics_urls, a.targets[0].headers, a.reach)
            for a in arms
            if a.capabilities.metrics
        ]

    def _made_prober(self, lengths: LengthModel) -> Prober:
        assert self._keys.probes is not None
        waiting, looked_at = self._scraper.waiting, {arm.name for arm in self._scraped_arms()}
        return Prober(
            self._loaded, self._keys.probes, self._keys.window_s, self._arms, self._ready, lengths,
            lambda due_ns: self._windows.block_at(self._since_s(due_ns)),
            lambda arm: waiting(arm) if arm in looked_at else None, self._probed, self._say,
        )  # fmt: skip

    def stop(self) -> None:
        """First call: end at once, requests in flight may end; second: they are cut."""
        self._stopped.set()
        if self._prober is not None:
            self._prober.stop()

    async def run(self) -> None:
        self._hooks.start()
        if self._scraped_arms():
            await self._scraper.start()
        self._start_ns, began_s = now_ns(), time.time()
        self._metrics.begin(self.records.result.canary_id, self._checks.ids, began_s)
        self._watch.begun(self.records.folder, self._checks)
        probing = None if self._prober is None else asyncio.create_task(self._prober.run())
        self._judged_to_s = began_s
        try:
            await self._every_window(began_s, probing)
        finally:
            if self._prober is not None and not self._prober.stopping:
                self._prober.stop()
            await asyncio.gather(*([probing] if probing else []), self._scraper.stop(), return_exceptions=True)
            await self._hooks.close(HOOKS_GRACE_S)
            self.records.end(time.time(), max(time.time() - self._judged_to_s, 0.0))
            self._metrics.end(time.time())
        if probing is not None and probing.exception() is not None:
            raise probing.exception()  # type: ignore[misc]

    async def _every_window(self, begin_s: float, probing: asyncio.Task[None] | None) -> None:
        number, most = 0, None
        if self._options.for_s is not None:
            most = int(self._options.for_s / self._keys.window_s + 1e-9)
        while most is None or number < most:
            number += 1
            if await self._until(self._start_ns + round(number * self._keys.window_s * 1e9), probing):
                break
            data, end_s = self._windows.cut(), time.time()
            self._judged(await self._window(number, data, begin_s, end_s))
            begin_s = self._judged_to_s = end_s

    async def _window(self, number: int, data: WindowData, begin_s: float, end_s: float) -> CanaryWindow:
        """A fault of ours costs one window, and is said: who watches for days must not end by it."""
        try:
            return await asyncio.to_thread(self._windows.judge, data, begin_s, end_s)
        except Exception as bug:
            self._say(f"window {number} could not be judged: internal error: {type(bug).__name__}: {bug}")
            return CanaryWindow(number, begin_s, end_s, (), (), None, "not known (internal error)")

    async def _until(self, at_ns: int, probing: asyncio.Task[None] | None) -> bool:
        """True if it is over before."""
        try:
            await asyncio.wait_for(self._stopped.wait(), max(at_ns - now_ns(), 0) / 1e9)
        except TimeoutError:
            return probing is not None and probing.done() and probing.exception() is not None
        return True

    def _judged(self, window: CanaryWindow) -> None:
        standing = self._canary.take(window)
        alert = self.records.window(standing)
        self._metrics.window(standing)
        self._watch.window(standing)
        if alert is not None:
            self._hooks.changed(alert, standing)
        self._hooks.standing(standing)
        if self.records.failed is not None:
            self._say(self.records.failed)

    def _look(self, look: Scrape) -> None:
        self._metrics.look(look, self._windows.look(look, self._since_s(look.asked_ns)))

    def _probed(self, ended: ProbeEnded) -> None:
        self._windows.probe(ended.arm, ended.probe)
        self.records.probe(ended.arm, ended.outcome)
        self._metrics.probe(ended.arm, ended.outcome)

    def _since_s(self, at_ns: int) -> float:
        return (at_ns - self._start_ns) / 1e9

    def _say(self, text: str) -> None:
        self.records.note(text)
        self._watch.say(text)


@contextmanager
def _interrupts(handler: object) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, handler)  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(name)
