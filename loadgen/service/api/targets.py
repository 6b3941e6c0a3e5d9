"""Targets: what may be loaded, and whether it is ready."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from fastapi.concurrency import run_in_threadpool

from loadgen.errors import ScenarioError, TargetUnusable
from loadgen.service.access import ServiceOf, Who
from loadgen.service.api.base import router_of
from loadgen.service.api.models import TargetCheckOut, TargetOut, TargetsOut
from loadgen.service.background import Busy, JobFailed
from loadgen.service.jobs import target_checked
from loadgen.service.outgoing import Refused
from loadgen.service.problems import Problem, not_found
from loadgen.service.state import Service, log
from loadgen.service.words import about_target

router = router_of("targets")
Name = Annotated[str, Path(pattern=r"^[a-z][a-z0-9_.-]{0,63}$", examples=["vllm-plain"])]


@router.get("/targets", summary="Servers that may be loaded, by name")
def targets(service: ServiceOf) -> TargetsOut:
    return TargetsOut(targets=[_shown(service, name) for name in service.targets.names])


@router.get("/targets/{name}", summary="One target")
def target(service: ServiceOf, name: Name) -> TargetOut:
    return _shown(service, name)


@router.post("/targets/{name}/check", summary="Look whether the target is ready: one tiny request")
async def check_target(service: ServiceOf, who: Who, name: Name) -> TargetCheckOut:
    """Answers 200 whether it is usable or not; the reason is of our own words."""
    if service.targets.get(name) is None:
        raise not_found(f"target {name}")
    found = await _looked(service, name)
    await run_in_threadpool(service.registry.looks.put, name, who.name, found.model_dump(mode="json"))
    return found


async def _looked(service: Service, name: str) -> TargetCheckOut:
    try:
        placed = await service.targets.placed(name)
        found = await service.background.run(target_checked, name, placed.keys)
    except Refused as error:
        return TargetCheckOut(name=name, usable=False, reason=str(error), found=None)
    except (TargetUnusable, ScenarioError) as error:
        log.warning("target %s: %s", name, service.redact(str(error)))
        return TargetCheckOut(name=name, usable=False, reason=about_target(str(error)), found=None)
    except (Busy, JobFailed) as error:
        log.error("target %s could not be looked at: %s", name, service.redact(str(error)))
        raise Problem(
            503, "busy", "the target cannot be looked at now; try again", headers={"Retry-After": "10"}
        ) from None
    return TargetCheckOut(name=name, usable=True, reason=None, found=found)


def _shown(service: Service, name: str) -> TargetOut:
    keys = service.targets.get(name)
    if keys is None:
        raise not_found(f"target {name}")
    _, caps = service.targets.allowed([name])
    busy = next((run.id for run in service.runner.active.values() if name in run.targets), None)
    return TargetOut(
        name=name, adapter=keys.adapter, urls=[service.redact(url) for url in (keys.urls or [keys.url or ""])],
        environment=keys.environment, model=keys.model, caps=caps, busy=busy,
    )  # fmt: skip
