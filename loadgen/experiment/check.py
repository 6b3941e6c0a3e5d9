"""Look before you load: what a scenario will ask for, and whether its targets are ready for it."""

from __future__ import annotations

from dataclasses import dataclass

from loadgen.analyze import Difference, differences
from loadgen.experiment.before import refuse_beyond, with_baseline
from loadgen.experiment.budget import fit_time
from loadgen.experiment.ceiling import Ceiling, beyond, ceiling, cpu_count
from loadgen.experiment.context import check_context
from loadgen.experiment.drill import planned_pulls
from loadgen.experiment.driving import worker_count
from loadgen.experiment.manifest import aa_run_facts
from loadgen.experiment.preflight import Preflight, preflight, redactor_of
from loadgen.plan import Estimate, Plan, build_plan, estimate, quality_scenario
from loadgen.scenario import Limits, LoadedScenario, limits_of


@dataclass(frozen=True)
class CheckReport:
    """`ready` is None where the targets were not looked at. `estimate` rests on an assumption. `loaded`: what is
    planned, fitted into the time budget where there is one. `workers`: processes that a run drives it with.
    `warnings`: what the plan asks of them beyond their `ceiling`. `environment`: what is not alike in the arms."""

    loaded: LoadedScenario
    plan: Plan
    limits: Limits
    estimate: Estimate
    ready: Preflight | None
    notes: tuple[str, ...]
    workers: int
    ceiling: Ceiling
    warnings: tuple[str, ...]
    environment: tuple[Difference, ...]


async def check(
    loaded: LoadedScenario, *, targets: bool = True, workers: int | None = None, time_budget_s: float | None = None
) -> CheckReport:
    """Plan without sending load. `targets` False: do not even look at the servers, nor where the run would start them.
    `workers` as in `RunOptions`. `time_budget_s`: plan what fits, by the pace of a few small requests. Raises as
    `run_scenario`."""
    if loaded.scenario.experiment == "quality":
        loaded = quality_scenario(loaded)
    limits = limits_of(loaded.scenario)
    if loaded.scenario.comparison.aa_run is not None:
        aa_run_facts(loaded.scenario.comparison.aa_run)
    started = [name for name, arm in loaded.scenario.arms.items() if arm.start is not None]
    ready = await preflight(loaded.scenario) if targets and not started else None
    notes: tuple[str, ...] = ready.notes if ready else ()
    if targets and started:
        notes = (f"{', '.join(started)}: started by the run itself, so no target was looked at",)
    if ready is not None:
        loaded, said = with_baseline(loaded, ready)
        notes = (*said, *notes)
    if time_budget_s is not None:
        fitted = await fit_time(loaded, time_budget_s, ready)
        loaded, notes = fitted.loaded, (fitted.sentence(), *notes)
    plan = build_plan(loaded)
    refuse_beyond(plan, limits)
    if loaded.scenario.experiment == "drill" and loaded.scenario.drill is not None:
        notes = (*notes, *planned_pulls(loaded.scenario.drill, redactor_of(loaded.scenario)))
    soak = loaded.scenario.experiment == "soak"
    notes = (*notes, *(check_context(plan, ready, soak) if ready else ()), *plan.design.marks)
    guess, able = estimate(plan), ceiling()
    arms = {name: arm.facts for name, arm in ready.arms.items()} if ready else {}
    unlike = tuple(differences(arms, loaded.scenario.model_dump(mode="json")))
    workers = workers or worker_count(plan, cpu_count())
    warnings = tuple(beyond(guess.peak, guess.assumption, able, workers))
    return CheckReport(loaded, plan, limits, guess, ready, notes, workers, able, warnings, unlike)
