"""Kernel transports, one exchange at a time, and a server in a thread for loops that are blocked."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from loadgen.drive import Deadlines, Exchange, WireLimits
from loadgen.drive.kernel import KernelTransport, make_kernel_transport

MS = 1_000_000


@pytest.fixture
async def kernel(reader: str) -> AsyncIterator[Callable[..., KernelTransport]]:
    """kernel(connect_s=2, idle_s=None, total_s=None, limits=None, context=None) -> KernelTransport, with each reader"""
    made: list[KernelTransport] = []

    def make(
        connect_s: float = 2,
        idle_s: float | None = None,
        total_s: float | None = None,
        limits: WireLimits | None = None,
        context: ssl.SSLContext | None = None,
    ) -> KernelTransport:
        ns = [None if s is None else round(s * 1e9) for s in (idle_s, total_s)]
        transport = make_kernel_transport(Deadlines(round(connect_s * 1e9), ns[0], None, ns[1]), limits, context)
        assert isinstance(transport, KernelTransport)
        made.append(transport)
        return transport

    yield make
    for one in made:
        await one.aclose()


async def send_one(transport: KernelTransport, url: str, body: bytes = b"{}", **more: Any) -> Exchange:
    """One exchange; a failure is in it. Of `more`: method, headers, extensions, exchange."""
    exchange: Exchange = more.get("exchange") or Exchange()
    extensions = {"exchange": exchange, **more.get("extensions", {})}
    request = httpx.Request(
        more.get("method", "POST"), url, content=body, headers=more.get("headers"), extensions=extensions
    )
    try:
        await transport.handle_async_request(request)
    except httpx.TransportError:
        assert exchange.failure is not None
    return exchange


@pytest.fixture
def send() -> Callable[..., Any]:
    return send_one


@pytest.fixture
def code() -> Callable[[Exchange], str]:
    return lambda exchange: (exchange.failure_detail or "").partition(":")[0]


@pytest.fixture
def certificate() -> Path:
    """A self-signed certificate with its key, for localhost and 127.0.0.1: a test's own, worth nothing."""
    return Path(__file__).parent.parent / "data" / "localhost.pem"


@dataclass
class ThreadServer:
    """Answers one request from a thread: `sends` one after the other, `gap_s` apart, `go` before each if asked.

    `before_ns[i]` is just before the i-th send; `asked` is released by the request, `sent` by each send.
    """

    sends: list[bytes]
    gap_s: float
    url: str = ""
    before_ns: list[int] = field(default_factory=list)
    go: threading.Semaphore | None = None
    tls: ssl.SSLContext | None = None
    asked: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    sent: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def serve(self, listener: socket.socket) -> None:
        peer, _ = listener.accept()
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with peer if self.tls is None else self.tls.wrap_socket(peer, server_side=True) as peer:
            peer.recv(65536)
            self.asked.release()
            for data in self.sends:
                if self.go is not None:
                    self.go.acquire()
                self.before_ns.append(time.monotonic_ns())
                peer.sendall(data)
                self.sent.release()
                time.sleep(self.gap_s)


@pytest.fixture
def thread_server() -> Iterator[Callable[..., ThreadServer]]:
    """thread_server(sends, gap_s=0, go=None, tls=None) -> ThreadServer, running"""
    running: list[tuple[socket.socket, threading.Thread]] = []

    def start(
        sends: list[bytes],
        gap_s: float = 0.0,
        go: threading.Semaphore | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> ThreadServer:
        listener = socket.create_server(("127.0.0.1", 0))
        scheme = "http" if tls is None else "https"
        server = ThreadServer(sends, gap_s, f"{scheme}://127.0.0.1:{listener.getsockname()[1]}", go=go, tls=tls)
        thread = threading.Thread(target=server.serve, args=(listener,))
        thread.start()
        running.append((listener, thread))
        return server

    yield start
    for listener, thread in running:
        thread.join()
        listener.close()
