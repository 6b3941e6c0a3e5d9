"""What runs came to: summary, verdict, report, comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import orjson
from fastapi import Query, Response
from fastapi.concurrency import run_in_threadpool

from loadgen.errors import ScenarioError, SpecloadError
from loadgen.service.access import ServiceOf
from loadgen.service.api.base import RunId, router_of
from loadgen.service.api.models import VerdictOut
from loadgen.service.api.runs import run_of
from loadgen.service.background import Busy, Job, JobFailed
from loadgen.service.jobs import compared, recomputed
from loadgen.service.problems import Problem
from loadgen.service.registry import RunRow
from loadgen.service.security import REPORT_POLICY
from loadgen.service.state import Service, log
from loadgen.service.words import why_no_validity

router = router_of("results")
_WORDS = ("pass", "fail", "inconclusive")


@router.get(
    "/runs/{run_id}/summary",
    summary="summary.json of an ended run",
    response_class=Response,
    responses={200: {"content": {"application/json": {"schema": {"type": "object"}}}}},
)
async def summary(service: ServiceOf, run_id: RunId) -> Response:
    return Response(await _file(service, run_id, "summary.json"), media_type="application/json")


@router.get("/runs/{run_id}/verdict", summary="The verdict, for pipelines: always 200")
async def verdict(service: ServiceOf, run_id: RunId) -> VerdictOut:
    row = await run_of(service, run_id)
    details = None if row.path is None else await run_in_threadpool(_json, Path(row.path) / "verdict.json")
    word = row.verdict if row.verdict in _WORDS else None
    return VerdictOut(
        run_id=row.id, state=row.state, verdict=cast(Any, word), reason=row.reason or _why_none(row, word),
        validity=row.validity, validity_reason=_why_no_validity(row), exit_code=row.exit_code, details=details,
    )  # fmt: skip


@router.get(
    "/runs/{run_id}/report.html",
    summary="The report as one page",
    response_class=Response,
    responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}}},
)
async def report(service: ServiceOf, run_id: RunId) -> Response:
    """A page of its own: it is sandboxed, reaches nothing, and opens from disk as well."""
    page = await _file(service, run_id, "report.html")
    headers = {"Content-Security-Policy": REPORT_POLICY}
    return Response(page, media_type="text/html", headers=headers)


@router.get("/compare", summary="Two runs made apart, the second judged against the first")
async def compare(
    service: ServiceOf,
    first: Annotated[str, Query(max_length=128, description="id of the run to compare with")],
    second: Annotated[str, Query(max_length=128, description="id of the run that is judged")],
) -> dict[str, Any]:
    paths = [str(_path(await run_of(service, run_id))) for run_id in (first, second)]
    found: dict[str, Any] = await _worked(service, compared, *paths)
    return found


async def _file(service: Service, run_id: str, name: str) -> bytes:
    """A file of the run directory; made from the records where it is not there. Raises Problem."""
    file = _path(await run_of(service, run_id)) / name
    if not await run_in_threadpool(file.exists):
        await _worked(service, recomputed, str(file.parent))
    try:
        return await run_in_threadpool(file.read_bytes)
    except OSError as error:
        log.error("%s cannot be read: %s", file, error.strerror)
        raise Problem(500, "storage", "the run's records cannot be read; see the service's log") from None


def _path(row: RunRow) -> Path:
    if not row.state.over:
        raise Problem(409, "not-now", f"the run is {row.state.value}: it has no results yet")
    if row.path is None:
        raise Problem(
            404, "not-found", f"the run is {row.state.value} and has no records: {row.reason or 'none were made'}"
        )
    return Path(row.path)


async def _worked(service: Service, job: Job, *arguments: Any) -> Any:
    try:
        return await service.background.run(job, *arguments)
    except ScenarioError as error:
        raise Problem(422, "not-comparable", "the runs cannot be compared", error.problems) from None
    except SpecloadError as error:
        log.error("%s", service.redact(str(error)))
        raise Problem(500, "storage", "the run's records cannot be read; see the service's log") from None
    except Busy:
        raise Problem(503, "busy", "too much is being computed: try again", headers={"Retry-After": "10"}) from None
    except JobFailed as error:
        log.error("%s", service.redact(str(error)))
        raise Problem(500, "internal-error", "the numbers cannot be computed; see the service's log") from None


def _why_none(row: RunRow, word: str | None) -> str | None:
    if word is not None:
        return None
    return "nothing was to be judged" if row.state.over else f"the run is {row.state.value}"


def _why_no_validity(row: RunRow) -> str | None:
    known = row.state.over or row.validity is not None
    return why_no_validity(row.kind, row.validity) if known else f"the run is {row.state.value}"


def _json(file: Path) -> dict[str, Any] | None:
    try:
        found = orjson.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
