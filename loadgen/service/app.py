"""The application: routes, problems, and the guard around them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute, APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from loadgen.service.api import audit, canaries, hooks, login, operations, results, runs, scenarios, targets
from loadgen.service.pages import routes as pages
from loadgen.service.pages.people import ForPeople
from loadgen.service.problems import INTERNAL, Problem
from loadgen.service.security import App, Guard, TooLarge, too_large
from loadgen.service.state import Service

#: Validation errors of one request that are told.
MOST_PROBLEMS = 50
ROUTERS: tuple[APIRouter, ...] = (
    scenarios.router,
    targets.router,
    runs.router,
    results.router,
    canaries.router,
    hooks.router,
    audit.router,
    operations.router,
    login.router,
    *pages.ROUTERS,
)
_KINDS = {404: ("not-found", "there is nothing at this path"), 405: ("method", "this method is not for this path")}


def make_app(service: Service) -> FastAPI:
    """To be served through `guarded`. Starts and closes the service."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.close()

    app = FastAPI(lifespan=lifespan, openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.service = service
    for router in ROUTERS:
        app.include_router(router)
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _fault)
    return app


def guarded(app: FastAPI) -> App:
    """Problems are pages to whoever looks with a browser, and JSON to all others."""
    return ForPeople(Guard(app, app.state.service))


def routes() -> Iterator[APIRoute]:
    """Every route there is."""
    for router in ROUTERS:
        for route in router.routes:
            assert isinstance(route, APIRoute)
            yield route


async def _fault(_request: Request, _error: Exception) -> Response:
    """The guard, which gets the error as well, writes it down."""
    return INTERNAL.response()


async def _problem(request: Request, error: Exception) -> Response:
    """A secret that was sent in the wrong place does not come back."""
    assert isinstance(error, Problem)
    return error.masked(request.app.state.service.redact).response()


async def _gone(_request: Request, _error: Exception) -> Response:
    """Nobody reads it: it is for the count and the audit log."""
    return Problem(408, "too-slow", "the request did not come whole").response()


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error, TooLarge):
        return too_large(error.most).response()
    if isinstance(error.__cause__, ClientDisconnect):  # the framework takes it for a body that cannot be read
        return await _gone(request, error.__cause__)
    kind, detail = _KINDS.get(error.status_code, ("invalid-request", "the request cannot be read"))
    return Problem(error.status_code, kind, detail, headers=dict(error.headers or {})).response()


async def _invalid(request: Request, error: Exception) -> Response:
    """Where and what; never the value: it may be a secret."""
    assert isinstance(error, RequestValidationError)
    found = [f"{'.'.join(str(part) for part in e['loc'])}: {e['msg']}" for e in error.errors()]
    if "json" not in request.headers.get("content-type", "") and any(e["loc"] == ("body",) for e in error.errors()):
        found = ["body: is not said to be JSON: send the header Content-Type: application/json"]
    return Problem(422, "invalid-request", "the request is not as it should be", found[:MOST_PROBLEMS]).response()
