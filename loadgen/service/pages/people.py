"""Problems as pages: whoever looks with a browser reads what went wrong and where to go, not JSON."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any
from urllib.parse import quote

import orjson

from loadgen.service.pages.render import HEADERS, html
from loadgen.service.problems import MEDIA_TYPE
from loadgen.service.roles import API
from loadgen.service.security import KEY, App, Receive, Scope, Seen, Send

#: For machines, whoever asks.
_MACHINES = (f"{API}/", "/metrics", "/sd", "/health", "/ready", "/assets/")
_OF_JSON = {b"content-type", b"content-length", b"www-authenticate"}
_REPLACED = {*_OF_JSON, *(name.lower().encode() for name in HEADERS)}
_TITLES = {
    401: "Log in first",
    403: "Not allowed",
    404: "Nothing is here",
    405: "Not this way",
    409: "Not now",
    413: "Too much at once",
    421: "Wrong address",
    422: "This cannot be done as it is",
    429: "Too often",
    503: "Not at the moment",
}
_WHAT_TO_DO = {
    "csrf": "The form was too old, or did not come from a page of this service. Go back, load the page again, repeat.",
}
Message = MutableMapping[str, Any]


class ForPeople:
    """Around the guard. Everything but problems passes through as it is."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not wants_page(scope):
            await self._app(scope, receive, send)
            return
        held: list[Message] = []

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start" and _is_problem(message):
                held.append(message)
            elif held and message["type"] == "http.response.body":
                held.append(message)
                if not message.get("more_body", False):
                    for one in _as_page(scope, held):
                        await send(one)
            else:
                await send(message)

        await self._app(scope, receive, told)


def wants_page(scope: Scope) -> bool:
    if scope["path"].startswith(_MACHINES) or scope["method"] not in ("GET", "POST"):
        return False
    return any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])


def _is_problem(start: Message) -> bool:
    return any(n.lower() == b"content-type" and v.startswith(MEDIA_TYPE.encode()) for n, v in start["headers"])


def _as_page(scope: Scope, held: list[Message]) -> list[Message]:
    start, *bodies = held
    kept = [(n, v) for n, v in start["headers"] if n.lower() not in _REPLACED]
    if start["status"] == 401:
        plain = [(n, v) for n, v in start["headers"] if n.lower() not in _OF_JSON]
        headers = [*plain, (b"location", _login(scope).encode()), (b"content-length", b"0")]
        return [{**start, "status": 303, "headers": headers}, {"type": "http.response.body", "body": b""}]
    problem = orjson.loads(b"".join(one.get("body", b"") for one in bodies))
    page = _page(scope, start["status"], problem).encode()
    ours = [(n.lower().encode(), v.encode()) for n, v in HEADERS.items()]
    size = (b"content-length", str(len(page)).encode())
    headers = [*kept, *ours, (b"content-type", b"text/html; charset=utf-8"), size]
    return [{**start, "headers": headers}, {"type": "http.response.body", "body": page}]


def _login(scope: Scope) -> str:
    """Back to where one wanted to go; a form that was sent is not sent again."""
    query = scope["query_string"].decode("latin-1")
    path = scope["path"] + (f"?{query}" if query else "")
    return f"/login?next={quote(path, safe='')}" if scope["method"] == "GET" and path != "/" else "/login"


def _page(scope: Scope, status: int, problem: dict[str, Any]) -> str:
    seen = scope.get(KEY)
    who = seen.identity if isinstance(seen, Seen) else None
    kind = str(problem.get("title", "")).replace(" ", "-")
    detail = str(problem.get("detail", ""))
    return html(
        "problem.html", scope["path"], who, title=_TITLES.get(status, "Something went wrong"), status=status,
        detail=detail[:1].upper() + detail[1:], problems=problem.get("problems") or [], advice=_WHAT_TO_DO.get(kind),
    )  # fmt: skip
