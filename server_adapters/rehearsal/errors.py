"""Errors as vLLM's front-end answers them: statuses, types and the shapes of their bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError

_SHOWN_CHARS = 200
_SHOWN_ERRORS = 10
_BRANCHES = frozenset({"str", "int", "float", "bool"})  # what pydantic calls the members of a union


class ApiError(Exception):
    """An answer with an error body. `kind` is the body's `type`."""

    def __init__(
        self,
        message: str,
        status: int = 400,
        kind: str = "BadRequestError",
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.param = status, kind, param
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """The JSON object."""
        return error_object(str(self), self.kind, self.param, self.status)


def error_object(message: str, kind: str, param: str | None, code: int) -> dict[str, Any]:
    """{"error": …} as in HTTP bodies and inside streams."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """JSON as bytes, without pydantic."""
    return Response(orjson.dumps(content), status, dict(headers or {}), "application/json")


def unknown_model(asked: str, served: str) -> ApiError:
    """404 for a model that is not served."""
    return ApiError(f"The model `{asked}` does not exist. Valid aliases: {served}.", 404, "NotFoundError", "model")


def queue_full(reason: str) -> ApiError:
    """503 of a full queue."""
    return ApiError(f"The server is at capacity ({reason}); try again later.", 503, "Service Unavailable")


def engine_dead(message: str) -> ApiError:
    """500 of a dead engine."""
    return ApiError(message, 500, "InternalServerError")


def not_supported(what: str, param: str) -> ApiError:
    """400 for what a vLLM server can do and the rehearsal engine cannot."""
    return ApiError(f"{what} is not supported by the rehearsal engine.", param=param)


async def refuse_other_media(request: Request) -> None:
    """ApiError for a body that is not called JSON; parameters of the type are no matter."""
    media_type = request.headers.get("content-type", "").lower().partition(";")[0].strip()
    if media_type != "application/json":
        message = "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed"
        raise ApiError(message, kind="Bad Request")


async def on_api_error(request: Request, error: Exception) -> Response:
    """Handler of ApiError."""
    assert isinstance(error, ApiError)
    return json_response(error.body(), error.status, error.headers)


async def on_validation_error(request: Request, error: Exception) -> Response:
    """Handler of wrong types, missing fields and broken JSON: 400, not FastAPI's 422."""
    assert isinstance(error, RequestValidationError)
    found = list(error.errors())
    label = "error" if len(found) == 1 else "errors"
    lines = [f"{len(found)} validation {label}:", *(f"  {_described(e)}" for e in found[:_SHOWN_ERRORS])]
    param = _path(found[0]["loc"]) if found else None
    return json_response(error_object("\n".join(lines), "Bad Request", param, 400), 400)


def _path(location: tuple[Any, ...]) -> str:
    """Dotted path of a field, without the names of union branches."""
    parts = (part for part in location if isinstance(part, int) or (part.isidentifier() and part not in _BRANCHES))
    return ".".join(map(str, parts))


def _described(error: Mapping[str, Any]) -> str:
    value = error.get("input")
    shown = f"<{type(value).__name__} of {len(value)} items>" if isinstance(value, list | dict) else value
    if isinstance(shown, str):
        shown = shown[:_SHOWN_CHARS]
    fields = {"type": error["type"], "loc": _path(error["loc"]), "msg": error["msg"], "input": shown}
    if error.get("ctx"):
        fields["ctx"] = {key: str(text) for key, text in error["ctx"].items()}
    return str(fields)
