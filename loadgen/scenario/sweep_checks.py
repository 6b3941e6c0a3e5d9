"""What of the section `sweep` does not fit to the rest of the scenario."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from loadgen.scenario.base import Loc
from loadgen.scenario.launchers import Launcher
from loadgen.scenario.limits import Limits
from loadgen.scenario.stages import ArrivalStage, ConcurrencyStage
from loadgen.scenario.sweep import Sweep

if TYPE_CHECKING:
    from loadgen.scenario.model import Scenario

#: Visits of a sweep: each is a run of its own.
MAX_VISITS = 10_000


def sweep_problems(scenario: Scenario, limits: Limits) -> list[tuple[Loc, str]]:
    """What of the section does not fit to the rest of the scenario, by key path from its top."""
    sweep = scenario.sweep
    if sweep is None:
        return []
    found = [*_of_load(scenario, sweep, limits), *_of_tasks(scenario, sweep), *_of_arms(scenario, sweep)]
    visits = prod(len(values) for values in sweep.axes.values()) * sweep.repeats
    if visits > MAX_VISITS:
        found.append((("over",), f"{visits:,} runs are asked for, and {MAX_VISITS:,} are allowed"))
    return [(("sweep", *loc), text) for loc, text in found]


def _of_load(scenario: Scenario, sweep: Sweep, limits: Limits) -> Iterator[tuple[Loc, str]]:
    if len(scenario.load) != 1:
        yield ("over",), f"needs a load of one stage, whose setting it changes (there are {len(scenario.load)})"
        return
    stage = scenario.load[0]
    for name, kind, key, cap in (
        ("concurrency", ConcurrencyStage, "concurrency", limits.max_concurrency),
        ("rate", ArrivalStage, "rate_per_s", limits.max_requests_per_second),
    ):
        values = getattr(sweep.over, name)
        if values and not (isinstance(stage, kind) and isinstance(getattr(stage, key), int | float)):
            yield ("over", name), f"needs a stage of that kind with a plain {key}, which it replaces"
        for i, value in enumerate(values):
            if cap is not None and value > cap:
                yield (
                    ("over", name, i),
                    f"{value:g} is above the cap of safety ({cap:g}): lower it, or raise the cap",
                )


def _of_tasks(scenario: Scenario, sweep: Sweep) -> Iterator[tuple[Loc, str]]:
    tasks = scenario.workload.tasks
    for name in ("input_len", "output_len"):
        for task in tasks:
            if getattr(sweep.over, name) and (task.prompts is not None or task.lengths is not None):
                what = "own prompts" if task.prompts is not None else "lengths"
                yield ("over", name), f"cannot replace those of {task.task_type}, which has {what}"
    there = {task.task_type for task in tasks if task.weight > 0}
    for i, name in enumerate(sweep.over.task_type):
        if name not in there:
            yield ("over", "task_type", i), f'"{name}" is no task of the workload; there are {", ".join(sorted(there))}'


def _of_arms(scenario: Scenario, sweep: Sweep) -> Iterator[tuple[Loc, str]]:
    for i, name in enumerate(sweep.arms_by_k):
        if name not in scenario.arms:
            yield ("arms_by_k", i), f'"{name}" is no arm; there are {", ".join(scenario.arms)}'
    if sweep.launch is None:
        return
    given, arms = sweep.launch.arm, list(scenario.arms)
    if given is None and len(arms) > 1:
        yield ("launch", "arm"), f"is missing: which of {', '.join(arms)} is started?"
    elif given is not None and given not in arms:
        yield ("launch", "arm"), f'"{given}" is no arm; there are {", ".join(arms)}'
    else:
        yield from _of_launched(given or arms[0], scenario, sweep.launch)


def _of_launched(name: str, scenario: Scenario, launch: Launcher) -> Iterator[tuple[Loc, str]]:
    arm = scenario.arms[name]
    if arm.start is not None:
        yield ("launch", "arm"), f"{name} has a start command of its own"
    if arm.url is None:
        yield ("launch", "arm"), f"{name} needs one url: the server is started there"
    elif launch.kind != "command" and (urlsplit(arm.url).port is None or not arm.url.startswith("http://")):
        yield ("launch", "arm"), f"{name}: url must be http:// with a port: the server is started there"


def launched_arm(scenario: Scenario) -> str | None:
    """The arm that the sweep starts and stops, if any."""
    launch = None if scenario.sweep is None else scenario.sweep.launch
    return None if launch is None else launch.arm or next(iter(scenario.arms))
