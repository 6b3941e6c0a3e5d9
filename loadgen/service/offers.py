"""From what was asked to a run that can be queued: checked as a whole before anything is promised."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from fastapi.concurrency import run_in_threadpool

from loadgen.errors import ScenarioError
from loadgen.service.background import Busy, JobFailed
from loadgen.service.compose import checked_text, named_targets
from loadgen.service.elsewhere import refused_urls
from loadgen.service.jobs import planned
from loadgen.service.problems import Problem
from loadgen.service.registry import RunRow, RunState
from loadgen.service.scenarios import Kept
from loadgen.service.state import Service, log


@dataclass(frozen=True)
class Offer:
    """A scenario that can be run on these targets. `plan`: what it asks for (`loadgen.service.jobs.planned`).
    `kind`: its experiment."""

    kept: Kept
    arms: dict[str, str]
    plan: dict[str, Any]
    kind: str


async def offer(
    service: Service, kept: Kept, arms: Mapping[str, str], overrides: Mapping[str, Any], time_budget_s: float | None
) -> Offer:
    """Raises Problem 422 with everything that is wrong, 503 where it cannot be planned now."""
    try:
        async with service.reading:
            document = await run_in_threadpool(checked_text, kept.data, kept.name, uploaded=kept.source == "uploaded")
        named, problems = named_targets(document, arms)
        problems += service.targets.unknown(named)
        if document.value.get("experiment") == "drill":
            problems += refused_urls(service.outgoing, document, "drill")
        if problems:
            raise ScenarioError(problems)
        row = RunRow(
            0, "check", kept.name, RunState.QUEUED, "", named, dict(overrides), kept.text,
            uploaded=kept.source == "uploaded", time_budget_s=time_budget_s,
        )  # fmt: skip
        start = service.runner.start_of(row, {arm: service.targets.keys(target) for arm, target in named.items()})
        plan = await service.background.run(planned, start)
    except ScenarioError as error:
        raise unusable(service, error) from None
    except Busy:
        raise Problem(
            503, "busy", "too many scenarios are being planned: try again", headers={"Retry-After": "10"}
        ) from None
    except JobFailed as error:
        log.error("a scenario could not be planned: %s", service.redact(str(error)))
        raise Problem(422, "unusable-scenario", "the scenario cannot be planned; see the service's log") from None
    return Offer(kept, named, plan, str(document.value.get("experiment", "run")))


def unusable(service: Service, error: ScenarioError) -> Problem:
    return Problem(
        422, "unusable-scenario", "the scenario cannot be run as it is", [service.redact(p) for p in error.problems]
    )


def fingerprint(asked: Any) -> str:
    """Of a request's body, for its idempotency key."""
    return hashlib.sha256(orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)).hexdigest()
