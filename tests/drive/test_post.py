"""A post on the wire: the same message, whichever transport sends it and however it was made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import count

import httpx
import pytest

from loadgen.drive import Deadlines, Exchange, make_kernel_transport, make_transport
from loadgen.drive.post import Destination, Post, destination, sender
from loadgen.drive.request import FIRST_MOST, Prepared

DEADLINES = Deadlines(2_000_000_000, None, None, None)
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Heard:
    """A server that keeps the bytes of every request."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await self._head(reader):
            length = int(dict(self.lines(head))[b"content-length"])
            self.requests.append(head + await reader.readexactly(length))
            writer.write(ANSWER)
        writer.close()

    @staticmethod
    async def _head(reader: asyncio.StreamReader) -> bytes:
        try:
            return await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return b""

    @staticmethod
    def lines(request: bytes) -> list[tuple[bytes, bytes]]:
        _first, *rest = request.partition(b"\r\n\r\n")[0].split(b"\r\n")
        return sorted((name.lower(), value) for name, _, value in (line.partition(b": ") for line in rest))


@pytest.fixture
async def heard() -> AsyncIterator[Heard]:
    found = Heard()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield found
    server.close()


def to(url: str, *more: list[tuple[str, str]]) -> Destination:
    return destination(url, "/v1/x?y=%20", [("Content-Type", "application/json"), ("X-Request-Id", "adapter")], *more)


async def test_both_transports_and_httpx_send_the_same(heard: Heard) -> None:
    where = to(heard.url, [("authorization", "Bearer s3cret")])
    for make in (make_transport, make_kernel_transport):
        transport = make(DEADLINES)
        for send in (sender(transport), lambda post, t=transport: t.handle_async_request(post.as_httpx())):
            post = Post(where, "0-7-abc", b'{"a":"\xc3\xa9"}', Exchange())
            await send(post)
            assert (post.exchange.status, bytes(post.exchange.body), post.exchange.complete) == (200, b"ok", True)
            assert post.exchange.sent_ns is not None
        await transport.aclose()
    assert len(heard.requests) == 4
    assert len({request.partition(b"\r\n")[0] for request in heard.requests}) == 1
    assert heard.requests[0].startswith(b"POST /v1/x?y=%20 HTTP/1.1\r\n")
    bodies = {request.partition(b"\r\n\r\n")[2] for request in heard.requests}
    assert bodies == {b'{"a":"\xc3\xa9"}'}
    said = Heard.lines(heard.requests[0])
    assert all(Heard.lines(request) == said for request in heard.requests)
    assert dict(said)[b"x-request-id"] == b"0-7-abc"
    assert dict(said)[b"content-length"] == b"10"
    assert dict(said)[b"authorization"] == b"Bearer s3cret"
    assert dict(said)[b"accept-encoding"] == b"identity"


async def test_a_request_id_of_the_user_stays(heard: Heard) -> None:
    """The adapter's is replaced by each post's own, the target's own header by nothing."""
    where = to(heard.url, [("x-request-id", "mine")])
    transport = make_kernel_transport(DEADLINES)
    await sender(transport)(Post(where, "0-1-x", b"{}", Exchange()))
    await transport.aclose()
    assert dict(Heard.lines(heard.requests[0]))[b"x-request-id"] == b"mine"


async def test_a_header_that_would_break_the_head_is_our_fault() -> None:
    """C11: it ends as a client fault with its reason, and nothing is sent."""
    transport = make_kernel_transport(DEADLINES)
    post = Post(to("http://127.0.0.1:9", [("x", "a\r\nb: c")]), "i", b"", Exchange())
    with pytest.raises(httpx.TransportError):
        await sender(transport)(post)
    await transport.aclose()
    assert (post.exchange.failure, post.exchange.sent_ns) == ("client_fault", None)
    assert post.exchange.end_ns is not None


async def test_what_is_made_before_the_load_is_bounded() -> None:
    """E31: an endless segment does not fill the memory before it starts."""

    class Builder:
        built = 0

        def build(self, _case: object) -> object:
            self.built += 1
            return type("Made", (), {"post": Post(to("http://a"), "i", b"x" * 2**20, Exchange())})()

    builder = Builder()
    prepared = Prepared((i for i in count()), builder)  # type: ignore[arg-type, misc]
    await prepared.make_ready()
    assert builder.built == 32
    assert builder.built < FIRST_MOST
