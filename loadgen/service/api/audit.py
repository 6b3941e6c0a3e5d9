"""Who did what, and who asks."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import Query

from loadgen.service.access import ServiceOf, Who
from loadgen.service.api.base import router_of
from loadgen.service.api.models import AuditEntryOut, AuditOut, MeOut

router = router_of("audit")


@router.get("/audit", summary="The audit log, newest first")
def audit(
    service: ServiceOf,
    before: Annotated[int | None, Query(ge=1, le=2**53)] = None,
    who: Annotated[str | None, Query(max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> AuditOut:
    log = service.registry.audit
    rows = log.select(before=before, who=who, limit=limit + 1)
    state = log.state()
    return AuditOut(
        entries=[AuditEntryOut(**asdict(row)) for row in rows[:limit]],
        next=rows[limit - 1].number if len(rows) > limit else None,
        head=log.head(),
        verified=state.verified,
        broken_at=state.broken_at,
    )


@router.get("/me", summary="Who I am")
def me(who: Who) -> MeOut:
    return MeOut(name=who.name, role=who.role.value)
