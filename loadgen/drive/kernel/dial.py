"""Making a connection: names, TCP or a Unix socket, TLS. Non-blocking, one deadline for all of it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import socket
import ssl
from collections.abc import Mapping, Sequence
from typing import Any

import httpcore

from loadgen.clock import now_ns
from loadgen.drive.kernel.poller import Poller
from loadgen.drive.kernel.pool import ConnectPacer, Origin
from loadgen.drive.kernel.stamps import ask_for_stamps
from loadgen.drive.kernel.tls import Tls
from loadgen.drive.types import Exchange

_HANDSHAKE_BYTES = 64 * 1024

#: (family, address as connect takes it)
Address = tuple[int, Any]


class Dialer:
    """Makes connections for the requests that find none idle."""

    def __init__(
        self,
        poller: Poller,
        context: ssl.SSLContext,
        connect_ns: int,
        ask_stamps: bool,
        addresses: Mapping[str, str],
    ) -> None:
        self._poller = poller
        self._ask_stamps = ask_stamps
        self._context = context
        self._connect_s = connect_ns / 1e9
        self._pacer = ConnectPacer()
        self._names = Names(poller.loop, addresses)

    async def dial(self, origin: Origin, exchange: Exchange) -> tuple[socket.socket, Tls | None, bool]:
        """A connected socket, its TLS session, and whether the kernel stamps its reads.

        Writes into the exchange how long it waited for its turn, and how long it took from there.
        Raises `httpcore.ConnectTimeout`, or `httpcore.ConnectError` from the error behind it.
        """
        async with self._pacer.turn() as exchange.connect_wait_ns:
            begun_ns = now_ns()
            try:
                async with asyncio.timeout(self._connect_s):
                    dialled = await self._dial(origin)
            except TimeoutError as late:
                raise httpcore.ConnectTimeout(f"no connection within {self._connect_s:g} s") from late
            except OSError as error:  # ssl.SSLError and socket.gaierror too
                raise httpcore.ConnectError(str(error)) from error
            exchange.connect_ns = now_ns() - begun_ns
        return dialled

    async def _dial(self, origin: Origin) -> tuple[socket.socket, Tls | None, bool]:
        sock, stamped = await self._first(await self._addresses(origin), origin.host)
        try:
            tls = None if origin.sni is None else Tls(self._context, origin.sni)
            if tls is not None:
                await self._handshake(sock, tls)
        except BaseException:
            sock.close()
            raise
        return sock, tls, stamped

    async def _addresses(self, origin: Origin) -> Sequence[Address]:
        if origin.path is not None:
            return [(socket.AF_UNIX, origin.path)]
        return await self._names.look_up(origin.host, origin.port)

    async def _first(self, addresses: Sequence[Address], host: str) -> tuple[socket.socket, bool]:
        """The first address that takes the connection; each but the last gets its share of the time only."""
        for number, (family, address) in enumerate(addresses):
            left = len(addresses) - number
            try:
                async with asyncio.timeout(self._connect_s / 2 / left if left > 1 else None):
                    connected = await self._connect(family, address)
            except OSError:
                if left == 1:
                    raise
            else:
                self._names.prefer(host, family)
                return connected
        raise socket.gaierror(socket.EAI_NONAME, f"{host} has no address")

    async def _connect(self, family: int, address: Any) -> tuple[socket.socket, bool]:
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            if family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stamped = self._ask_stamps and ask_for_stamps(sock)
            error = sock.connect_ex(address)
            if error == errno.EINPROGRESS:
                await self._poller.ready(sock.fileno(), select.EPOLLOUT)
                error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                raise OSError(error, os.strerror(error))
        except BaseException:
            sock.close()
            raise
        return sock, stamped

    async def _handshake(self, sock: socket.socket, tls: Tls) -> None:
        try:
            while True:
                done = tls.shake()
                await self._send(sock, tls.to_send())
                if done:
                    return
                tls.feed(await self._receive(sock))
        except ssl.SSLError:
            with contextlib.suppress(OSError):
                sock.send(tls.to_send())  # the alert that says why
            raise

    async def _send(self, sock: socket.socket, data: bytes) -> None:
        while data:
            try:
                data = data[sock.send(data) :]
            except BlockingIOError:
                await self._poller.ready(sock.fileno(), select.EPOLLOUT)

    async def _receive(self, sock: socket.socket) -> bytes:
        while True:
            try:
                return sock.recv(_HANDSHAKE_BYTES)
            except BlockingIOError:
                await self._poller.ready(sock.fileno(), select.EPOLLIN)


class Names:
    """Host names to addresses: asked anew for every connection, but only once at a time for a name; those in `settled`
    (host to IP address) never."""

    def __init__(self, loop: asyncio.AbstractEventLoop, settled: Mapping[str, str]) -> None:
        self._loop = loop
        self._settled = settled
        self._asking: dict[tuple[str, int], asyncio.Task[list[Address]]] = {}
        self._preferred: dict[str, int] = {}

    async def look_up(self, host: str, port: int) -> Sequence[Address]:
        """Raises socket.gaierror. The family that worked last comes first."""
        host = self._settled.get(host.lower(), host)
        for family in (socket.AF_INET, socket.AF_INET6):
            with contextlib.suppress(OSError):
                socket.inet_pton(family, host)
                return [(family, (host, port))]
        key = host, port
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = self._loop.create_task(self._ask(host, port))
            task.add_done_callback(lambda done: self._asked(key, done))
        found = await asyncio.shield(task)
        preferred = self._preferred.get(host)
        return sorted(found, key=lambda address: address[0] != preferred)

    def prefer(self, host: str, family: int) -> None:
        self._preferred[host] = family

    async def _ask(self, host: str, port: int) -> list[Address]:
        found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [(family, address) for family, _type, _proto, _name, address in found]

    def _asked(self, key: tuple[str, int], task: asyncio.Task[list[Address]]) -> None:
        del self._asking[key]
        if not task.cancelled():
            task.exception()  # those who wait see it; where nobody waits any more it is of no use
