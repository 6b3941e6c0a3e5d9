"""Two runs made apart, side by side."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from loadgen.analyze import RunsCompared
from loadgen.report import compared_figures, compared_tables, drawn_on_page, threshold_table
from loadgen.service.access import ServiceOf
from loadgen.service.api.base import router_of
from loadgen.service.api.results import compare
from loadgen.service.pages.render import page
from loadgen.service.problems import Problem
from loadgen.service.registry import RunFilter, RunRow
from loadgen.service.state import Service

router = router_of("pages", prefix="")
#: Runs that are offered, the newest.
MOST_OFFERED = 100
Ids = Annotated[list[str] | None, Query(max_length=20, description="two runs as chosen in the list")]
Id = Annotated[str, Query(max_length=128)]


@router.get("/compare", summary="Two runs compared, as a page", include_in_schema=False)
async def compare_page(
    request: Request, service: ServiceOf, run: Ids = None, first: Id = "", second: Id = ""
) -> Response:
    """Of two runs chosen in the list, the earlier is the first."""
    chosen = [one for one in (run or []) if one] or [one for one in (first.strip(), second.strip()) if one]
    if not chosen:
        return await _choose(request, service)
    rows = [await run_in_threadpool(service.registry.runs.find, run_id) for run_id in chosen]
    known = [row for row in rows if row is not None]
    unknown = [run_id[:128] for run_id, row in zip(chosen, rows, strict=True) if row is None]
    if unknown or len(known) != 2 or known[0].id == known[1].id:
        said = [f"there is no run {run_id}" for run_id in unknown] or [f"choose two runs, not {len(known)}"]
        return await _choose(request, service, known[:2], said, 422)
    one, other = sorted(known, key=lambda row: row.number) if run else known
    try:
        found = await compare(service, one.id, other.id)
    except Problem as problem:
        if problem.status not in (404, 409, 422):
            raise
        return await _choose(request, service, [one, other], problem.problems or [problem.detail], problem.status)
    return await run_in_threadpool(_compared, request, one, other, found)


def _compared(request: Request, one: RunRow, other: RunRow, found: dict[str, Any]) -> Response:
    runs = RunsCompared.model_validate(found["comparison"])
    verdict = found["verdict"]
    return page(
        request, "compare.html", one=one, other=other, runs=runs, verdict=verdict, tables=compared_tables(runs),
        thresholds=threshold_table(verdict), **drawn_on_page(compared_figures(runs)),
    )  # fmt: skip


async def _choose(
    request: Request,
    service: Service,
    chosen: list[RunRow] | None = None,
    problems: list[str] | None = None,
    status: int = 200,
) -> Response:
    rows = await run_in_threadpool(service.registry.runs.select, RunFilter(limit=MOST_OFFERED))
    offered = [row for row in rows if row.state.over and row.path is not None]
    ids = [row.id for row in chosen or []]
    return page(
        request, "choose.html", status, offered=offered, first=ids[0] if ids else "", problems=problems or [],
        second=ids[1] if len(ids) > 1 else "",
    )  # fmt: skip
