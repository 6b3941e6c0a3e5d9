"""What of a scenario cannot be compared by its answers (docs/quality.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from loadgen.scenario.base import Loc

if TYPE_CHECKING:
    from loadgen.scenario.model import Scenario


def quality_problems(scenario: Scenario) -> Iterator[tuple[Loc, str]]:
    """By key path from the top."""
    keys, tasks = scenario.quality, {task.task_type for task in scenario.workload.tasks}
    if scenario.experiment == "quality" and len(scenario.arms) < 2:
        yield ("arms",), "experiment: quality needs two arms or more: a candidate is compared with the baseline"
    wanted = None if keys.second_tokens is None else keys.second_tokens.task_type
    if wanted is not None and wanted not in tasks:
        there = ", ".join(sorted(tasks))
        yield ("quality", "second_tokens", "task_type"), f'"{wanted}" is no task of this scenario (there: {there})'
