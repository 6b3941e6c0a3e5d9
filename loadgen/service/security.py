"""Around every request: under which name it came, how large it is, what the answer forbids browsers; the audit log."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from starlette.exceptions import HTTPException

from loadgen.redact import one_line
from loadgen.service.limits import source_of
from loadgen.service.problems import INTERNAL, Problem
from loadgen.service.state import Service
from loadgen.service.tokens import Identity

log = logging.getLogger("specload.service")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
KEY = "specload"
#: Of a body of somebody unknown: a token, and where to go.
OPEN_BODY_BYTES = 16 << 10
API_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
#: A report is a page of its own that runs its own script (by its hash, in the page itself), and can reach nothing.
#: Only the service's own pages frame it.
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)


@dataclass
class Seen:
    """What is known of a request, for counting and the audit log. `route` None: there is none. `subject`, `detail`: of
    what was done, where the route says it."""

    identity: Identity | None = None
    route: str | None = None
    address: str | None = None
    subject: str | None = None
    detail: str | None = None
    audited: bool = False
    #: a token was shown: what came of it is counted already
    compared: bool = False
    #: a token or session was shown, is right, and may do this
    known: bool = False


class TooLarge(HTTPException):
    """The body is larger than allowed. An HTTPException, or whoever reads the body would take it for a broken one."""

    def __init__(self, most: int) -> None:
        super().__init__(413)
        self.most = most


class Guard:
    """The outermost layer. Nothing that goes wrong inside gets out but as a problem."""

    def __init__(self, app: App, service: Service) -> None:
        self._app = app
        self._service = service
        self._hosts = _hostnames(service)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        await _Request(self, scope, receive, send).answer()

    @property
    def service(self) -> Service:
        return self._service

    @property
    def app(self) -> App:
        return self._app

    def host_is_ours(self, scope: Scope) -> bool:
        """A page of elsewhere whose name leads here must not be answered (DNS rebinding)."""
        sent = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        return len(sent) == 1 and _without_port(sent[0].lower()) in self._hosts


class _Request:
    def __init__(self, guard: Guard, scope: Scope, receive: Receive, send: Send) -> None:
        self._guard = guard
        self._service = guard.service
        self._scope = scope
        self._receive = receive
        self._send = send
        client = scope.get("client")
        self._seen = Seen(address=_address(client[0]) if client else None)
        scope[KEY] = self._seen
        self._started = False
        self._taken = 0

    async def answer(self) -> None:
        try:
            refusal = self._refusal()
            if refusal is not None:
                await self._problem(refusal)
            else:
                await self._guard.app(self._scope, self._limited, self._guarded)
        except Exception:
            log.error("%s", self._service.redact(traceback.format_exc()))
            await self._problem(INTERNAL)

    def _refusal(self) -> Problem | None:
        if not self._guard.host_is_ours(self._scope):
            self._service.refused("host")
            return Problem(421, "wrong-host", "the service is not asked under this name (listen.hostnames)")
        names = [name for name, _ in self._scope["headers"]]
        if b"transfer-encoding" in names and b"content-length" in names:
            self._service.refused("body")
            return Problem(400, "two-lengths", "a request says its length once: Content-Length or Transfer-Encoding")
        length = next((value for name, value in self._scope["headers"] if name == b"content-length"), None)
        if length is not None and not (length.isdigit() and int(length) <= self._service.config.limits.body_bytes):
            self._service.refused("body")
            return too_large(self._service.config.limits.body_bytes)
        return None

    async def _limited(self) -> MutableMapping[str, Any]:
        message = await self._receive()
        if message["type"] == "http.request":
            self._taken += len(message.get("body", b""))
            allowed = self._service.config.limits.body_bytes
            most = min(allowed, OPEN_BODY_BYTES) if not self._seen.known else allowed
            if self._taken > most:
                self._service.refused("body")
                raise TooLarge(most)
        return message

    async def _guarded(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            await self._audit(message["status"])
            self._count(message["status"])
            self._started = True
            message = {**message, "headers": [*message["headers"], *self._headers(message["headers"])]}
        await self._send(message)

    async def _problem(self, problem: Problem) -> None:
        if not self._started:
            await problem.response()(self._scope, self._receive, self._guarded)

    async def _audit(self, status: int) -> None:
        """Of what changes something, whoever asked, whatever came of it. A log that takes no row ends the request."""
        seen = self._seen
        if self._scope["method"] in SAFE or seen.identity is None or seen.audited:
            return
        seen.audited = True
        try:
            await asyncio.to_thread(
                self._service.registry.audit.add,
                seen.identity.name, f"{self._scope['method']} {seen.route}", role=seen.identity.role.value,
                address=seen.address, subject=seen.subject, status=status, detail=seen.detail,
            )  # fmt: skip
        except sqlite3.Error:
            log.error("the audit log takes no row: %s %s", self._scope["method"], seen.route)
            raise

    def _count(self, status: int) -> None:
        route = self._seen.route or "none"
        self._service.metrics.inc("service_requests_total", route=route, status=f"{status // 100}xx")

    def _headers(self, sent: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        names = {name.lower() for name, _ in sent}
        ours = {
            "content-security-policy": API_POLICY,
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "cross-origin-resource-policy": "same-origin",
            "cross-origin-opener-policy": "same-origin",
            "cache-control": "no-store",
            "permissions-policy": "camera=(), microphone=(), geolocation=()",
        }
        if self._service.config.listen.secure:
            ours["strict-transport-security"] = "max-age=31536000"
        return [(k.encode(), v.encode()) for k, v in ours.items() if k.encode() not in names]


def _address(text: str) -> str:
    """A proxy tells it: what is no address stays recognisable, and no more."""
    return text if source_of(text) != "unknown" else one_line(text)[:64]


def too_large(most: int) -> Problem:
    of = "of nobody known " if most == OPEN_BODY_BYTES else ""
    return Problem(413, "too-large", f"a request {of}has at most {most:,} bytes (limits.body_bytes)")


def _hostnames(service: Service) -> frozenset[str]:
    listen = service.config.listen
    local = ("localhost", "127.0.0.1", "[::1]") if listen.loopback else ()
    public = [] if service.config.public_url is None else [_without_scheme(service.config.public_url)]
    own = f"[{listen.host}]" if ":" in listen.host else listen.host
    return frozenset(name.lower() for name in (own, *local, *listen.hostnames, *public))


def _without_scheme(url: str) -> str:
    return _without_port(url.partition("//")[2].partition("/")[0])


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() and not name.endswith(":") else host
