"""TLS over memory: verification, names, client certificates, records in pieces, and the stamp that completes one."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from loadgen.drive import Exchange, Outcome
from loadgen.drive.kernel import KernelTransport
from loadgen.drive.kernel.tls import Tls

Kernel = Callable[..., KernelTransport]
Send = Callable[..., Awaitable[Exchange]]


def server_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def client_context(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate))


async def test_stamps_are_the_kernels(play: Any, http: Any, kernel: Kernel, send: Send, certificate: Path) -> None:
    server = await play(http.answer(tokens=5, gap_s=0.005), server_context(certificate))
    one = kernel(context=client_context(certificate))
    first, second = await send(one, server.url), await send(one, server.url)
    for exchange in (first, second):
        assert (exchange.complete, exchange.timestamp_source) == (True, "kernel")
        assert len(exchange.piece_ns) >= 5
        assert exchange.sent_ns is not None
        assert exchange.sent_ns < exchange.piece_ns[0]
    assert second.connect_ns is None
    assert server.connections == 1


async def test_large_bodies_both_ways(play: Any, http: Any, kernel: Kernel, send: Send, certificate: Path) -> None:
    """C21: many records up, many down, cut anywhere by the reads."""
    answer = bytes(range(256)) * 8_000
    server = await play([http.whole(answer)], server_context(certificate))
    exchange = await send(kernel(context=client_context(certificate)), server.url, b"p" * 3_000_000)
    assert (exchange.complete, exchange.body) == (True, answer)
    assert len(server.got[0].body) == 3_000_000


async def test_the_name_is_checked(
    play: Any, http: Any, kernel: Kernel, send: Send, certificate: Path, code: Any
) -> None:
    """A certificate of another name is refused; the extension says which name to ask for."""
    seen: list[str] = []
    context = server_context(certificate)
    context.sni_callback = lambda _object, name, _context: seen.append(name)
    server = await play(http.answer(), context)
    one = kernel(context=client_context(certificate))
    wrong = await send(one, server.url, extensions={"sni_hostname": "elsewhere.test"})
    right = await send(one, server.url, extensions={"sni_hostname": "localhost"})
    assert (wrong.failure, code(wrong), wrong.sent_ns) == (Outcome.REFUSED, "tls", None)
    assert right.complete
    assert seen == ["elsewhere.test", "localhost"]


async def test_client_certificate(play: Any, http: Any, kernel: Kernel, send: Send, certificate: Path) -> None:
    """The server asks for one: without it nothing comes back, with it all does."""
    context = server_context(certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(certificate)
    server = await play(http.answer(), context)
    without = await send(kernel(context=client_context(certificate)), server.url)
    own = client_context(certificate)
    own.load_cert_chain(certificate)
    assert (await send(kernel(context=own), server.url)).complete
    assert without.failure in (Outcome.REFUSED, Outcome.TRUNCATED)
    assert len(server.got) == 1


async def test_connect_deadline_covers_the_handshake(kernel: Kernel, send: Send, code: Any) -> None:
    """E26: a peer that takes the connection and says nothing."""

    gone = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.read(-1)  # until the client gives up
        writer.close()
        gone.set()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as listener:
        url = f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        exchange = await send(kernel(connect_s=0.1), url)
        await gone.wait()
    assert (exchange.failure, code(exchange), exchange.sent_ns) == (Outcome.TIMEOUT, "connect", None)


async def test_peer_that_closes_during_the_handshake(kernel: Kernel, send: Send, code: Any) -> None:
    async def rude(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async with await asyncio.start_server(rude, "127.0.0.1", 0) as listener:
        url = f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        exchange = await send(kernel(), url)
    assert (exchange.failure, exchange.sent_ns) == (Outcome.REFUSED, None)


@pytest.mark.parametrize("tail", ["close", "reset"])
async def test_cut_inside_a_stream(
    play: Any, http: Any, kernel: Kernel, send: Send, certificate: Path, tail: str
) -> None:
    server = await play([http.head(), http.chunk(b"abc"), 0.02, tail], server_context(certificate))
    exchange = await send(kernel(context=client_context(certificate)), server.url)
    assert (exchange.failure, exchange.body, exchange.complete) == (Outcome.TRUNCATED, b"abc", False)


class Pair:
    """Both ends of a session in memory."""

    def __init__(self, certificate: Path) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.server = server_context(certificate).wrap_bio(self._in, self._out, server_side=True)
        self.client = Tls(client_context(certificate), "localhost")
        done = False
        while not done:
            done = self.client.shake()
            self._in.write(self.client.to_send())
            with contextlib.suppress(ssl.SSLWantReadError):
                self.server.do_handshake()
            if not done:
                self.client.feed(self._out.read())

    def records(self, data: bytes) -> bytes:
        self.server.write(data)
        return self._out.read()

    def read(self, data: bytes) -> bytes:
        self._in.write(data)
        return self.server.read(1 << 20)


def test_a_record_is_there_with_its_last_byte(certificate: Path) -> None:
    """wire.md 7: the stamp is of the read that completed the record, so nothing may come before, nothing after."""
    pair = Pair(certificate)
    pair.client.decrypt(pair.records(b"warm"))  # with the session tickets
    record = pair.records(b"x" * 279)
    for byte in record[:-1]:
        assert pair.client.decrypt(bytes([byte])) == (b"", False)
    assert pair.client.decrypt(record[-1:]) == (b"x" * 279, False)


def test_several_records_of_one_read_come_together(certificate: Path) -> None:
    pair = Pair(certificate)
    together = pair.records(b"a") + pair.records(b"b") + pair.records(b"c")
    assert pair.client.decrypt(together) == (b"abc", False)


def test_the_end_of_the_session_is_told(certificate: Path) -> None:
    pair = Pair(certificate)
    record = pair.records(b"last")
    with contextlib.suppress(ssl.SSLWantReadError):
        pair.server.unwrap()
    assert pair.client.decrypt(record + pair._out.read()) == (b"last", True)


def test_what_is_encrypted_arrives(certificate: Path) -> None:
    pair = Pair(certificate)
    sent = pair.client.encrypt(b"p" * 10_000)
    assert pair.read(sent) == b"p" * 10_000
