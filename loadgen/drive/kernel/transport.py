"""httpx's transport seam over sockets of our own, whose reads carry the kernel's timestamps.

Each read of a socket is stamped and appended; llhttp finds the end of the message; nothing is parsed. One
request has one connection to itself, and no task but its caller's.
"""

from __future__ import annotations

import asyncio
import select
import ssl
from collections.abc import Mapping
from functools import partial

import httpx

from loadgen.clock import now_ns
from loadgen.drive.kernel.aside import reader_name
from loadgen.drive.kernel.clock_offset import WallOffset
from loadgen.drive.kernel.connection import Connection
from loadgen.drive.kernel.dial import Dialer
from loadgen.drive.kernel.encode import encode, encode_head, encode_post, origin_of
from loadgen.drive.kernel.job import Job
from loadgen.drive.kernel.poller import Poller
from loadgen.drive.kernel.pool import Origin, Pool
from loadgen.drive.kernel.stamps import Stamper, StampKeeper
from loadgen.drive.post import Destination, Post
from loadgen.drive.transport import (
    NOWHERE,
    PlainTransport,
    WireLimits,
    classify,
    default_ssl_context,
    make_transport,
    response_of,
)
from loadgen.drive.types import Deadlines, Exchange


class _Wire:
    """What belongs to one event loop: made at the first request."""

    def __init__(
        self, deadlines: Deadlines, context: ssl.SSLContext, offset: WallOffset, addresses: Mapping[str, str]
    ) -> None:
        self.keeper = StampKeeper()
        try:
            self.poller = Poller(asyncio.get_running_loop(), offset)
        except BaseException:
            self.keeper.close()
            raise
        self.dialer = Dialer(self.poller, context, deadlines.connect_ns, self.keeper.kernel, addresses)

    def close(self) -> None:
        self.poller.close()
        self.keeper.close()


class KernelTransport(httpx.AsyncBaseTransport):
    """Sends one request and reads its whole answer into the exchange, as the plain transport does.

    Where the kernel gives stamps they are its own (`timestamp_source` "kernel"); where it gives none, on a
    Unix socket, they are taken after the read ("user"). `offset` is the wall clock's, with the steps seen.
    HTTP/1.1 only, no proxy, no retries, no redirects. Raises `httpx.TransportError` when the exchange did not
    run to its end; the exchange says why. Cancelling closes the request's connection.
    """

    def __init__(
        self,
        deadlines: Deadlines,
        limits: WireLimits,
        ssl_context: ssl.SSLContext,
        addresses: Mapping[str, str] = NOWHERE,
    ) -> None:
        self._addresses = addresses
        self.offset = WallOffset()
        self.stamper = Stamper(self.offset)
        self._deadlines = deadlines
        self._limits = limits
        self._context = ssl_context
        self._context.set_alpn_protocols(["http/1.1"])
        self._pool = Pool(round(limits.keepalive_s * 1e9))
        self._wire: _Wire | None = None
        self._heads: dict[Destination, tuple[Origin, bytes]] = {}

    @property
    def connections(self) -> int:
        """Connections held, idle ones included."""
        return len(self._pool)

    @property
    def reader(self) -> str:
        """Who reads the sockets: "c", or "python" where that was not built."""
        return reader_name()

    def pump(self) -> None:
        """Read what has come, if that was not done just now: for callers that hold the loop for long."""
        if self._wire is not None:
            self._wire.poller.pump_if_due()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        exchange = request.extensions.get("exchange") or Exchange()
        try:
            origin = origin_of(request)
            payload = encode(request, await request.aread())
        except Exception as failure:
            raise self._failed(failure, exchange, peer_closed=False) from failure
        await self._exchange(origin, payload, exchange, request.method)
        return response_of(exchange, request)

    async def post(self, post: Post) -> None:
        """As `handle_async_request`, without httpx's objects: for the load."""
        known = self._heads.get(post.destination)
        if known is None:
            try:
                request = post.as_httpx()
                known = self._heads[post.destination] = origin_of(request), encode_head(post.destination)
            except Exception as failure:
                raise self._failed(failure, post.exchange, peer_closed=False) from failure
        origin, head = known
        await self._exchange(origin, encode_post(head, post), post.exchange, "POST")

    async def _exchange(self, origin: Origin, payload: bytes, exchange: Exchange, method: str) -> None:
        total_ns = None if self._deadlines.total_ns is None else now_ns() + self._deadlines.total_ns
        job = Job(payload, exchange, method, total_ns)
        try:
            await self._run(job, await self._connection(origin, exchange, total_ns))
        except Exception as failure:
            raise self._failed(failure, exchange, job.peer_closed) from failure
        finally:
            if exchange.end_ns is None:
                exchange.end_ns = now_ns()

    @staticmethod
    def _failed(failure: Exception, exchange: Exchange, peer_closed: bool) -> httpx.TransportError:
        exchange.failure, exchange.failure_detail = classify(failure, peer_closed)
        if exchange.end_ns is None:
            exchange.end_ns = now_ns()
        return httpx.TransportError(exchange.failure_detail)

    async def _run(self, job: Job, connection: Connection) -> None:
        """Send, and wait for the end of the answer. Raises what ended it early."""
        connection.start(job)
        self.pump()
        try:
            fault = await job.ended
        finally:
            connection.abandon(job)
        del job.ended  # a fault holds its frames: it must not be held by what they hold
        try:
            if fault is not None:
                raise fault
        finally:
            del fault

    async def _connection(self, origin: Origin, exchange: Exchange, total_ns: int | None) -> Connection:
        """An idle connection or a new one, within what the total deadline leaves."""
        wire = self._wire
        if wire is None:
            wire = self._wire = _Wire(self._deadlines, self._context, self.offset, self._addresses)
        connection = self._pool.take(origin)
        if connection is not None:
            return connection
        async with asyncio.timeout(None if total_ns is None else max(0, total_ns - now_ns()) / 1e9):
            sock, tls, stamped = await wire.dialer.dial(origin, exchange)
        connection = Connection(
            sock,
            tls,
            wire.poller,
            self.stamper if stamped else None,
            self._deadlines.byte_idle_ns,
            self._limits,
            on_idle=partial(self._pool.put, origin),
            on_closed=partial(self._pool.drop, origin),
        )
        self._pool.add(connection)
        return connection

    async def aclose(self) -> None:
        self._pool.close()
        if self._wire is not None:
            self._wire.close()
            self._wire = None


def make_kernel_transport(
    deadlines: Deadlines,
    limits: WireLimits | None = None,
    ssl_context: ssl.SSLContext | None = None,
    addresses: Mapping[str, str] = NOWHERE,
) -> KernelTransport | PlainTransport:
    """A transport for one segment; the plain one where there is no epoll (not Linux). `addresses`: see there."""
    if not hasattr(select, "epoll"):
        return make_transport(deadlines, limits, ssl_context, addresses=addresses)
    return KernelTransport(deadlines, limits or WireLimits(), ssl_context or default_ssl_context(), addresses)
