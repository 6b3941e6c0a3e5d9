"""Both transports against real sockets: stamps, pieces, and why an exchange failed."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from loadgen.clock import now_ns
from loadgen.drive import Deadlines, Exchange, Outcome, WireLimits, make_transport
from loadgen.drive.kernel import KernelTransport, make_kernel_transport
from loadgen.drive.transport import PlainTransport

MS = 1_000_000
Transport = PlainTransport | KernelTransport
Make = Callable[..., Transport]


@pytest.fixture(params=["plain", "kernel", "kernel in Python"])
def maker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Make:
    """make_transport, make_kernel_transport: the same behaviour is asked of both, and of both readers of the latter."""
    if request.param == "kernel in Python":
        monkeypatch.setenv("SPECLOAD_READER", "python")
    return make_transport if request.param == "plain" else make_kernel_transport


@pytest.fixture
async def transport(maker: Make) -> AsyncIterator[Make]:
    """transport(connect_s=2, idle_s=None, total_s=None, limits=None) -> PlainTransport or KernelTransport"""
    made: list[Transport] = []

    def make(
        connect_s: float = 2,
        idle_s: float | None = None,
        total_s: float | None = None,
        limits: WireLimits | None = None,
    ) -> PlainTransport:
        ns = [None if s is None else round(s * 1e9) for s in (idle_s, total_s)]
        made.append(maker(Deadlines(round(connect_s * 1e9), ns[0], None, ns[1]), limits))
        return made[-1]

    yield make
    for one in made:
        await one.aclose()


async def send(transport: Transport, url: str, body: bytes = b"{}") -> Exchange:
    """One exchange; a failure is in it."""
    exchange = Exchange()
    request = httpx.Request("POST", url, content=body, extensions={"exchange": exchange})
    try:
        await transport.handle_async_request(request)
    except httpx.TransportError:
        assert exchange.failure is not None
    return exchange


def code(exchange: Exchange) -> str:
    return (exchange.failure_detail or "").partition(":")[0]


async def test_stamps_are_in_order(play: Any, http: Any, wire: Any, transport: Make) -> None:
    """A27, A32: headers, first byte and later pieces have times of their own; sent is before the server had it."""
    steps = [
        http.head(),
        0.03,
        http.chunk(wire.delta("a")),
        0.03,
        http.chunk(wire.delta("b")),
        http.chunk(wire.done) + http.end,
    ]
    server = await play(steps)
    exchange = await send(transport(), server.url)
    assert exchange.complete
    assert exchange.failure is None
    assert exchange.status == 200
    assert exchange.body == wire.delta("a") + wire.delta("b") + wire.done
    assert exchange.sent_ns is not None
    assert exchange.headers_ns is not None
    assert exchange.end_ns is not None
    assert exchange.connect_ns is not None
    assert exchange.sent_ns < server.got[0].at_ns
    assert exchange.sent_ns < exchange.headers_ns < exchange.piece_ns[0] < exchange.piece_ns[1] <= exchange.end_ns
    assert exchange.piece_ns[0] - exchange.headers_ns > 20 * MS
    assert exchange.piece_ns[1] - exchange.piece_ns[0] > 20 * MS
    assert exchange.piece_end[-1] == len(exchange.body)
    assert list(exchange.piece_end) == sorted(exchange.piece_end)


async def test_http_chunks_of_one_read_are_one_piece(play: Any, http: Any, wire: Any, transport: Make) -> None:
    """A20, A28: several HTTP chunks in one segment get one stamp, no invented gaps."""
    together = http.head() + b"".join(http.chunk(wire.delta("x")) for _ in range(5)) + http.chunk(wire.done) + http.end
    server = await play([together])
    exchange = await send(transport(), server.url)
    assert len(exchange.piece_ns) == 1
    assert exchange.piece_ns[0] == exchange.headers_ns


async def test_connection_is_reused_and_said_so(play: Any, http: Any, transport: Make) -> None:
    """C20, E22: the second request needs no connection set-up, and its connect time is absent, not 0."""
    server = await play(http.answer())
    one = transport()
    first, second = await send(one, server.url), await send(one, server.url)
    assert server.connections == 1
    assert first.connect_ns is not None
    assert second.connect_ns is None


async def test_more_than_a_hundred_at_once(play: Any, http: Any, transport: Make) -> None:
    """E1, E2: 128 asked, 128 at the server."""
    server = await play([http.head(), 0.3, *http.answer()[1:]])
    one = transport()
    sent = [asyncio.create_task(send(one, server.url)) for _ in range(128)]
    done = await asyncio.gather(*sent)
    assert max(got.live for got in server.got) == 128
    assert all(exchange.complete for exchange in done)


async def test_refused(free_port: int, transport: Make) -> None:
    exchange = await send(transport(), f"http://127.0.0.1:{free_port}")
    assert (exchange.failure, code(exchange), exchange.sent_ns) == (Outcome.REFUSED, "connect", None)
    assert exchange.end_ns is not None


async def test_unknown_host(transport: Make) -> None:
    exchange = await send(transport(), "http://no-such-host.invalid")
    assert (exchange.failure, code(exchange)) == (Outcome.REFUSED, "dns")


async def test_connect_deadline_is_its_own(transport: Make) -> None:
    """E26: an unreachable host costs the connect deadline, not the read's."""
    begun = now_ns()
    with _full_backlog() as url:
        exchange = await send(transport(connect_s=0.2, idle_s=60), url)
    assert (exchange.failure, code(exchange)) == (Outcome.TIMEOUT, "connect")
    assert now_ns() - begun < 2_000 * MS


class _full_backlog:  # noqa: N801 a context manager
    """A listener whose queue is full: further connects get no answer."""

    def __enter__(self) -> str:
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(0)
        address = self._listener.getsockname()
        self._fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(address)
            self._fillers.append(filler)
        return f"http://127.0.0.1:{address[1]}"

    def __exit__(self, *_exc: object) -> None:
        for one in [*self._fillers, self._listener]:
            one.close()


@pytest.mark.parametrize(
    ("tail", "outcome", "expected"),
    [
        ([b"5\r\nab", "close"], Outcome.TRUNCATED, "closed"),
        ([b"5\r\nabcde\r\n", "reset"], Outcome.TRUNCATED, "reset"),
        ([b"zz\r\nabc", "close"], Outcome.MALFORMED, "http"),
    ],
)
async def test_cut_mid_body(
    play: Any, http: Any, transport: Make, tail: list[Any], outcome: Outcome, expected: str
) -> None:
    """A4, A5: the peer closes, resets, or breaks the framing."""
    server = await play([http.head(), http.chunk(b"data: 1\n\n"), 0.02, *tail])
    exchange = await send(transport(), server.url)
    assert (exchange.failure, code(exchange), exchange.complete) == (outcome, expected, False)
    assert exchange.body.startswith(b"data: 1\n\n")


async def test_short_content_length(play: Any, transport: Make) -> None:
    server = await play([b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc", "close"])
    exchange = await send(transport(), server.url)
    assert (exchange.failure, exchange.body) == (Outcome.TRUNCATED, b"abc")


async def test_close_delimited_body_is_complete(play: Any, transport: Make) -> None:
    server = await play([b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nabc", "close"])
    exchange = await send(transport(), server.url)
    assert (exchange.failure, exchange.complete, exchange.body) == (None, True, b"abc")


async def test_closed_before_headers(play: Any, transport: Make) -> None:
    """A4: the socket closes before any answer: not refused, for the request was sent."""
    exchange = await send(transport(), (await play(["close"])).url)
    assert (exchange.failure, code(exchange), exchange.status) == (Outcome.TRUNCATED, "closed", None)
    assert exchange.sent_ns is not None


async def test_informational_responses_come_first(play: Any, http: Any, transport: Make) -> None:
    server = await play([b"HTTP/1.1 100 Continue\r\n\r\n", *http.answer()])
    exchange = await send(transport(), server.url)
    assert (exchange.status, exchange.complete) == (200, True)


async def test_slow_headers_meet_the_idle_deadline(play: Any, transport: Make) -> None:
    """E28: no byte at all."""
    exchange = await send(transport(idle_s=0.1), (await play(["hang"])).url)
    assert (exchange.failure, code(exchange), exchange.headers_ns) == (Outcome.TIMEOUT, "byte_idle", None)


async def test_slow_headers_within_the_deadline(play: Any, http: Any, transport: Make) -> None:
    """A27: headers that come late are only late."""
    exchange = await send(transport(idle_s=2), (await play([0.1, *http.answer()])).url)
    assert exchange.complete
    assert exchange.headers_ns is not None
    assert exchange.sent_ns is not None
    assert exchange.headers_ns - exchange.sent_ns > 90 * MS


async def test_silence_meets_the_idle_deadline(play: Any, http: Any, wire: Any, transport: Make) -> None:
    """E28: three events, then nothing."""
    server = await play([http.head(), http.chunk(wire.delta("a") * 3), "hang"])
    exchange = await send(transport(idle_s=0.1), server.url)
    assert (exchange.failure, code(exchange)) == (Outcome.TIMEOUT, "byte_idle")
    assert exchange.body == wire.delta("a") * 3


async def test_a_healthy_stream_outlives_the_idle_deadline(play: Any, http: Any, transport: Make) -> None:
    """E23, E25, E27: idle is not total: 0.4 s of tokens under a 0.2 s idle deadline."""
    server = await play(http.answer(tokens=8, gap_s=0.05))
    exchange = await send(transport(idle_s=0.2), server.url)
    assert exchange.complete


async def test_total_deadline(play: Any, http: Any, transport: Make) -> None:
    server = await play(http.answer(tokens=100, gap_s=0.02))
    exchange = await send(transport(idle_s=1, total_s=0.15), server.url)
    assert (exchange.failure, code(exchange)) == (Outcome.TIMEOUT, "total")
    assert len(exchange.body) > 0


async def test_body_limit(play: Any, http: Any, transport: Make) -> None:
    server = await play([http.head(), *[http.chunk(b"x" * 1000) for _ in range(20)], http.end])
    exchange = await send(transport(limits=WireLimits(max_body_bytes=5000)), server.url)
    assert (exchange.failure, code(exchange)) == (Outcome.MALFORMED, "body_too_large")


async def test_header_limit(play: Any, transport: Make) -> None:
    server = await play([b"HTTP/1.1 200 OK\r\nx: " + b"y" * 300_000, "hang"])
    exchange = await send(transport(idle_s=2), server.url)
    assert (exchange.failure, code(exchange)) == (Outcome.MALFORMED, "http")


async def test_not_http(play: Any, transport: Make) -> None:
    exchange = await send(transport(), (await play([b"SSH-2.0-x\r\n\r\n", 0.05])).url)
    assert (exchange.failure, code(exchange)) == (Outcome.MALFORMED, "http")


async def test_cancelled_connection_is_never_used_again(play: Any, http: Any, transport: Make) -> None:
    """wire.md 9: cancelling closes the socket."""
    server = await play(lambda n, _got: [http.head(), "hang"] if n == 0 else http.answer())
    one = transport()
    task = asyncio.create_task(send(one, server.url))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert one.connections == 0
    assert (await send(one, server.url)).complete
    assert server.connections == 2


async def test_cancel_storm_leaves_it_usable(play: Any, http: Any, transport: Make) -> None:
    """E5: hundreds of random cancels leak no slot; the next request works at once."""
    server = await play(http.answer(tokens=3, first_s=0.005, gap_s=0.005))
    one = transport()
    for wave in range(10):
        tasks = [asyncio.create_task(send(one, server.url)) for _ in range(20)]
        for i, task in enumerate(tasks):
            await asyncio.sleep(0.001 * ((i * 7 + wave) % 3))
            if (i + wave) % 2:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    last = await asyncio.gather(*(send(one, server.url) for _ in range(20)))
    assert all(exchange.complete for exchange in last)
    assert one.connections <= 40


async def test_out_of_file_descriptors_is_our_fault(play: Any, http: Any, transport: Make) -> None:
    """E20: EMFILE is the client's fault, not the server's."""
    server = await play(http.answer())
    one = transport()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(name) for name in os.listdir("/proc/self/fd"))
    held = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 1, hard))
    try:
        try:
            while True:
                held.append(open("/dev/null"))  # noqa: SIM115, ASYNC230
        except OSError:
            pass
        exchange = await send(one, server.url)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for one_file in held:
            one_file.close()
    assert (exchange.failure, code(exchange)) == (Outcome.CLIENT_FAULT, "emfile")


async def test_environment_proxy_is_ignored(
    play: Any, http: Any, transport: Make, monkeypatch: pytest.MonkeyPatch, free_port: int
) -> None:
    """A31, E31: HTTP_PROXY of the environment never comes between."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port}")
    server = await play(http.answer())
    assert (await send(transport(), server.url)).complete


async def test_header_values_of_any_byte(play: Any, transport: Make) -> None:
    """A name in latin-1 is no fault of ours, and none of the server's."""
    server = await play([b"HTTP/1.1 200 OK\r\nx-owner: Zo\xeb\r\ncontent-length: 2\r\n\r\n{}"])
    exchange = await send(transport(), server.url)
    assert (exchange.failure, exchange.complete, exchange.headers["x-owner"]) == (None, True, "Zoë")


async def test_no_redirect_is_followed(play: Any, transport: Make) -> None:
    server = await play([b"HTTP/1.1 307 x\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n"])
    exchange = await send(transport(), server.url)
    assert (exchange.status, len(server.got)) == (307, 1)


async def test_long_prompt_is_sent_whole(play: Any, http: Any, transport: Make) -> None:
    """C21: a body larger than the socket's buffer."""
    server = await play(http.answer())
    exchange = await send(transport(), server.url, b"p" * 3_000_000)
    assert len(server.got[0].body) == 3_000_000
    assert exchange.complete


async def test_failed_tls_is_no_connection(transport: Make) -> None:
    """Verification is on, and a peer that does not speak TLS is refused, with nothing sent."""

    async def plain(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        exchange = await send(transport(), f"https://127.0.0.1:{port}")
    assert (exchange.failure, code(exchange), exchange.sent_ns) == (Outcome.REFUSED, "tls", None)


@pytest.fixture
def certificate() -> Path:
    """A self-signed certificate with its key, for 127.0.0.1 only: a test's own, worth nothing."""
    return Path(__file__).parent / "data" / "localhost.pem"


async def test_tls(play: Any, http: Any, maker: Make, certificate: Path) -> None:
    """C20: the handshake is part of connection set-up, not of the request; a reused connection has none."""
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(certificate)
    server = await play(http.answer(), server_side)
    deadlines = Deadlines(2_000 * MS, None, None, None)
    trusting = maker(deadlines, None, ssl.create_default_context(cafile=str(certificate)))
    first, second = await send(trusting, server.url), await send(trusting, server.url)
    await trusting.aclose()
    assert first.complete
    assert second.complete
    assert first.connect_ns is not None
    assert second.connect_ns is None
    assert first.sent_ns is not None
    assert first.sent_ns < first.piece_ns[0]
    assert server.connections == 1


async def test_unknown_certificate_is_refused(play: Any, http: Any, transport: Make, certificate: Path) -> None:
    """Verification is on by default."""
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(certificate)
    server = await play(http.answer(), server_side)
    exchange = await send(transport(), server.url)
    assert (exchange.failure, code(exchange), len(server.got)) == (Outcome.REFUSED, "tls", 0)
