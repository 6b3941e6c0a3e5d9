"""Requests as bytes, well formed but for what an anomaly changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from server_adapters.anomalies.types import Await, Script, Send, Setting, Step
from server_adapters.base import Endpoint

PATHS: Mapping[Endpoint, str] = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
#: Tokens of an answer that only has to come.
FEW = 4
#: and of one that we leave: long enough that it would be seen to go on
MANY = 2000


def head(
    setting: Setting,
    length: int | None,
    *,
    endpoint: Endpoint | None = None,
    start: str | None = None,
    content_type: str | None = "application/json",
    extra: tuple[str, ...] = (),
) -> bytes:
    """Request line and headers. `length` None: no content-length. `start`: the request line, of a POST to the
    endpoint where it is None. `extra`: further header lines."""
    where = f"{setting.path}{PATHS[endpoint or setting.endpoint]}"
    lines = [start or f"POST {where} HTTP/1.1", f"host: {setting.host}", "connection: close"]
    lines += [f"{name}: {value}" for name, value in setting.headers.items()]
    lines += [] if content_type is None else [f"content-type: {content_type}"]
    lines += [] if length is None else [f"content-length: {length}"]
    return ("\r\n".join((*lines, *extra)) + "\r\n\r\n").encode("latin-1", "surrogateescape")


def body_of(setting: Setting, changes: Mapping[str, Any] | None = None, *, endpoint: Endpoint | None = None,
            leave_out: tuple[str, ...] = ()) -> dict[str, Any]:  # fmt: skip
    """A small good request with some keys changed or left out."""
    text = f"{setting.marker}: count from one to ten, and say nothing else."
    chat = (endpoint or setting.endpoint) == "chat"
    asked: dict[str, Any] = {"model": setting.model}
    asked |= {"messages": [{"role": "user", "content": text}]} if chat else {"prompt": text}
    asked |= {"max_tokens": FEW, "temperature": 0.0, "stream": False}
    return {key: value for key, value in {**asked, **(changes or {})}.items() if key not in leave_out}


def encoded(body: Any) -> bytes:
    """JSON as Python has it: NaN and lone surrogates pass."""
    return json.dumps(body, ensure_ascii=True).encode()


def posted(setting: Setting, data: bytes, *, endpoint: Endpoint | None = None, **how: Any) -> Script:
    """One request with this body, and its whole answer."""
    return answered(head(setting, len(data), endpoint=endpoint, **how) + data)


def asked(setting: Setting, changes: Mapping[str, Any], *, endpoint: Endpoint | None = None, **how: Any) -> Script:
    """A small good request with some keys changed."""
    return posted(setting, encoded(body_of(setting, changes, endpoint=endpoint)), endpoint=endpoint, **how)


def answered(data: bytes, *then: Step) -> Script:
    return Script((Send(data), *then, Await("end")))


def stream_of(setting: Setting, tokens: int = MANY) -> bytes:
    """A good request for a long stream."""
    most = tokens if setting.max_model_len is None else max(min(tokens, setting.max_model_len - 200), 16)
    changes: dict[str, Any] = {"stream": True, "max_tokens": most}
    changes |= {} if setting.adapter == "openai" else {"ignore_eos": True}
    data = encoded(body_of(setting, changes, endpoint=setting.endpoint))
    return head(setting, len(data)) + data
