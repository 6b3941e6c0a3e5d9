"""The list of runs: filters, pages, and what is going on."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse

from loadgen.service.access import ServiceOf
from loadgen.service.api.base import router_of
from loadgen.service.api.runs import runs
from loadgen.service.pages.canaries import listed
from loadgen.service.pages.render import page
from loadgen.service.registry import RunState
from loadgen.service.state import Service

router = router_of("pages", prefix="")
#: Runs of one page, and canaries beside them: those that go on, else the newest.
PAGE, CANARIES = 50, 5
VERDICTS = ("pass", "fail", "inconclusive")


@router.get("/", summary="Home", include_in_schema=False)
def home() -> Response:
    return RedirectResponse("/runs", 303)


@router.get("/runs", summary="Runs as a page", include_in_schema=False)
async def runs_page(
    request: Request,
    service: ServiceOf,
    state: Annotated[str, Query(max_length=16)] = "",
    scenario: Annotated[str, Query(max_length=64)] = "",
    target: Annotated[str, Query(max_length=64)] = "",
    verdict: Annotated[str, Query(max_length=16)] = "",
    before: Annotated[int | None, Query(ge=1, le=2**53)] = None,
) -> Response:
    """An empty filter is none; one that is no state lists nothing."""
    states = [one for one in RunState if one.value == state]
    chosen = {"state": state, "scenario": scenario.strip(), "target": target, "verdict": verdict}
    found = None
    if states or not state:
        found = await run_in_threadpool(
            runs,
            service,
            states or None,
            chosen["scenario"] or None,
            target or None,
            None,
            verdict or None,
            before,
            PAGE,
        )
    counts = await run_in_threadpool(service.registry.runs.count)
    plain = before is None and not any(chosen.values())
    watched = (await run_in_threadpool(listed, service))[:CANARIES] if plain else []
    return page(
        request, "runs.html", runs=found.runs if found else [], chosen=chosen, counts=counts, first=before is None,
        filtered=any(chosen.values()), older=_older(chosen, found.next if found else None), newest=_link(chosen),
        states=list(RunState), verdicts=VERDICTS, targets=service.targets.names,
        canaries=watched, scenarios=await run_in_threadpool(_scenarios, service),
    )  # fmt: skip


def _scenarios(service: Service) -> list[str]:
    return [name for name, _, _ in service.shelf.names()]


def _older(chosen: dict[str, str], next_: int | None) -> str | None:
    return None if next_ is None else _link({**chosen, "before": str(next_)})


def _link(query: dict[str, str]) -> str:
    text = urlencode({key: value for key, value in query.items() if value})
    return f"/runs?{text}" if text else "/runs"
