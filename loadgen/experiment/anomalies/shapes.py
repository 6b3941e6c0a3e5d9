"""What a body is, and what it says."""

from __future__ import annotations

from typing import Any

import orjson

from loadgen.drive import frame
from loadgen.experiment.anomalies.sending import Reply
from server_adapters.anomalies import Shape

_SHOWN_CHARS = 160


def shape_of(reply: Reply) -> tuple[Shape, str]:
    """The shape of the answer's body, and its error's message or first characters, not redacted."""
    if reply.status is None:
        return "none", ""
    body = bytes(reply.body)
    if not body.strip():
        return "empty", ""
    if "event-stream" in reply.content_type:
        return _stream(body)
    try:
        told = orjson.loads(body)
    except ValueError:
        return "text", body[:_SHOWN_CHARS].decode("utf-8", "replace")
    return _object(told)


def _object(told: Any) -> tuple[Shape, str]:
    if not isinstance(told, dict):
        return "other_json", str(told)[:_SHOWN_CHARS]
    if "choices" in told:
        return "completion", ""
    error = told.get("error")
    if isinstance(error, dict) or (isinstance(error, str) and error):
        return "error", str(error.get("message", error) if isinstance(error, dict) else error)[:_SHOWN_CHARS]
    if "detail" in told:
        return "detail", str(told["detail"])[:_SHOWN_CHARS]
    return "other_json", str(told)[:_SHOWN_CHARS]


def _stream(body: bytes) -> tuple[Shape, str]:
    for event in frame(body):
        try:
            told = orjson.loads(event.data)
        except ValueError:
            continue
        if isinstance(told, dict) and told.get("error"):
            return "stream_error", _object(told)[1]
    return "stream", ""
