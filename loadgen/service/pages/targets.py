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
from loadgen.service.registry import RunState, utc_now

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


def looks_of(request: Request) -> dict[str, Look]:
    """The newest look at each target since the service began: at most one a target of the configuration."""
    state = request.app.state
    if not hasattr(state, "target_looks"):
        state.target_looks = {}
    found: dict[str, Look] = state.target_looks
    return found


@router.get("/targets", summary="Targets as a page", include_in_schema=False)
async def targets_page(request: Request, service: ServiceOf) -> Response:
    queued = await run_in_threadpool(service.registry.runs.in_state, RunState.QUEUED)
    looks = looks_of(request)
    shown = [
        Shown(target, sum(target.name in row.arms.values() for row in queued), looks.get(target.name))
        for target in listed(service).targets
    ]
    return page(request, "targets.html", targets=shown)


@router.post("/targets/{name}/check", summary="Look at a target", include_in_schema=False)
async def look_at(request: Request, service: ServiceOf, who: Who, name: Name) -> Response:
    found = await check_target(service, name)
    looks_of(request)[name] = Look(found, utc_now(), who.name)
    return RedirectResponse(f"/targets#t-{name}", 303)
