"""Who did what, for operators."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from loadgen.service.access import ServiceOf
from loadgen.service.api.audit import audit
from loadgen.service.api.base import router_of
from loadgen.service.pages.render import page

router = router_of("pages", prefix="")
PAGE = 100


@router.get("/audit", summary="The audit log as a page", include_in_schema=False)
async def audit_page(
    request: Request,
    service: ServiceOf,
    before: Annotated[int | None, Query(ge=1, le=2**53)] = None,
    who: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    found = await run_in_threadpool(audit, service, before, who.strip() or None, PAGE)
    older = None if found.next is None else "/audit?" + urlencode({"who": who, "before": found.next})
    return page(request, "audit.html", log=found, name=who, older=older, first=before is None)
