"""Where experiments that may break a server are allowed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from loadgen.scenario.base import Loc

if TYPE_CHECKING:
    from loadgen.scenario.model import Scenario

#: They send what a server may not survive, or move its users elsewhere.
DISRUPTIVE = frozenset({"anomalies", "drill"})


def disruption_problems(scenario: Scenario) -> Iterator[tuple[Loc, str]]:
    """By key path from the top."""
    what = scenario.experiment
    if what not in DISRUPTIVE or scenario.environment == "disposable":
        return
    if scenario.environment == "production":
        yield ("experiment",), f"{what} may break a server and is refused on environment: production"
    elif not scenario.safety.disruptive:
        yield (
            ("experiment",),
            f"{what} may break a server: on environment: staging it needs safety.disruptive: true",
        )
