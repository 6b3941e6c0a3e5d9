"""The servers that may be loaded: free or busy, and what a look at them found."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse

from loadgen.service.access import ServiceOf, Who
from loadgen.service.api.base import router_of
from loadgen.service.api.models import TargetCheckOut, TargetOut
from loadgen.service.api.targets import Name, check_target
from loadgen.service.api.targets import targets as listed
from loadgen.service.pages.render import page
from loadgen.service.registry import RunState
from loadgen.service.state import Service

router = router_of("pages", prefix="")
#: Facts of a target's environment that are shown.
MOST_FACTS = 60


@dataclass(frozen=True)
class Look:
    """What a look found, when, and who looked."""

    found: TargetCheckOut
    at: str
    who: str

    @property
    def speculation(self) -> str:
        told = (self.found.found or {}).get("speculation")
        return "not told" if told is None else {True: "yes", False: "no"}.get(told, str(told))

    @property
    def reason(self) -> str:
        """The name stands above it."""
        return (self.found.reason or "").removeprefix(f"{self.found.name}: ")

    @property
    def facts(self) -> list[tuple[str, str]]:
        environment = (self.found.found or {}).get("environment") or {}
        told = [(key, fact["value"]) for key, fact in environment.items() if fact.get("value") is not None]
        return [(key, str(value)) for key, value in told[:MOST_FACTS]]


@dataclass(frozen=True)
class Shown:
    target: TargetOut
    queued: int
    look: Look | None


def looks_of(service: Service) -> dict[str, Look]:
    """The newest look at each target, whoever looked, from the API or a page, also before this start of the service."""
    kept = service.registry.looks.all()
    return {name: Look(TargetCheckOut.model_validate(one.found), one.at, one.who) for name, one in kept.items()}


@router.get("/targets", summary="Targets as a page", include_in_schema=False)
async def targets_page(request: Request, service: ServiceOf) -> Response:
    queued = await run_in_threadpool(service.registry.runs.in_state, RunState.QUEUED)
    looks = await run_in_threadpool(looks_of, service)
    shown = [
        Shown(target, sum(target.name in row.arms.values() for row in queued), looks.get(target.name))
        for target in listed(service).targets
    ]
    return page(request, "targets.html", targets=shown)


@router.post("/targets/{name}/check", summary="Look at a target", include_in_schema=False)
async def look_at(service: ServiceOf, who: Who, name: Name) -> Response:
    await check_target(service, who, name)
    return RedirectResponse(f"/targets#t-{name}", 303)
