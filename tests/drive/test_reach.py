"""Through proxies and in HTTP/2: the plain transport, against a proxy and a server of this file."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import httpcore
import httpx
import pytest

from loadgen.clock import now_ns
from loadgen.drive import Deadlines, Exchange, Outcome, make_transport
from loadgen.drive.transport import PlainTransport

DEADLINES = Deadlines(2_000_000_000, 5_000_000_000, None, 20_000_000_000)
PEM = Path(__file__).parent / "data" / "localhost.pem"
Make = Callable[..., PlainTransport]


@pytest.fixture
async def plain() -> AsyncIterator[Make]:
    """plain(proxy=None, http2=False) -> PlainTransport that trusts the test's certificate"""
    made: list[PlainTransport] = []

    def make(proxy: httpcore.Proxy | None = None, http2: bool = False) -> PlainTransport:
        made.append(make_transport(DEADLINES, None, ssl.create_default_context(cafile=str(PEM)), proxy, http2))
        return made[-1]

    yield make
    for one in made:
        await one.aclose()


async def ask(transport: PlainTransport, url: str, body: bytes = b"{}") -> Exchange:
    exchange = Exchange()
    request = httpx.Request("POST", f"{url}/v1/x", content=body, extensions={"exchange": exchange})
    with contextlib.suppress(httpx.TransportError):
        await transport.handle_async_request(request)
    return exchange


def server_context(*protocols: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


# ---------------------------------------------------------------- proxies


async def test_a_proxy_is_asked_for_the_whole_address(play: Any, http: Any, plain: Make) -> None:
    """A31: a hop that was chosen is used, with its account; the origin behind it is named."""
    proxy = await play(http.answer())
    exchange = await ask(plain(httpcore.Proxy(proxy.url, auth=(b"me", b"planted9"))), "http://origin.test:81")
    assert exchange.complete
    (got,) = proxy.got
    assert got.head.startswith(b"POST http://origin.test:81/v1/x HTTP/1.1\r\n")
    assert got.header("proxy-authorization") == "Basic " + base64.b64encode(b"me:planted9").decode()
    assert exchange.connect_ns is not None
    assert exchange.sent_ns is not None
    assert exchange.sent_ns < exchange.piece_ns[0]


async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: list[bytes], delay_s: float) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    seen.append(head.split(b"\r\n")[0])
    host, _, port = head.split()[1].decode().partition(":")
    there, back = await asyncio.open_connection(host, int(port))
    await asyncio.sleep(delay_s)
    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

    async def pour(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
            sink.close()

    await asyncio.gather(pour(reader, back), pour(there, writer))


async def test_https_goes_through_a_tunnel_that_is_part_of_the_connection(play: Any, http: Any, plain: Make) -> None:
    """C20: CONNECT and TLS are set-up, recorded, and no part of what runs from `sent_ns`."""
    seen: list[bytes] = []
    server = await play(http.answer(tokens=4, gap_s=0.005), server_context())
    async with await asyncio.start_server(lambda r, w: tunnel(r, w, seen, 0.15), "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        transport = plain(httpcore.Proxy(f"http://127.0.0.1:{port}"))
        first, second = await ask(transport, server.url), await ask(transport, server.url)
        await transport.aclose()
    assert seen == [b"CONNECT " + server.url.removeprefix("https://").encode() + b" HTTP/1.1"]
    assert first.complete
    assert second.complete
    assert first.connect_ns is not None
    assert first.connect_ns >= 150_000_000
    assert second.connect_ns is None
    assert len(first.piece_ns) >= 4
    assert first.sent_ns is not None
    assert server.got[0].at_ns - first.sent_ns < 150_000_000


async def test_a_proxy_that_lets_nothing_through(play: Any, http: Any, plain: Make) -> None:
    """E31: no answer of the server, and said so."""
    proxy = await play([http.whole(b"", "403 No")])
    exchange = await ask(plain(httpcore.Proxy(proxy.url)), "https://origin.test")
    assert (exchange.failure, exchange.status, exchange.sent_ns) == (Outcome.REFUSED, None, None)
    assert exchange.failure_detail == "proxy: 403 No"


# ---------------------------------------------------------------- HTTP/2

Play = Callable[["H2", int, bytes], Awaitable[None]]


class H2:
    """One connection of a small HTTP/2 server: `play(self, stream, body)` answers each request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, play: Play) -> None:
        self.reader, self.writer, self.play = reader, writer, play
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        self.bodies: dict[int, bytes] = {}
        self.tasks: list[asyncio.Task[None]] = []

    async def serve(self) -> None:
        self.h2.initiate_connection()
        self.flush()
        with contextlib.suppress(ConnectionError):
            while data := await self.reader.read(65536):
                for event in self.h2.receive_data(data):
                    self.take(event)
                self.flush()
        for task in self.tasks:
            task.cancel()

    def take(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.DataReceived):
            self.bodies[event.stream_id] = self.bodies.get(event.stream_id, b"") + event.data
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            body = self.bodies.pop(event.stream_id, b"")
            self.tasks.append(asyncio.create_task(self.play(self, event.stream_id, body)))

    def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())


async def stream(server: H2, number: int, body: bytes) -> None:
    """As many chunks as asked for, each with its send time, 10 ms apart."""
    server.h2.send_headers(number, [(":status", "200"), ("content-type", "text/event-stream")])
    for _ in range(json.loads(body)["n"]):
        await asyncio.sleep(0.01)
        server.h2.send_data(number, b'{"sent_ns":%d}\n' % now_ns())
        server.flush()
    server.h2.end_stream(number)
    server.flush()


@contextlib.asynccontextmanager
async def h2_server(play: Play) -> AsyncIterator[tuple[str, list[H2]]]:
    made: list[H2] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.append(H2(reader, writer, play))
        await made[-1].serve()
        writer.close()

    listener = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=server_context("h2"))
    try:
        yield f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}", made
    finally:
        listener.close()
        for one in made:
            one.writer.close()


async def test_http2_streams_have_their_own_times_on_one_connection(plain: Make) -> None:
    """Read by one task for all: no stream gets the stamp of another, and what HTTP/2 writes of itself is no send."""
    transport = plain(http2=True)
    async with h2_server(stream) as (url, made):
        asked = [(n, asyncio.create_task(ask(transport, url, b'{"n":%d}' % n))) for n in (5, 20, 12)]
        exchanges = [(n, await task) for n, task in asked]
        await transport.aclose()
    assert len(made) == 1
    for n, exchange in exchanges:
        assert (exchange.complete, exchange.status, exchange.timestamp_source) == (True, 200, "user")
        sent = [json.loads(line)["sent_ns"] for line in exchange.body.splitlines()]
        assert len(sent) == n
        assert list(exchange.piece_ns) == sorted(exchange.piece_ns)
        for at_ns, end in zip(exchange.piece_ns, exchange.piece_end, strict=True):
            assert at_ns > sent[exchange.body[:end].count(b"\n") - 1]
        assert exchange.sent_ns is not None
        assert exchange.headers_ns is not None
        assert exchange.sent_ns < exchange.headers_ns
        assert exchange.sent_ns < sent[0] - 9_000_000


async def test_http2_cuts_are_the_servers(plain: Make) -> None:
    async def reset(server: H2, number: int, _body: bytes) -> None:
        server.h2.send_headers(number, [(":status", "200")])
        server.h2.reset_stream(number)
        server.flush()

    async def gone(server: H2, number: int, _body: bytes) -> None:
        server.h2.send_headers(number, [(":status", "200")])
        server.flush()
        await asyncio.sleep(0.05)
        server.writer.close()

    for play, code in ((reset, "reset"), (gone, "closed")):
        transport = plain(http2=True)
        async with h2_server(play) as (url, _made):
            both = await asyncio.gather(ask(transport, url), ask(transport, url))
            await transport.aclose()
        for exchange in both:
            assert (exchange.failure, exchange.complete) == (Outcome.TRUNCATED, False), exchange.failure_detail
            assert (exchange.failure_detail or "").partition(":")[0] == code


async def test_a_server_without_http2_is_no_success(play: Any, http: Any, plain: Make) -> None:
    """Preflight says so before any load; a server that changes its mind later does not go unseen."""
    server = await play(http.answer(), server_context("http/1.1"))
    exchange = await ask(plain(http2=True), server.url)
    assert (exchange.failure, exchange.complete) == (Outcome.MALFORMED, False)
    assert exchange.failure_detail == "http: HTTP/2 was asked for, and the server speaks HTTP/1.1"


async def test_the_driver_over_http2(driver: Any, segments: Any, sink: Any, soon: Any) -> None:
    """Whole attempts, each with times of its own, from requests that share a connection."""

    async def answer(server: H2, number: int, _body: bytes) -> None:
        server.h2.send_headers(number, [(":status", "200"), ("content-type", "text/event-stream")])
        for finish in (None, None, "stop"):
            await asyncio.sleep(0.01)
            choice = {"index": 0, "delta": {"content": "x"}, "finish_reason": finish}
            server.h2.send_data(number, b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n")
            server.flush()
        server.h2.send_data(number, b"data: [DONE]\n\n")
        server.h2.end_stream(number)
        server.flush()

    context = ssl.create_default_context(cafile=str(PEM))

    def transport(deadlines: Deadlines) -> PlainTransport:
        return make_transport(deadlines, None, context, None, True)

    async with h2_server(answer) as (url, made):
        result = await driver(url, transport=transport).run(segments.open([0, 5, 10, 15, 20, 25]), soon())
    assert result.accounting.sent == 6
    assert sink.outcomes == {Outcome.OK: 6}
    assert len(made) == 1
    for attempt in sink.attempts:
        assert (len(attempt.ledger), attempt.ledger.coalesced, attempt.timestamp_source) == (3, 0, "user")
        assert attempt.sent_ns < attempt.first_token_ns < attempt.last_token_ns
    assert sum(attempt.connect_ns is not None for attempt in sink.attempts) == 1
