"""Runs: ask for, list, watch, stop, delete."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Header, Query, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from starlette.requests import Request

from loadgen.service.access import ServiceOf, Who, seen_of
from loadgen.service.api.base import RunId, router_of
from loadgen.service.api.models import RunOut, RunsOut, RunStart, StopOut
from loadgen.service.asking import ask_for
from loadgen.service.problems import Problem, not_found
from loadgen.service.registry import RunFilter, RunRow, RunState
from loadgen.service.runner.keeping import NotNow
from loadgen.service.state import Service
from loadgen.service.watching import Stream, settled

router = router_of("runs")
Key = Annotated[
    str | None,
    Header(
        min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$", alias="Idempotency-Key",
        description="of your choice; the same request with the same key is the same run",
    ),
]  # fmt: skip


@router.post("/runs", status_code=202, summary="Ask for a run", responses={202: {"description": "it is queued"}})
async def start_run(
    service: ServiceOf, who: Who, request: Request, asked: RunStart, response: Response, key: Key = None
) -> RunOut:
    """Checked and planned first: what cannot be run is refused with everything that is wrong. With an Idempotency-Key,
    the same request again gives the same run."""
    seen = seen_of(request)
    row, _ = await ask_for(service, who.name, asked, key)
    seen.subject = row.id
    seen.detail = f"{row.scenario} on {', '.join(f'{a}={t}' for a, t in row.arms.items())}"
    response.headers["Location"] = f"/api/v1/runs/{row.id}"
    return _out(row)


@router.get("/runs", summary="Runs, newest first")
def runs(
    service: ServiceOf,
    state: Annotated[list[RunState] | None, Query(description="repeatable; deleted runs only where asked for")] = None,
    scenario: Annotated[str | None, Query(max_length=64)] = None,
    target: Annotated[str | None, Query(max_length=64)] = None,
    started_by: Annotated[str | None, Query(max_length=64)] = None,
    verdict: Annotated[str | None, Query(max_length=16)] = None,
    before: Annotated[int | None, Query(ge=1, le=2**53, description="`next` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> RunsOut:
    rows = service.registry.runs.select(
        RunFilter(tuple(state or ()), scenario, target, started_by, verdict, before, limit + 1)
    )
    return RunsOut(runs=[_out(row) for row in rows[:limit]], next=rows[limit - 1].number if len(rows) > limit else None)


@router.get("/runs/{run_id}", summary="One run")
def run(service: ServiceOf, run_id: RunId) -> RunOut:
    return _out(row_of(service, run_id))


@router.post("/runs/{run_id}/stop", summary="Stop a run: drain, and cut the second time")
async def stop_run(service: ServiceOf, who: Who, run_id: RunId) -> StopOut:
    await run_of(service, run_id)
    try:
        return StopOut(id=run_id, how=await service.runner.stop(run_id, who.name))
    except NotNow as error:
        raise Problem(409, "not-now", str(error)) from None


@router.delete("/runs/{run_id}", summary="Delete the records of an ended run; it stays listed as deleted")
async def delete_run(service: ServiceOf, who: Who, run_id: RunId) -> RunOut:
    await run_of(service, run_id)
    try:
        return _out(await service.runner.delete(run_id, who.name))
    except NotNow as error:
        raise Problem(409, "not-now", str(error)) from None


@router.get("/runs/{run_id}/live", summary="What there is to know of a run now: its row, segment, looks")
async def live(service: ServiceOf, run_id: RunId) -> dict[str, object]:
    row, told = await settled(partial(row_of, service, run_id), service.runner.events)
    return told.snapshot(row.shown())


@router.get(
    "/runs/{run_id}/events",
    summary="Watch a run: server-sent events, taken up again after Last-Event-ID",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def events(
    service: ServiceOf,
    who: Who,
    run_id: RunId,
    last_event_id: Annotated[str | None, Header(max_length=64)] = None,
) -> StreamingResponse:
    service.watching.take(who.name)
    try:
        row, told = await settled(partial(row_of, service, run_id), service.runner.events)
        watcher = told.watch(last_event_id, row.shown())
    except BaseException:
        service.watching.leave(who.name)
        raise
    return Stream(told, watcher, partial(service.watching.leave, who.name))


async def run_of(service: Service, run_id: str) -> RunRow:
    """As `row_of`, from the service's loop: the database may be waited for."""
    return await run_in_threadpool(row_of, service, run_id)


def row_of(service: Service, run_id: str) -> RunRow:
    """Raises Problem 404."""
    row = service.registry.runs.find(run_id)
    if row is None:
        raise not_found(f"run {run_id}")
    return row


def _out(row: RunRow) -> RunOut:
    return RunOut(**row.shown())
