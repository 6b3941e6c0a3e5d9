"""Routers of all pages. Their rows in `roles.ACCESS` say who may look."""

from __future__ import annotations

from fastapi.routing import APIRouter

from loadgen.service.pages import assets, auditing, canaries, comparing, listing, running, starting, targets

#: `/runs/new` before `/runs/{run_id}`.
ROUTERS: tuple[APIRouter, ...] = (
    listing.router,
    starting.router,
    running.router,
    comparing.router,
    canaries.router,
    targets.router,
    auditing.router,
    assets.router,
)
