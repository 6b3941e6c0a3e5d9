"""One run: live while it waits or runs, its report afterwards; stopping and deleting it."""

from __future__ import annotations

from pathlib import Path

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse

from loadgen.service.access import ServiceOf, Who
from loadgen.service.api.base import RunId, router_of
from loadgen.service.api.runs import delete_run, run_of, stop_run
from loadgen.service.pages.charts import CHARTS
from loadgen.service.pages.render import page
from loadgen.service.registry import RunFilter, RunRow, RunState
from loadgen.service.state import Service

router = router_of("pages", prefix="")
#: Earlier runs of a scenario that are offered to compare with.
MOST_OTHERS = 20


@router.get("/runs/{run_id}", summary="A run as a page", include_in_schema=False)
async def run_page(request: Request, service: ServiceOf, run_id: RunId) -> Response:
    row = await run_of(service, run_id)
    if not row.state.over:
        return await _live(request, service, row)
    missing = await run_in_threadpool(_missing, row)
    others = await run_in_threadpool(service.registry.runs.select, RunFilter(scenario=row.scenario, limit=MOST_OTHERS))
    comparable = [other for other in others if other.id != row.id and other.state.over and other.path is not None]
    return page(request, "run.html", run=row, missing=missing, others=comparable)


@router.get("/runs/{run_id}/live", summary="A run as it goes, or went", include_in_schema=False)
async def live_page(request: Request, service: ServiceOf, run_id: RunId) -> Response:
    return await _live(request, service, await run_of(service, run_id))


@router.post("/runs/{run_id}/stop", summary="Stop the run", include_in_schema=False)
async def stop(service: ServiceOf, who: Who, run_id: RunId) -> Response:
    await stop_run(service, who, run_id)
    return RedirectResponse(f"/runs/{run_id}", 303)


@router.post("/runs/{run_id}/delete", summary="Delete the run's records", include_in_schema=False)
async def delete(service: ServiceOf, who: Who, run_id: RunId) -> Response:
    await delete_run(service, who, run_id)
    return RedirectResponse(f"/runs/{run_id}", 303)


async def _live(request: Request, service: Service, row: RunRow) -> Response:
    active = service.runner.active.get(row.id)
    queued = await run_in_threadpool(service.registry.runs.in_state, RunState.QUEUED)
    ahead = [one for one in queued if one.number < row.number]
    return page(
        request, "live.html", run=row, charts=CHARTS, stopping=active is not None and active.stopped_by is not None,
        ahead=len(ahead), queued=row.state is RunState.QUEUED,
    )  # fmt: skip


def _missing(row: RunRow) -> str | None:
    """Why there is no report; None: there is one, or it can be made."""
    if row.state is RunState.DELETED:
        return "Its records were deleted; what is listed here stays."
    if row.path is None:
        return "It has no records: no load was driven."
    if not (Path(row.path) / "manifest.json").is_file():
        return "Its records are not on the disk any more: the run directory was removed outside of the service."
    return None
