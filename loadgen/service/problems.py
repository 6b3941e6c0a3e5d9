"""Errors as application/problem+json (RFC 9457), in our own words: no server's text, no stack, no secret."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from loadgen.redact import Redactor

MEDIA_TYPE = "application/problem+json"


class ProblemOut(BaseModel):
    """What is wrong, and what to do."""

    type: str = Field(description="urn of the kind of problem", examples=["urn:specload:problem:not-found"])
    title: str = Field(description="the kind in words", examples=["not found"])
    status: int = Field(examples=[404])
    detail: str = Field(description="what is wrong here", examples=["there is no run of this id"])
    problems: list[str] = Field(default_factory=list, description="each thing that is wrong, where there are several")


class Problem(Exception):
    """Ends a request. `kind`: short, lower case, with hyphens."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        problems: Sequence[str] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.problems = list(problems)
        self.headers = dict(headers or {})

    def masked(self, redact: Redactor) -> Problem:
        return Problem(self.status, self.kind, redact(self.detail), [redact(p) for p in self.problems], self.headers)

    def body(self) -> dict[str, Any]:
        return ProblemOut(
            type=f"urn:specload:problem:{self.kind}",
            title=self.kind.replace("-", " "),
            status=self.status,
            detail=_sendable(self.detail),
            problems=list(map(_sendable, self.problems)),
        ).model_dump()

    def response(self) -> JSONResponse:
        return JSONResponse(self.body(), self.status, headers=self.headers, media_type=MEDIA_TYPE)


def _sendable(text: str) -> str:
    """A key that was sent may be half of a surrogate pair."""
    return text.encode("utf-8", "replace").decode()


INTERNAL = Problem(500, "internal-error", "internal error of the service; see its log")


def not_found(what: str) -> Problem:
    return Problem(404, "not-found", f"there is no {what}")


def too_often(wait_s: float) -> Problem:
    seconds = max(1, round(wait_s + 0.5))
    return Problem(
        429, "too-many-requests", f"asked too often: wait {seconds} s", headers={"Retry-After": str(seconds)}
    )
