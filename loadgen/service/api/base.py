"""What all routes share: the way in, and how problems are described."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from fastapi.routing import APIRoute

from loadgen.service.access import authorize
from loadgen.service.problems import MEDIA_TYPE, ProblemOut
from loadgen.service.roles import API

_EXAMPLE = {
    "type": "urn:specload:problem:not-found",
    "title": "not found",
    "status": 404,
    "detail": "there is no run of this id",
    "problems": [],
}


class Authorized(APIRoute):
    """Who asks is known, and may, before a body is read: FastAPI's dependencies come after it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()

        async def authorized(request: Request) -> Response:
            await authorize(request)
            return await answer(request)

        return authorized


def router_of(tag: str, prefix: str = API) -> APIRouter:
    """Every route of it goes through `authorize`."""
    return APIRouter(
        prefix=prefix,
        tags=[tag],
        route_class=Authorized,
        responses={
            "default": {
                "description": "a problem, in our own words (RFC 9457)",
                "model": ProblemOut,
                "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemOut"}, "example": _EXAMPLE}},
            }
        },
    )


RunId = Annotated[
    str,
    Path(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$",
        description="id of the run",
        examples=["20261130T070600Z-quickstart-1a2b3c"],
    ),
]
ScenarioName = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", description="name of the scenario", examples=["quickstart"])
]


def example(value: Any) -> dict[str, Any]:
    """For `json_schema_extra`."""
    return {"examples": [value]}
