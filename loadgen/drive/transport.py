"""The wire behind httpx's transport seam: one request in, bytes and stamps out, no interpretation.

This is the plain one: httpcore's HTTP/1.1 over asyncio, stamps taken in user space. Any transport that
fills `request.extensions["exchange"]` the same way can take its place.

A piece is what one network read gave to the body: two HTTP chunks of one read came together and
get one stamp, never an invented gap. `sent_ns` is taken immediately before the call that hands over the
request's last byte. `failure_detail` is "code: message".
"""

from __future__ import annotations

import asyncio
import errno
import functools
import socket
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import httpcore
import httpx

from loadgen.clock import now_ns
from loadgen.drive.types import Deadlines, Exchange, Outcome

#: asyncio reads at most this much at once; a smaller limit would split one arrival in two
_READ_BYTES = 256 * 1024
#: of h2.events: what httpcore gives as the reason where the server ended a stream or the connection early
_H2_CUTS = frozenset({"StreamReset", "ConnectionTerminated"})
#: httpcore's words where another request's task saw the connection end
_H2_GONE = "Server disconnected"
#: Every host is looked up.
NOWHERE: Mapping[str, str] = MappingProxyType({})
_LOCAL_ERRORS = frozenset({errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM})


@dataclass(frozen=True, slots=True)
class WireLimits:
    """`keepalive_s` is below the 5 s after which common servers close idle connections: no race with them.

    Connections are not limited here: the driver limits what is in flight, so nothing waits in the pool (E1, E4).
    Response heads are limited to 100 KiB by h11.
    """

    max_body_bytes: int = 64 * 2**20
    keepalive_s: float = 3.0


class BodyTooLarge(Exception):
    """The answer is larger than `WireLimits` allows."""


class _Wire:
    """What the sockets tell about the request that runs in this task."""

    __slots__ = ("eof", "exchange", "read_ns", "sending")

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.read_ns = 0
        self.eof = False
        self.sending = True

    async def trace(self, event: str, _info: object) -> None:
        """httpcore's. HTTP/2 writes of its own after the request; another request's task may have written for us."""
        if event == "http2.send_request_body.complete":
            self.sending = False
            if self.exchange.sent_ns is None:
                self.exchange.sent_ns = now_ns()


_WIRE: ContextVar[_Wire] = ContextVar("wire")


class _Stream(httpcore.AsyncNetworkStream):
    """A connection that stamps its reads and writes for the request of the current task."""

    def __init__(self, inner: httpcore.AsyncNetworkStream, begun_ns: int) -> None:
        self._inner = inner
        self._begun_ns = begun_ns

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 httpcore's interface
        data = await self._inner.read(max(max_bytes, _READ_BYTES), timeout)
        wire = _WIRE.get()
        wire.read_ns = now_ns()
        wire.eof = not data
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        if buffer:
            wire = _WIRE.get()
            if wire.sending:
                wire.exchange.sent_ns = now_ns()
            await self._inner.write(buffer, timeout)

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore.AsyncNetworkStream:
        """Connect and TLS share one deadline. What was written before them was a proxy's CONNECT, not the request."""
        _WIRE.get().exchange.sent_ns = None
        if timeout is not None:
            timeout = max(0.001, timeout - (now_ns() - self._begun_ns) / 1e9)
        inner = await self._inner.start_tls(ssl_context, server_hostname, timeout)
        _WIRE.get().exchange.connect_ns = now_ns() - self._begun_ns
        return _Stream(inner, self._begun_ns)

    async def aclose(self) -> None:
        await self._inner.aclose()

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Backend(httpcore.AsyncNetworkBackend):
    """`addresses`: host to IP address, of hosts that are not looked up."""

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self._inner = httpcore.AnyIOBackend()
        self._addresses = addresses

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        begun_ns = now_ns()
        place = self._addresses.get(host.lower(), host)
        inner = await self._inner.connect_tcp(place, port, timeout, local_address, socket_options)
        _WIRE.get().exchange.connect_ns = now_ns() - begun_ns
        return _Stream(inner, begun_ns)


class _RecordedBody(httpx.AsyncByteStream):
    """The body that was read, for whoever uses the response as httpx has it."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield bytes(self._exchange.body)


class PlainTransport(httpx.AsyncBaseTransport):
    """Sends one request and reads its whole answer into the exchange.

    No proxy from the environment, no retries, no redirects, no decompression. Raises
    `httpx.TransportError` when the exchange did not run to its end; the exchange says why. A
    cancelled request closes its connection, which is never used again.

    `http2`: an answer in HTTP/1.1 is then malformed. Its requests share one connection to a server, which one of them
    reads for all: a piece is then what was handed to the request, stamped when it was, and no connection is limited
    but by the server's number of streams: what waits for one is late, and `sent_ns` says so.
    """

    def __init__(
        self,
        deadlines: Deadlines,
        limits: WireLimits,
        ssl_context: ssl.SSLContext,
        proxy: httpcore.Proxy | None = None,
        http2: bool = False,
        addresses: Mapping[str, str] = NOWHERE,
    ) -> None:
        self._limits = limits
        self._http2 = http2
        self._total_s = _seconds(deadlines.total_ns)
        idle_s = _seconds(deadlines.byte_idle_ns)
        self._timeout = {
            "connect": _seconds(deadlines.connect_ns), "read": idle_s, "write": idle_s, "pool": None
        }  # fmt: skip
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl_context,
            max_connections=None,
            max_keepalive_connections=None,
            keepalive_expiry=limits.keepalive_s,
            http1=True,
            http2=http2,
            retries=0,
            proxy=proxy,
            network_backend=_Backend(addresses),
        )

    @property
    def connections(self) -> int:
        """Connections held, idle ones included."""
        return len(self._pool.connections)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        exchange = request.extensions.get("exchange") or Exchange()
        wire = _Wire(exchange)
        token = _WIRE.set(wire)
        try:
            async with asyncio.timeout(self._total_s):
                await self._run(request, wire)
        except Exception as failure:
            exchange.failure, exchange.failure_detail = classify(failure, wire.eof)
            if isinstance(failure, httpcore.ProxyError):
                exchange.sent_ns = None
            raise httpx.TransportError(exchange.failure_detail, request=request) from failure
        finally:
            exchange.end_ns = now_ns()
            _WIRE.reset(token)
        return response_of(exchange, request)

    async def _run(self, request: httpx.Request, wire: _Wire) -> None:
        exchange, url = wire.exchange, request.url
        extensions: dict[str, Any] = {"timeout": self._timeout}
        if self._http2:
            extensions["trace"] = wire.trace
        response = await self._pool.handle_async_request(
            httpcore.Request(
                method=request.method.encode("ascii"),
                url=httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                headers=request.headers.raw,
                content=request.stream,
                extensions=extensions,
            )
        )
        if self._http2 and (spoken := response.extensions["http_version"]) != b"HTTP/2":
            await response.aclose()
            raise httpcore.RemoteProtocolError(f"HTTP/2 was asked for, and the server speaks {spoken.decode()}")
        exchange.headers_ns = now_ns() if self._http2 else wire.read_ns
        exchange.status = response.status
        exchange.headers = joined_headers(response.headers)
        try:
            async for data in response.aiter_stream():
                _append(exchange, data, now_ns() if self._http2 else wire.read_ns)
                if len(exchange.body) > self._limits.max_body_bytes:
                    raise BodyTooLarge(f"more than {self._limits.max_body_bytes} bytes")
            exchange.complete = True
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        await self._pool.aclose()


def make_transport(
    deadlines: Deadlines,
    limits: WireLimits | None = None,
    ssl_context: ssl.SSLContext | None = None,
    proxy: httpcore.Proxy | None = None,
    http2: bool = False,
    addresses: Mapping[str, str] = NOWHERE,
) -> PlainTransport:
    """A transport for one segment: a fresh one each time, so that no pool state outlives it (E5). `addresses`: host to
    IP address, of hosts that are not looked up."""
    context = ssl_context or default_ssl_context()
    return PlainTransport(deadlines, limits or WireLimits(), context, proxy, http2, addresses)


@functools.cache
def default_ssl_context() -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=False)


def _append(exchange: Exchange, data: bytes, stamp_ns: int) -> None:
    exchange.body += data
    if exchange.piece_ns and exchange.piece_ns[-1] == stamp_ns:
        exchange.piece_end[-1] = len(exchange.body)
    else:
        exchange.piece_ns.append(stamp_ns)
        exchange.piece_end.append(len(exchange.body))


def response_of(exchange: Exchange, request: httpx.Request) -> httpx.Response:
    """An exchange that has run to its end, as httpx has it. Header values may hold any byte (RFC 9110, obs-text)."""
    assert exchange.status is not None
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in exchange.headers.items()]
    return httpx.Response(exchange.status, headers=headers, stream=_RecordedBody(exchange), request=request)


def joined_headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for key, value in raw:
        name, text = key.decode("latin-1").lower(), value.decode("latin-1")
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    return headers


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e9


def classify(failure: Exception, eof: bool) -> tuple[Outcome, str]:
    """Why an exchange failed: the outcome, and "code: message". `eof`: the peer had closed."""
    outcome, code = _classify(failure, eof)
    return outcome, f"{code}: {failure}"


def _classify(failure: Exception, eof: bool) -> tuple[Outcome, str]:
    causes = list(_causes(failure))
    if local := next((c for c in causes if isinstance(c, OSError) and c.errno in _LOCAL_ERRORS), None):
        return Outcome.CLIENT_FAULT, errno.errorcode[local.errno or 0].lower()
    match failure:
        case TimeoutError():
            return Outcome.TIMEOUT, "total"
        case httpcore.ConnectTimeout():
            return Outcome.TIMEOUT, "connect"
        case httpcore.ReadTimeout() | httpcore.WriteTimeout():
            return Outcome.TIMEOUT, "byte_idle"
        case httpcore.ConnectError():
            return Outcome.REFUSED, _connect_code(causes)
        case httpcore.ProxyError():
            return Outcome.REFUSED, "proxy"
        case httpcore.RemoteProtocolError():
            if type(failure.args[0] if failure.args else None).__name__ in _H2_CUTS:
                return Outcome.TRUNCATED, "reset"
            return (Outcome.TRUNCATED, "closed") if eof or _H2_GONE in str(failure) else (Outcome.MALFORMED, "http")
        case httpcore.NetworkError():
            return Outcome.TRUNCATED, "reset"
        case BodyTooLarge():
            return Outcome.MALFORMED, "body_too_large"
        case _:
            return Outcome.CLIENT_FAULT, type(failure).__name__


def _connect_code(causes: list[BaseException]) -> str:
    if any(isinstance(c, socket.gaierror) for c in causes):
        return "dns"
    return "tls" if any(isinstance(c, ssl.SSLError) for c in causes) else "connect"


def _causes(failure: BaseException) -> Iterator[BaseException]:
    """The failure and everything behind it."""
    todo, seen = [failure], set[int]()
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        todo += [e for e in (one.__cause__, one.__context__, *one.args) if isinstance(e, BaseException)]
        if isinstance(one, BaseExceptionGroup):
            todo += one.exceptions
