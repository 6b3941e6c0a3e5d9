"""A sweep: every point of the plan as an ordinary run, whatever becomes of the others."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from loadgen.analyze import SweepSummary
from loadgen.control import Ask
from loadgen.errors import SpecloadError, StorageError, TargetUnusable
from loadgen.experiment.before import refuse_unwritable
from loadgen.experiment.driving import DEFAULT_TRANSPORT, TransportName
from loadgen.experiment.launchers import with_launcher
from loadgen.experiment.progress import Progress
from loadgen.experiment.single import RunOptions, RunResult, run_scenario
from loadgen.experiment.sweep_begin import begun, refuse_points, resumed
from loadgen.experiment.sweep_cost import OVERHEAD_S, SweepCost, cost_of
from loadgen.experiment.sweep_metrics import SweepMetrics
from loadgen.experiment.sweep_results import save_sweep, save_sweep_page, summarise
from loadgen.experiment.sweep_search import next_folder, next_step, outcome_of, searched_arms
from loadgen.experiment.sweep_state import (
    Attempt,
    SearchVisit,
    SweepState,
    VisitState,
    locked,
    now,
    write_state,
)
from loadgen.export import Metrics
from loadgen.plan import SweepPlan, SweepPoint, at_rate, derive, plan_sweep, point_arm, point_k, sweep_of
from loadgen.record import new_run_id, open_run
from loadgen.scenario import LoadedScenario


class SweepWatch(Protocol):
    """Who watches a sweep: its own lines, and a new progress of each point's run."""

    def begun(self, folder: Path) -> None: ...

    def say(self, text: str) -> None: ...

    def point(self) -> Progress: ...

    def point_over(self) -> None: ...


@dataclass(frozen=True)
class SweepOptions:
    """`out`: takes the sweep's directory. `resume`: one that is gone on with instead. `time_budget_s`: of this session;
    visits that are not likely to be over by then are skipped, and said to be. The others as in `RunOptions`."""

    out: Path
    resume: Path | None = None
    overrides: tuple[str, ...] = ()
    arm_urls: Mapping[str, str] = field(default_factory=dict)
    workers: int | None = None
    transport: TransportName = DEFAULT_TRANSPORT
    time_budget_s: float | None = None
    metrics: Metrics | None = None


@dataclass(frozen=True)
class SweepResult:
    """`state`: finished (nothing is left to do but what was skipped), or interrupted by the user."""

    path: Path
    summary: SweepSummary
    state: str
    #: every visit failed, and all of them for their server
    unreachable: bool


async def run_sweep(loaded: LoadedScenario, options: SweepOptions, watch: SweepWatch) -> SweepResult:
    """Visit what is left of the plan, analyze, write sweep_summary.json. Raises ScenarioError and StorageError before
    any load; what was measured is kept, whatever ends it."""
    plan = plan_sweep(loaded)
    refuse_points(loaded, plan)
    folder = options.resume or options.out / new_run_id(f"sweep-{loaded.scenario.name}")
    if options.resume is None:
        refuse_unwritable(options.out)
    watch.begun(folder)
    with locked(folder):
        state = resumed(folder, plan) if options.resume is not None else begun(folder, loaded, plan, options.overrides)
        sweep = _Sweep(loaded, plan, options, watch, folder, state)
        try:
            ended = await sweep.everything()
        finally:
            sweep.close()
        summary = summarise(folder, state)
        save_sweep(folder, summary)
        _save_page(folder, summary, watch)
    sweep.metrics.told(summary)
    tries = [visit.attempts[-1] for visit in state.visits if visit.attempts]
    unreachable = bool(tries) and all(t.state == "failed" and t.kind == "target" for t in tries)
    return SweepResult(folder, summary, ended, unreachable)


def _save_page(folder: Path, summary: SweepSummary, watch: SweepWatch) -> None:
    """A page that cannot be made must not cost the sweep its summary and its exit code."""
    try:
        save_sweep_page(folder, summary)
    except Exception as error:
        watch.say(f"sweep.html was not written: {error}")


class _Sweep:
    """One session of a sweep."""

    def __init__(
        self,
        loaded: LoadedScenario,
        plan: SweepPlan,
        options: SweepOptions,
        watch: SweepWatch,
        folder: Path,
        state: SweepState,
    ) -> None:
        self.loaded, self.plan, self.options, self.watch = loaded, plan, options, watch
        self.folder, self.state = folder, state
        self.metrics = SweepMetrics(options.metrics, state)
        self.cost: SweepCost = cost_of(loaded, plan)
        self._begin = time.monotonic()
        self._before_s = state.elapsed_s
        state.sessions.append({"began": now(), "ended": None, "time_budget_s": options.time_budget_s})
        self._save()

    def close(self) -> None:
        self.state.sessions[-1]["ended"] = now()
        self._save()

    def _save(self) -> None:
        self.state.elapsed_s = self._before_s + time.monotonic() - self._begin
        write_state(self.folder, self.state)
        self.metrics.progress(self.state)

    async def everything(self) -> str:
        """ "finished" or "interrupted"."""
        left = [(v, p) for v, p in zip(self.state.visits, self.plan.visits, strict=True) if v.state != "done"]
        self.watch.say(f"{self.folder}: {len(left)} of {len(self.state.visits)} visits to make")
        for visit, point in left:
            if self._too_late(visit, point):
                continue
            self.watch.say(f"[{visit.number + 1}/{len(self.state.visits)}] {self._about(point)}")
            await asyncio.sleep(sweep_of(self.loaded).settle_s)
            if await self._visit(visit, point) == "interrupted":
                return "interrupted"
        return await self._search()

    async def _search(self) -> str:
        """The highest rate of every arm, one after the other, as far as the time allows."""
        sweep = sweep_of(self.loaded)
        for arm, k in searched_arms(self.loaded.scenario):
            assert sweep.max_rate is not None
            while isinstance(step := next_step(sweep.max_rate, self.state, arm, k), Ask):
                if self._no_time(sweep.max_rate.duration_s + self.cost.start_s + OVERHEAD_S):
                    self.watch.say(f"highest rate of {arm}: the time budget is spent")
                    return "finished"
                self.watch.say(f"highest rate of {arm}: {step.rate:g} requests/s ({step.reason})")
                if await self._rate_visit(step.rate, arm, k) == "interrupted":
                    return "interrupted"
        return "finished"

    async def _rate_visit(self, rate_per_s: float, arm: str, k: int | None) -> str:
        visit = SearchVisit(arm=arm, k=k, rate_per_s=rate_per_s, folder=next_folder(self.state, rate_per_s))
        self.state.search.append(visit)
        self._save()
        begin = time.monotonic()
        try:
            derived = at_rate(self.loaded, rate_per_s, len(self.state.search), arm, k)
            scenario = with_launcher(derived.scenario, self.loaded.scenario, {} if k is None else {"k": k})
            result = await self._run(replace(derived, scenario=scenario), visit.folder)
            visit.directory = str(result.path.relative_to(self.folder))
            if result.state == "interrupted":
                visit.why = "interrupted by the user"
                return "interrupted"
            visit.outcome, visit.why = outcome_of(result)
        except StorageError:
            raise
        except SpecloadError as error:
            visit.outcome, visit.why = "inconclusive", str(error)
        finally:
            visit.took_s = time.monotonic() - begin
            self.watch.point_over()
            self._save()
        self.watch.say(f"    {visit.outcome}: {visit.why.splitlines()[0]}")
        return "done"

    def _about(self, point: SweepPoint) -> str:
        what = "baseline point, " if point.baseline else ""
        return f"{what}{point.text} (pass {point.repeat + 1}; about {self.cost.seconds(point, self.state):,.0f} s)"

    def _too_late(self, visit: VisitState, point: SweepPoint) -> bool:
        """Skip it where it is not likely to fit into the budget; a shorter one after it may."""
        budget_s = self.options.time_budget_s
        if budget_s is None:
            return False
        takes_s, left_s = self.cost.seconds(point, self.state), budget_s - (time.monotonic() - self._begin)
        if not self._no_time(takes_s):
            return False
        visit.skipped = f"time budget: about {takes_s:,.0f} s needed, {max(0.0, left_s):,.0f} s left"
        self.watch.say(f"[{visit.number + 1}/{len(self.state.visits)}] {point.text}: skipped: {visit.skipped}")
        self._save()
        return True

    def _no_time(self, takes_s: float) -> bool:
        budget_s = self.options.time_budget_s
        return budget_s is not None and takes_s > budget_s - (time.monotonic() - self._begin)

    async def _visit(self, visit: VisitState, point: SweepPoint) -> str:
        """Its state afterwards. Whatever ends it is noted before it is let go on."""
        at_s = self._before_s + time.monotonic() - self._begin
        attempt = Attempt(state="running", folder=visit.folder, started=now(), at_s=at_s)
        visit.attempts.append(attempt)
        self._save()
        begin = time.monotonic()
        try:
            attempt.reason = await self._measure(attempt, point)
            attempt.state = "done" if attempt.reason is None else "failed"
        except _Interrupted:
            attempt.state, attempt.reason = "interrupted", "interrupted by the user; its records are kept"
        except StorageError:
            attempt.state, attempt.reason = "interrupted", "the records could not be written"
            raise
        except SpecloadError as error:
            attempt.state, attempt.reason = "failed", str(error)
            attempt.kind = "target" if isinstance(error, TargetUnusable) else "other"
        except Exception as error:  # one point's failure must not end the sweep
            attempt.state, attempt.reason = "failed", f"internal error: {type(error).__name__}: {error}"
        except BaseException:
            attempt.state, attempt.reason = "interrupted", "interrupted by the user; its records are kept"
            raise
        finally:
            attempt.took_s = time.monotonic() - begin
            self.watch.point_over()
            self._save()
        if attempt.state == "failed":
            self.watch.say(f"    failed: {(attempt.reason or '').splitlines()[0]}")
        return attempt.state

    async def _measure(self, attempt: Attempt, point: SweepPoint) -> str | None:
        """Why it does not count; None where it does."""
        derived = derive(self.loaded, point)
        scenario = with_launcher(derived.scenario, self.loaded.scenario, point.values)
        result = await self._run(replace(derived, scenario=scenario), attempt.folder)
        attempt.directory = str(result.path.relative_to(self.folder))
        attempt.run_id = result.summary.run_id
        if result.state == "interrupted":
            raise _Interrupted
        return _why_not(result) or self._other_k(result.path, point)

    async def _run(self, loaded: LoadedScenario, folder: str) -> RunResult:
        options = RunOptions(
            self.folder / folder,
            self.options.overrides,
            workers=self.options.workers,
            transport=self.options.transport,
            metrics=self.options.metrics,
            arm_urls=self.options.arm_urls,
        )
        with _ended_by_signals():
            return await run_scenario(loaded, options, self.watch.point())

    def _other_k(self, run: Path, point: SweepPoint) -> str | None:
        """The server must draft as long as the point says, where it tells."""
        asked, arm = point_k(self.loaded.scenario, point.values), point_arm(self.loaded.scenario, point.values)
        facts = open_run(run).manifest.arms[arm]
        if asked is None or (facts.k is None and facts.speculation is not False):
            return None
        found = facts.k if facts.speculation is not False else 0
        return None if found == asked else f"{arm}: k = {asked} was asked for, and the server has k = {found}"


class _Interrupted(Exception):
    """The user ended a run, which has closed its records."""


def _why_not(result: RunResult) -> str | None:
    if result.state != "finished":
        return f"the run was ended early: {result.reason}"
    for name, arm in result.summary.arms.items():
        requests = arm.overall.requests
        if requests.sent and not requests.outcomes.get("ok"):
            return f"no request of {name} succeeded: {result.path.name}/anomalies.log"
    if result.summary.validity.state == "invalid":
        return result.summary.validity.reasons[0]
    return None


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Until the run has handlers of its own, SIGTERM is what Ctrl-C is."""
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
