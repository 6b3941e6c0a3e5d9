"""Canaries: which are watched, one of them by its windows, and watching one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse
from pydantic import ValidationError

from loadgen.errors import ScenarioError, StorageError
from loadgen.experiment import CanaryResult, read_windows
from loadgen.report import canary_figures, canary_tables, drawn_on_page
from loadgen.scenario import document_of
from loadgen.service.access import ServiceOf, Who, form_of
from loadgen.service.api.base import router_of
from loadgen.service.api.canaries import CanaryId, CanaryStart, started, stop_canary
from loadgen.service.api.scenarios import kept_of
from loadgen.service.canaries import MOST
from loadgen.service.monitors import Monitor
from loadgen.service.pages.fields import arms_in, minutes_in
from loadgen.service.pages.render import page
from loadgen.service.problems import Problem, not_found
from loadgen.service.rollouts import Outcome, of_canary
from loadgen.service.scenarios import Kept
from loadgen.service.state import Service

router = router_of("pages", prefix="")
#: Windows that a page shows.
MOST_WINDOWS = 48
#: Seconds between two looks of a page at what it shows.
LEAST_EVERY_S, MOST_EVERY_S = 2.0, 15.0


@dataclass(frozen=True)
class Shown:
    """`result` None: it has not begun, or could not. `now`: what it says of this moment; None of one that has ended."""

    id: str
    scenario: str
    result: CanaryResult | None
    monitor: Monitor | None
    now: Outcome | None

    @property
    def going(self) -> bool:
        if self.monitor is not None:
            return not self.monitor.over
        return self.result is not None and self.result.active

    @property
    def doing(self) -> str:
        """In one word."""
        if self.monitor is not None:
            return self.monitor.state
        if self.result is not None and not self.result.active and self.result.ended is None:
            return "died"
        return "watching" if self.going else "ended"

    @property
    def stoppable(self) -> bool:
        return self.monitor is not None and not self.monitor.over

    @property
    def version(self) -> str:
        """Another one: there is something new to see. A state of now changes by time alone, too."""
        r = self.result
        seen = () if r is None else (r.windows, r.state, r.verdict, len(r.notes), sum(r.calls_by_result.values()))
        return "-".join(map(str, (self.doing, *seen, self.aside is None)))

    @property
    def word(self) -> str:
        """pass, fail or inconclusive: of now while it goes on, else as it ended; "none yet" before the first window."""
        if self.now is not None:
            return "none yet" if self.now.word == "running" else self.now.word
        return "none yet" if self.result is None else self.result.verdict

    @property
    def aside(self) -> str | None:
        """Why it says nothing of now, where that is not its windows' own reason: none has ended, or not lately."""
        if self.now is None or self.result is None or self.now.word in ("pass", "fail"):
            return None
        return None if self.now.reason == "; ".join(self.result.reasons[:3]) else self.now.reason


def _shown(service: Service, canary_id: str, result: CanaryResult | None) -> Shown:
    monitor = service.monitors.find(canary_id)
    now = of_canary(result, time.time()) if result is not None and result.active else None
    scenario = monitor.scenario if monitor is not None else result.scenario if result is not None else ""
    return Shown(canary_id, scenario, result, monitor, now)


def listed(service: Service) -> list[Shown]:
    """Those that go on first, then the newest; of those on the disk the newest MOST."""
    on_disk = {one.canary_id: one for one in service.canaries.glances()}
    ids = [*on_disk, *(one.id for one in service.monitors.listed if one.id not in on_disk)]
    found = [_shown(service, one, on_disk.get(one)) for one in sorted(ids, reverse=True)]
    return sorted(found, key=lambda one: not one.going)


@router.get("/canaries", summary="Canaries as a page", include_in_schema=False)
async def canaries_page(request: Request, service: ServiceOf) -> Response:
    found = await run_in_threadpool(listed, service)
    version = "_".join(one.version for one in found)
    return page(request, "canaries.html", canaries=found, version=version, every_s=MOST_EVERY_S, most=MOST)


@router.get("/canaries/new", summary="The form to watch a canary", include_in_schema=False)
async def new_canary(
    request: Request, service: ServiceOf, scenario: Annotated[str, Query(max_length=64)] = ""
) -> Response:
    if not scenario:
        async with service.reading:
            listed_ones = await run_in_threadpool(service.shelf.listed)
        names = [(one.name, one.description) for one in listed_ones if one.canary]
        return page(request, "watch.html", kept=None, scenarios=names)
    kept = await run_in_threadpool(kept_of, service, scenario)
    return await _form(request, service, kept, {})


@router.post("/canaries", summary="Watch the canary of the form", include_in_schema=False)
async def begin(request: Request, service: ServiceOf, who: Who) -> Response:
    form = await form_of(request)
    kept = await run_in_threadpool(kept_of, service, form.get("scenario", ""))
    for_s, problems = minutes_in(form.get("minutes", ""))
    if not problems:
        asked = _asked(kept, form, for_s)
        try:
            monitor = await started(service, who.name, request, asked)
            return RedirectResponse(f"/canaries/{monitor.id}", 303)
        except Problem as problem:
            if problem.status not in (409, 422, 503):
                raise
            problems = problem.problems or [problem.detail]
    return await _form(request, service, kept, form, problems, 422)


def _asked(kept: Kept, form: Mapping[str, str], for_s: float | None) -> CanaryStart:
    """Raises Problem 422 where no form of ours says this."""
    try:
        return CanaryStart(
            scenario=kept.name, arms=arms_in(form), dry_run=form.get("dry_run") == "yes", for_s=for_s
        )  # fmt: skip
    except ValidationError:
        raise Problem(
            422, "invalid-request", "the form is not as it should be: begin again at Watch a canary"
        ) from None


@router.get("/canaries/{canary_id}", summary="A canary as a page", include_in_schema=False)
async def canary_page(request: Request, service: ServiceOf, canary_id: CanaryId) -> Response:
    result = await run_in_threadpool(service.canaries.of_id, canary_id)
    one = _shown(service, canary_id, result)
    if one.result is None and one.monitor is None:
        raise not_found(f"canary {canary_id}")
    return await run_in_threadpool(_seen, request, service, one)


@router.post("/canaries/{canary_id}/stop", summary="End the canary's monitor", include_in_schema=False)
async def stop(service: ServiceOf, who: Who, canary_id: CanaryId) -> Response:
    await stop_canary(service, who, canary_id)
    return RedirectResponse(f"/canaries/{canary_id}", 303)


def _seen(request: Request, service: Service, one: Shown) -> Response:
    tables, drawing, problem = [], drawn_on_page([]), None
    every_s = LEAST_EVERY_S
    if one.result is not None:
        tables = canary_tables(one.result.model_dump(mode="json", by_alias=True))
        every_s = min(max(one.result.window_s / 10, LEAST_EVERY_S), MOST_EVERY_S)
        try:
            windows, older = read_windows(service.config.folders.runs / one.id, MOST_WINDOWS)
            drawing = drawn_on_page(canary_figures(windows, older=older))
        except (StorageError, KeyError, TypeError):
            problem = "The course of the windows (windows.jsonl) cannot be read."
    return page(request, "canary.html", one=one, canary=one.result, tables=tables, problem=problem,
                every_s=every_s if one.going else None, **drawing)  # fmt: skip


async def _form(
    request: Request,
    service: Service,
    kept: Kept,
    given: Mapping[str, str],
    problems: list[str] | None = None,
    status: int = 200,
) -> Response:
    async with service.reading:
        document = await run_in_threadpool(_document, kept)
    arms = document.get("arms")
    own = {str(name): keys for name, keys in arms.items()} if isinstance(arms, dict) else {}
    said = arms_in(dict(given))
    named = {name: keys.get("target") if isinstance(keys, dict) else "" for name, keys in own.items()}
    targets = {name: said.get(name) or target for name, target in named.items()}
    section = document.get("canary")
    keys = section if isinstance(section, dict) else {}
    return page(
        request, "watch.html", status, kept=kept, arms=targets, targets=service.targets.names, problems=problems or [],
        minutes=given.get("minutes", ""), dry_run=given.get("dry_run", "") == "yes" or keys.get("dry_run") is True,
        always_dry=keys.get("dry_run") is True, probes=isinstance(keys.get("probes"), dict),
        webhooks=len(keys["webhooks"]) if isinstance(keys.get("webhooks"), list) else 0,
        switch=keys.get("on_fail") == "switch",
    )  # fmt: skip


def _document(kept: Kept) -> dict[str, Any]:
    try:
        value = document_of(kept.data, f"{kept.name}.yaml").value
    except ScenarioError:
        return {}
    return value if isinstance(value, dict) else {}
