"""Canaries: which are or were watched, and watching one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

import orjson
from fastapi import Path, Query, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from loadgen.service.access import ServiceOf, Who, seen_of
from loadgen.service.api.base import router_of
from loadgen.service.api.models import Arms, In
from loadgen.service.api.scenarios import kept_of
from loadgen.service.monitors import Monitor, Refusal
from loadgen.service.problems import Problem, not_found
from loadgen.service.runner.messages import Watching
from loadgen.service.state import Service
from loadgen.service.watches import watch, watchable

router = router_of("canaries")
_EXAMPLE: dict[str, Any] = {
    "scenario": "canary",
    "arms": {"baseline": "vllm-stable", "candidate": "vllm-canary"},
    "dry_run": True,
}
_ID = "20261130T070600Z-quickstart-canary-1a2b3c"
CanaryId = Annotated[
    str,
    Path(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$",
        description="id of the canary",
        examples=[_ID],
    ),
]


class CanaryStart(In):
    """A canary to watch: the scenario has a section `canary`."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_EXAMPLE]})

    scenario: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")] = Field(description="its name")
    arms: Arms = Field(default_factory=dict, max_length=16, description="arm to target, where the scenario says none")
    dry_run: bool = Field(False, description="call no webhook and pull no switch, say what would be done")
    for_s: Annotated[float, Field(gt=0, le=366 * 86400)] | None = Field(
        None, description="end by itself after the last whole window in so many seconds; null: when it is stopped"
    )


class MonitorOut(BaseModel):
    """A monitor that this service has started. What it sees is in the canary of the same id, once it has begun."""

    id: str
    scenario: str
    arms: dict[str, str]
    started_by: str
    dry_run: bool
    created: str
    state: Literal["starting", "watching", "stopping", "ended", "failed"]
    reason: str | None = Field(description="why it failed")


class CanariesOut(BaseModel):
    canaries: list[dict[str, Any]] = Field(description="canary.json of each, newest first (docs/canary.md)")
    next: str | None = Field(description="`before` of the next page; null: this is the last one")
    monitors: list[MonitorOut] = Field(description="of this service since it began, newest first")


@router.get("/canaries", summary="Canaries that are or were watched, newest first", response_model=CanariesOut)
async def list_canaries(
    service: ServiceOf,
    before: Annotated[
        str | None, Query(max_length=128, description="`next` of the page before", examples=[_ID])
    ] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> Response:
    monitors = list(map(_out, service.monitors.listed))

    def told() -> Response:  # each may be a megabyte: not on the loop
        found, after = service.canaries.page(before, limit)
        shown = [one.model_dump(mode="json", by_alias=True) for one in found]
        return _json({"canaries": shown, "next": after, "monitors": [one.model_dump() for one in monitors]})

    return await run_in_threadpool(told)


@router.get("/canaries/{canary_id}", summary="canary.json", response_model=dict[str, Any])
def one_canary(service: ServiceOf, canary_id: CanaryId) -> Response:
    """`active` is false, and `ended` null, of one whose monitor has died."""
    found = service.canaries.of_id(canary_id)
    if found is None:
        raise not_found(f"canary {canary_id}")
    return _json(found.model_dump(mode="json", by_alias=True))


@router.delete("/canaries/{canary_id}", status_code=204, summary="Delete what is kept of a canary that has ended")
async def delete_canary(service: ServiceOf, canary_id: CanaryId) -> None:
    found = await run_in_threadpool(service.canaries.of_id, canary_id)
    monitor = service.monitors.find(canary_id)
    if (monitor is not None and not monitor.over) or (found is not None and found.active):
        raise Problem(409, "not-now", "the canary is being watched: stop it first, and delete it when it has ended")
    if found is None:
        raise not_found(f"canary {canary_id}")
    if (problem := await run_in_threadpool(service.canaries.erase, canary_id)) is not None:
        raise Problem(409, "not-now", problem)


@router.post(
    "/canaries", status_code=202, summary="Watch a canary", responses={202: {"description": "its monitor begins"}}
)
async def start_canary(
    service: ServiceOf, who: Who, request: Request, asked: CanaryStart, response: Response
) -> MonitorOut:
    """Checked first: what cannot be watched is refused with everything that is wrong. One monitor a scenario."""
    monitor = await started(service, who.name, request, asked)
    response.headers["Location"] = f"/api/v1/canaries/{monitor.id}"
    return _out(monitor)


@router.post("/canaries/{canary_id}/stop", summary="End a canary's monitor that this service has started")
async def stop_canary(service: ServiceOf, who: Who, canary_id: CanaryId) -> MonitorOut:
    monitor = service.monitors.find(canary_id)
    if monitor is None and await run_in_threadpool(service.canaries.of_id, canary_id) is None:
        raise not_found(f"canary {canary_id}")
    try:
        service.monitors.stop(canary_id, who.name)
    except Refusal as error:
        raise Problem(409, "not-now", str(error)) from None
    assert monitor is not None
    return _out(monitor)


async def started(service: Service, who: str, request: Request, asked: CanaryStart) -> Monitor:
    """Raises Problem."""
    kept = await run_in_threadpool(kept_of, service, asked.scenario)
    wanted = await watchable(service, kept, asked.arms)
    monitor = await watch(service, who, wanted, Watching(for_s=asked.for_s, dry_run=asked.dry_run))
    seen = seen_of(request)
    seen.subject = monitor.id
    seen.detail = f"{kept.name} on {', '.join(f'{a}={t}' for a, t in wanted.arms.items())}" + (
        ", dry run" if monitor.dry_run else ""
    )
    return monitor


def _json(value: dict[str, Any]) -> Response:
    return Response(orjson.dumps(value), media_type="application/json")


def _out(monitor: Monitor) -> MonitorOut:
    return MonitorOut(**asdict(monitor))
