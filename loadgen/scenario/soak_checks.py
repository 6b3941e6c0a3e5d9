"""What of a scenario's load is no soak (docs/soak.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from loadgen.scenario.base import Loc
from loadgen.scenario.stages import ConcurrencyStage, Ramp

if TYPE_CHECKING:
    from loadgen.scenario.model import Scenario

#: 40 windows of 5 s, fewer than which tell no drift
SHORTEST_SOAK_S = 200.0


def soak_problems(scenario: Scenario) -> Iterator[tuple[Loc, str]]:
    """By key path from the top; none where the experiment is no soak."""
    if scenario.experiment != "soak":
        return
    for i, stage in enumerate(scenario.load):
        key = "concurrency" if isinstance(stage, ConcurrencyStage) else "rate_per_s"
        if isinstance(getattr(stage, key), Ramp):
            yield ("load", i, key), "experiment: soak needs a load that stands: a number, not a ramp"
        if stage.duration_s is None:
            yield ("load", i, "duration_s"), "is missing: experiment: soak ends by time"
        elif stage.duration_s * scenario.passes < SHORTEST_SOAK_S:
            yield (
                ("load", i, "duration_s"),
                f"{stage.duration_s * scenario.passes:g} s over all repeats is too short for experiment: soak: drifts "
                f"need at least {SHORTEST_SOAK_S:g} s (40 windows of 5 s), better half an hour",
            )
