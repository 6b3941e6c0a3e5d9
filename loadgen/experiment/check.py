"""Look before you load: what a scenario will ask for, and whether its targets are ready for it."""

from __future__ import annotations

from dataclasses import dataclass

from loadgen.analyze import Difference, differences
from loadgen.experiment.ceiling import Ceiling, beyond, ceiling
from loadgen.experiment.context import check_context
from loadgen.experiment.preflight import Preflight, preflight
from loadgen.experiment.single import refuse_beyond
from loadgen.plan import Estimate, Plan, build_plan, estimate
from loadgen.scenario import Limits, LoadedScenario, limits_of


@dataclass(frozen=True)
class CheckReport:
    """`ready` is None, and `notes` empty, where the targets were not looked at. `estimate` rests on an assumption.
    `warnings`: what the plan asks of this client beyond its `ceiling`. `environment`: what is not alike in the arms."""

    plan: Plan
    limits: Limits
    estimate: Estimate
    ready: Preflight | None
    notes: tuple[str, ...]
    ceiling: Ceiling
    warnings: tuple[str, ...]
    environment: tuple[Difference, ...]


async def check(loaded: LoadedScenario, *, targets: bool = True) -> CheckReport:
    """Plan without sending load. `targets` False: do not even look at the servers. Raises as `run_scenario`."""
    limits = limits_of(loaded.scenario)
    plan = build_plan(loaded)
    refuse_beyond(plan, limits)
    ready = await preflight(loaded.scenario) if targets else None
    notes = (*ready.notes, *check_context(plan, ready)) if ready else ()
    guess, able = estimate(plan), ceiling()
    warnings = tuple(beyond(guess.peak, guess.assumption, able))
    arms = {name: arm.facts for name, arm in ready.arms.items()} if ready else {}
    unlike = tuple(differences(arms, loaded.scenario.model_dump(mode="json")))
    return CheckReport(plan, limits, guess, ready, notes, able, warnings, unlike)
