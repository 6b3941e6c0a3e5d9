"""Asking for a canary to be watched: checked as a whole before its monitor begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi.concurrency import run_in_threadpool

from loadgen.errors import ScenarioError
from loadgen.experiment import new_canary_id
from loadgen.service.background import Busy, JobFailed
from loadgen.service.compose import checked_text, named_targets
from loadgen.service.elsewhere import refused_urls
from loadgen.service.jobs import watched
from loadgen.service.monitors import Monitor, Refusal
from loadgen.service.offers import unusable
from loadgen.service.outgoing import Refused
from loadgen.service.problems import Problem
from loadgen.service.registry import RunRow, RunState
from loadgen.service.runner.messages import Start, Watching
from loadgen.service.scenarios import Kept
from loadgen.service.state import Service, log


@dataclass(frozen=True)
class Watchable:
    """A scenario whose canary can be watched on these targets. `found`: what the monitor will do
    (`loadgen.service.jobs.watched`)."""

    kept: Kept
    arms: dict[str, str]
    found: dict[str, Any]
    row: RunRow


async def watchable(service: Service, kept: Kept, arms: Mapping[str, str]) -> Watchable:
    """Nothing is asked of the targets. Raises Problem 422 with everything that is wrong, 503."""
    try:
        async with service.reading:
            document = await run_in_threadpool(checked_text, kept.data, kept.name, uploaded=kept.source == "uploaded")
        named, problems = named_targets(document, arms)
        problems += service.targets.unknown(named)
        problems += refused_urls(service.outgoing, document, "canary")
        if problems:
            raise ScenarioError(problems)
        row = RunRow(0, "check", kept.name, RunState.QUEUED, "", named, {}, kept.text)
        keys = {arm: service.targets.keys(target) for arm, target in named.items()}
        found = await service.background.run(watched, _start(service, row, keys, Watching()))
    except ScenarioError as error:
        raise unusable(service, error) from None
    except (Busy, JobFailed) as error:
        log.error("a canary could not be looked at: %s", service.redact(str(error)))
        raise Problem(503, "busy", "it cannot be looked at now: try again", headers={"Retry-After": "10"}) from None
    return Watchable(kept, named, found, row)


async def watch(service: Service, who: str, wanted: Watchable, asked: Watching) -> Monitor:
    """Raises Problem: 409 where it cannot be done now, 422 where something may not be connected to, or `for_s` holds
    no window."""
    window_s = wanted.found["window_s"]
    if asked.for_s is not None and asked.for_s < window_s:
        raise Problem(422, "too-short", f"for_s: {asked.for_s:g} s hold no whole window of {window_s:g} s")
    if (why := service.monitors.refusal(wanted.kept.name)) is not None:
        raise Problem(409, "not-now", why)
    try:
        placed = {arm: await service.targets.placed(target) for arm, target in wanted.arms.items()}
        resolve = await service.targets.elsewhere(wanted.kept.text, "canary")
    except Refused as error:
        raise Problem(422, "refused", str(error)) from None
    canary_id = new_canary_id(wanted.kept.name)
    start = _start(service, wanted.row, {arm: one.keys for arm, one in placed.items()}, asked)
    start = start.model_copy(update={"run_id": canary_id, "resolve": resolve, "outgoing": service.config.outgoing})
    dry_run = asked.dry_run or bool(wanted.found["dry_run"])
    monitor = Monitor(canary_id, wanted.kept.name, wanted.arms, who, dry_run)
    try:
        service.monitors.begin(monitor, start)
    except Refusal as error:
        raise Problem(409, "not-now", str(error)) from None
    return monitor


def _start(service: Service, row: RunRow, arms: dict[str, dict[str, Any]], asked: Watching) -> Start:
    return service.runner.start_of(row, arms).model_copy(update={"watching": asked})
