"""Look before you load: what a scenario will ask for, and whether its targets are ready for it."""

from __future__ import annotations

from dataclasses import dataclass

from loadgen.experiment.preflight import Preflight, preflight
from loadgen.experiment.single import refuse_beyond
from loadgen.plan import Plan, build_plan
from loadgen.scenario import Limits, LoadedScenario, limits_of


@dataclass(frozen=True)
class CheckReport:
    """`cost` in the currency of safety.price_per_million_output_tokens; None without a price."""

    plan: Plan
    limits: Limits
    cost: float | None
    ready: Preflight | None


async def check(loaded: LoadedScenario, *, targets: bool = True) -> CheckReport:
    """Plan without sending load. `targets` False: do not even look at the servers. Raises as `run_scenario`."""
    limits = limits_of(loaded.scenario)
    plan = build_plan(loaded)
    refuse_beyond(plan, limits)
    ready = await preflight(loaded.scenario) if targets else None
    return CheckReport(plan, limits, _cost(loaded, plan), ready)


def _cost(loaded: LoadedScenario, plan: Plan) -> float | None:
    price = loaded.scenario.safety.price_per_million_output_tokens
    if price is None or plan.totals.output_tokens is None:
        return None
    return price * plan.totals.output_tokens / 1e6
