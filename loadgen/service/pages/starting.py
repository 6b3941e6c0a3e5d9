"""Starting a run: choose a scenario, say on which targets, see what it will ask for, confirm."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from fastapi import Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse
from pydantic import ValidationError

from loadgen.errors import ScenarioError
from loadgen.report import Row, Table, count, seconds, sparkline
from loadgen.scenario import document_of
from loadgen.service.access import ServiceOf, Who, form_of
from loadgen.service.api.base import router_of
from loadgen.service.api.models import RunStart
from loadgen.service.api.runs import start_run
from loadgen.service.api.scenarios import kept_of
from loadgen.service.offers import Offer, offer
from loadgen.service.pages.fields import arms_in, fields_of, lines_of, minutes_in, overrides_in
from loadgen.service.pages.render import page
from loadgen.service.problems import Problem
from loadgen.service.scenarios import Kept
from loadgen.service.state import Service

router = router_of("pages", prefix="")
CHANGED = "the scenario was changed while you looked at this: look again at what it asks for now"


@dataclass(frozen=True)
class Given:
    """What a form says so far."""

    arms: dict[str, str]
    overrides: dict[str, Any]
    time_budget_s: float | None

    @property
    def minutes(self) -> str:
        return "" if self.time_budget_s is None else f"{self.time_budget_s / 60:g}"


@router.get("/runs/new", summary="The form to start a run", include_in_schema=False)
async def new_run(
    request: Request,
    service: ServiceOf,
    scenario: Annotated[str, Query(max_length=64)] = "",
    again: Annotated[str, Query(max_length=128, description="run whose targets and changes are taken over")] = "",
) -> Response:
    if not scenario:
        listed = await run_in_threadpool(service.shelf.listed)
        return page(request, "start.html", scenarios=listed)
    kept = await run_in_threadpool(kept_of, service, scenario)
    row = await run_in_threadpool(service.registry.runs.find, again) if again else None
    given = Given({}, {}, None) if row is None else Given(row.arms, row.overrides, row.time_budget_s)
    return await _form(request, service, kept, given)


@router.post("/runs/new", summary="What the run will ask for", include_in_schema=False)
async def plan_run(request: Request, service: ServiceOf) -> Response:
    """Nothing is sent to a target; problems stand above the form."""
    form = await form_of(request)
    kept = await run_in_threadpool(kept_of, service, form.get("scenario", ""))
    overrides, problems = overrides_in(form)
    budget_s, why = minutes_in(form.get("minutes", ""))
    given = Given(arms_in(form), overrides, budget_s)
    problems += why
    if problems:
        return await _form(request, service, kept, given, problems, 422)
    return await _planned(request, service, kept, given)


@router.post("/runs", summary="Start the run of the form", include_in_schema=False)
async def confirm_run(request: Request, service: ServiceOf, who: Who) -> Response:
    """Sent twice, it is one run."""
    form = await form_of(request)
    kept = await run_in_threadpool(kept_of, service, form.get("scenario", ""))
    asked = _asked(form)
    given = Given(asked.arms, asked.overrides, asked.time_budget_s)
    if kept.sha256 != form.get("sha256"):
        return await _planned(request, service, kept, given, [CHANGED])
    try:
        run = await start_run(service, who, request, asked, Response(), form.get("once") or None)
    except Problem as problem:
        if problem.status not in (422, 429, 503):
            raise
        problems = [problem.detail, *problem.problems]
        return await _form(request, service, kept, given, problems, problem.status)
    return RedirectResponse(f"/runs/{run.id}", 303)


def _asked(form: dict[str, str]) -> RunStart:
    """Of the hidden fields, which this service wrote. Raises Problem 422."""
    try:
        values = {key: orjson.loads(form.get(key, "null")) for key in ("arms", "overrides", "time_budget_s")}
        return RunStart.model_validate({"scenario": form.get("scenario"), **values})
    except (ValueError, ValidationError):
        raise Problem(422, "invalid-request", "the form is not as it should be: begin again at Start a run") from None


async def _form(
    request: Request, service: Service, kept: Kept, given: Given, problems: list[str] | None = None, status: int = 200
) -> Response:
    try:
        async with service.reading:
            document = (await run_in_threadpool(document_of, kept.data, f"{kept.name}.yaml")).value
    except ScenarioError as error:
        document, problems = {}, [*(problems or []), *map(service.redact, error.problems)]
    arms = document.get("arms")
    own = {str(name): keys for name, keys in arms.items()} if isinstance(arms, dict) else {}
    targets = {name: given.arms.get(name) or _target(keys) for name, keys in own.items()}
    description = document.get("description")
    return page(
        request, "form.html", status, kept=kept, arms={**targets, **given.arms}, targets=service.targets.names,
        description=description if isinstance(description, str) else "", fields=fields_of(document, given.overrides),
        lines=lines_of(document, given.overrides), minutes=given.minutes, problems=problems or [],
    )  # fmt: skip


def _target(keys: Any) -> str:
    found = keys.get("target") if isinstance(keys, dict) else None
    return found if isinstance(found, str) else ""


async def _planned(
    request: Request, service: Service, kept: Kept, given: Given, notes: list[str] | None = None
) -> Response:
    try:
        found = await offer(service, kept, given.arms, given.overrides, given.time_budget_s)
    except Problem as problem:
        if problem.status != 422:
            raise
        return await _form(request, service, kept, given, problem.problems or [problem.detail], 422)
    busy = {t: run.id for run in service.runner.active.values() for t in run.targets if t in found.arms.values()}
    return page(
        request, "plan.html", kept=kept, given=given, offer=found, table=stages_table(found), busy=busy,
        notes=[*(notes or []), *found.plan["notes"], *found.plan["warnings"]], once=secrets.token_urlsafe(16),
        asked={key: orjson.dumps(value).decode() for key, value in _hidden(found, given).items()},
    )  # fmt: skip


def _hidden(found: Offer, given: Given) -> dict[str, Any]:
    return {"arms": found.arms, "overrides": given.overrides, "time_budget_s": given.time_budget_s}


def stages_table(found: Offer) -> Table:
    rows = []
    for stage in found.plan["stages"]:
        values, length = stage["values"], stage["seconds"]
        low, high = f"{min(values, default=0.0):.3g}", f"{max(values, default=0.0):.3g}"
        level = high if low == high else f"{low} to {high}"
        rows.append(
            Row(
                [
                    stage["name"], sparkline(values, low=0), f"{level} {stage['unit']}",
                    seconds(length) if length else "by cases",
                    "by time" if stage["requests"] is None else count(stage["requests"]),
                ]
            )
        )  # fmt: skip
    return Table("Planned load, per arm and repeat", ("stage", "over time", "load", "length", "requests"), rows, 2)
