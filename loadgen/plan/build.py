"""A scenario to its plan."""

from __future__ import annotations

from loadgen.plan.quality_plan import quality_plan
from loadgen.plan.schedule import Plan, run_plan
from loadgen.scenario import LoadedScenario


def build_plan(loaded: LoadedScenario) -> Plan:
    """The plan of a scenario that has passed its checks; of one whose passes are laid out (`quality_scenario`), the
    quality run. Raises ScenarioError where its own choice of blocks makes too many segments of it."""
    return quality_plan(loaded) if loaded.passes else run_plan(loaded)
