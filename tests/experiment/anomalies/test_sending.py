"""Bytes that no library sends, and what is made of whatever comes back."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.experiment.anomalies.sending import KEPT_BYTES, Place, Reply, send
from loadgen.experiment.anomalies.shapes import shape_of
from server_adapters.anomalies import Await, Leave, Pause, Script, Send

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
PEM = Path(__file__).resolve().parents[2] / "drive" / "data" / "localhost.pem"
OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 15\r\n\r\n" + b'{"choices": []}'


@pytest.fixture
async def place() -> AsyncIterator[Callable[..., Awaitable[Place]]]:
    """await place(serve, context=None): where a server of the test listens."""
    servers: list[asyncio.Server] = []
    tasks: set[asyncio.Task[None]] = set()

    async def start(serve: Serve, context: ssl.SSLContext | None = None, client: Any = None) -> Place:
        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            async def work() -> None:
                with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                    await serve(reader, writer)
                writer.close()

            task = asyncio.ensure_future(work())
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)
        servers.append(server)
        return Place("127.0.0.1", server.sockets[0].getsockname()[1], client)

    yield start
    for server in servers:
        server.close()
    for task in list(tasks):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def answering(data: bytes, *, close: bool = True) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(2)
        writer.write(data)
        await writer.drain()
        if not close:
            await reader.read()

    return serve


ASK = Script((Send(b"hi"), Await("end")))


async def only(where: Place, script: Script = ASK, answer_s: float = 5.0) -> Reply:
    (reply,) = await send(where, script, answer_s)
    return reply


@pytest.mark.parametrize(
    ("data", "ended", "status", "shape"),
    [
        (OK, "answered", 200, "completion"),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil closed", "answered", 200, "text"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, "answered", 200, "completion"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nshort", "closed", 200, "text"),
        (b"HTTP/1.1 400 -\r\ncontent-length: 0\r\n\r\n", "answered", 400, "empty"),
        (b"", "closed", None, "none"),
        (b"SSH-2.0-x\r\n", "closed", None, "none"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: abc\r\n\r\n", "closed", None, "none"),
    ],
)
async def test_answers_of_every_kind(place: Any, data: bytes, ended: str, status: int | None, shape: str) -> None:
    reply = await only(await place(answering(data)))
    assert (reply.ended, reply.status, shape_of(reply)[0]) == (ended, status, shape)


async def test_a_second_answer_is_counted_not_read(place: Any) -> None:
    """What a hidden request would get: bytes behind the first answer."""
    reply = await only(await place(answering(OK + OK)))
    assert (reply.ended, reply.status, bytes(reply.body)) == ("answered", 200, b'{"choices": []}')


async def test_no_answer_in_time_and_no_connection(place: Any) -> None:
    where = await place(answering(b"HTTP/1.1 200 OK\r\n", close=False))
    assert (await only(where, answer_s=0.3)).ended == "timeout"
    silent = Script((Send(b"hi"), Await("end")), answer_s=0.2)
    assert (await only(where, silent, answer_s=60)).ended == "timeout"
    assert (await only(Place("127.0.0.1", 1, None))).ended == "refused"


async def test_a_settled_address_is_what_is_connected_to(place: Any) -> None:
    """I7: the name, which nobody could look up, is not looked up again."""
    where = await place(answering(OK))
    reply = await only(Place("model.invalid", where.port, None, "127.0.0.1"))
    assert (reply.ended, reply.status) == ("answered", 200)


async def test_a_large_body_is_kept_in_part(place: Any) -> None:
    size = KEPT_BYTES + 5000
    reply = await only(await place(answering(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size)))
    assert (reply.ended, reply.body_bytes, len(reply.body)) == ("answered", size, KEPT_BYTES)


async def test_an_answer_before_the_last_byte_is_read(place: Any) -> None:
    """A server that refuses a large body early, and closes."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(2)
        writer.write(b"HTTP/1.1 413 -\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        await reader.read(100)

    reply = await only(await place(refuse), Script((Send(b"hi"), Send(b"x" * 200, every_s=0.01), Await("end"))))
    assert (reply.ended, reply.status) == ("answered", 413)


async def test_steps_in_their_order(place: Any) -> None:
    """Slow bytes one by one; then left in the middle of a stream, the head and some of the body known."""
    got: list[bytes] = []

    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while len(b"".join(got)) < 4:
            got.append(await reader.read(100))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        await writer.drain()
        writer.write(b"8\r\ndata: x\n\r\n")
        await writer.drain()
        while await reader.read(100):
            pass
        got.append(b"gone")

    script = Script((Send(b"slow", every_s=0.03), Await("head"), Await("body"), Pause(0.05), Leave()))
    reply = await only(await place(stream), script)
    assert (reply.ended, reply.status, reply.sent_bytes, bytes(reply.body)) == ("left", 200, 4, b"data: x\n")
    assert got[0] in (b"s", b"sl")
    for _ in range(200):
        if got[-1] == b"gone":
            break
        await asyncio.sleep(0.01)
    assert got[-1] == b"gone"


async def test_leaving_at_once_and_with_a_reset(place: Any) -> None:
    seen: list[str] = []

    async def watch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.read(100):
                pass
            seen.append("closed")
        except ConnectionResetError:
            seen.append("reset")

    where = await place(watch)
    assert (await only(where, Script((Leave(),)))).ended == "left"
    assert (await only(where, Script((Send(b"hi"), Pause(0.05), Leave(reset=True))))).ended == "left"
    for _ in range(200):
        if len(seen) == 2:
            break
        await asyncio.sleep(0.01)
    assert seen == ["closed", "reset"]


async def test_a_storm_is_all_at_once(place: Any) -> None:
    everybody = asyncio.Barrier(20)

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(2)
        await everybody.wait()
        writer.write(OK)
        await writer.drain()

    replies = await send(await place(count), Script(ASK.steps, connections=20), 10)
    assert [r.ended for r in replies] == ["answered"] * 20


async def test_over_tls(place: Any) -> None:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(PEM)
    trusting = ssl.create_default_context(cafile=str(PEM))
    reply = await only(await place(answering(OK), serving, trusting))
    assert (reply.ended, reply.status) == ("answered", 200)
    distrustful = ssl.create_default_context()
    assert (await only(await place(answering(OK), serving, distrustful))).ended == "refused"


@pytest.mark.parametrize(
    ("kind", "body", "shape", "message"),
    [
        ("application/json", b'{"error": {"message": "no", "code": 400}}', "error", "no"),
        ("application/json", b'{"error": "no", "error_type": "validation"}', "error", "no"),
        ("application/json", b'{"detail": "Not Found"}', "detail", "Not Found"),
        ("application/json", b'{"message": "flat", "code": 400}', "other_json", "{'message': 'flat', 'code': 400}"),
        ("application/json", b"[1]", "other_json", "[1]"),
        ("text/html", b"<html>", "text", "<html>"),
        ("text/event-stream", b'data: {"choices": []}\n\ndata: [DONE]\n\n', "stream", ""),
        ("text/event-stream; charset=utf-8", b'data: {"error": {"message": "late"}}\n\n', "stream_error", "late"),
    ],
)
def test_shapes(kind: str, body: bytes, shape: str, message: str) -> None:
    """A3: an error inside a 200 stream is one."""
    reply = Reply(status=200, content_type=kind, body=bytearray(body))
    assert shape_of(reply) == (shape, message)


@given(st.binary(max_size=300), st.sampled_from(["", "application/json", "text/event-stream"]))
def test_any_body_has_a_shape(body: bytes, kind: str) -> None:
    shape, message = shape_of(Reply(status=200, content_type=kind, body=bytearray(body)))
    assert shape
    assert len(message) <= 160
