"""Sends bytes that no HTTP library would, and reads what comes back.

Requests are the script's own bytes. Answers are read with llhttp, as far as they are HTTP at all; of a body the first
256 KiB are kept.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from contextlib import suppress
from dataclasses import dataclass, field

import httptools

from loadgen.clock import now_ns
from server_adapters.anomalies import Await, Ended, Leave, Pause, Script, Send, Step

KEPT_BYTES = 256 * 1024
_READ_BYTES = 64 * 1024
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: on, no time


@dataclass(frozen=True, slots=True)
class Place:
    """`context` None: no TLS. `address`: what is connected to; None: what the host resolves to."""

    host: str
    port: int
    context: ssl.SSLContext | None
    address: str | None = None


@dataclass(slots=True)
class Reply:
    """What one connection gave. `sent_bytes`: that the socket took. `after`: bytes behind the first whole answer."""

    ended: Ended = "closed"
    status: int | None = None
    content_type: str = ""
    body: bytearray = field(default_factory=bytearray)
    body_bytes: int = 0
    sent_bytes: int = 0
    after: int = 0
    seconds: float = 0.0


class _Answer:
    """llhttp's callbacks. What is not HTTP leaves the reply as far as it was."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.head = self.whole = self.broken = False
        self._framed = False  # the head says where the body ends
        self._parser = httptools.HttpResponseParser(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.head:
            return
        if name.lower() == b"content-type":
            self.reply.content_type = value.decode("latin-1")
        self._framed |= name.lower() in (b"content-length", b"transfer-encoding")

    def on_headers_complete(self) -> None:
        if not self.head and self._parser.get_status_code() >= 200:
            self.reply.status, self.head = self._parser.get_status_code(), True

    def on_body(self, data: bytes) -> None:
        if not self.whole:
            self.reply.body += data[: KEPT_BYTES - len(self.reply.body)]
            self.reply.body_bytes += len(data)

    def on_message_complete(self) -> None:
        self.whole = self.head

    def feed(self, data: bytes) -> None:
        if self.whole or self.broken:
            self.reply.after += len(data)
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.broken = not self.whole

    def end(self) -> None:
        """The server has closed: that ends a body which has no other end."""
        self.whole = self.whole or (self.head and not self._framed)


async def send(place: Place, script: Script, answer_s: float, connect_s: float = 10.0) -> list[Reply]:
    """Play a script on its connections, all at once. Never raises but for cancellation; leaves no connection open."""
    limit = answer_s if script.answer_s is None else script.answer_s
    return list(await asyncio.gather(*(_play(place, script, limit, connect_s) for _ in range(script.connections))))


async def _play(place: Place, script: Script, answer_s: float, connect_s: float) -> Reply:
    reply, begun_ns = Reply(), now_ns()
    try:
        async with asyncio.timeout(connect_s):
            reader, writer = await asyncio.open_connection(
                place.address or place.host, place.port, ssl=place.context,
                server_hostname=place.host if place.context else None,
            )  # fmt: skip
    except (OSError, TimeoutError):
        reply.ended, reply.seconds = "refused", (now_ns() - begun_ns) / 1e9
        return reply
    played = _Played(reader, writer, reply)
    begun_ns = now_ns()
    try:
        async with asyncio.timeout(answer_s + _own_s(script.steps)):
            for step in script.steps:
                if await played.step(step):
                    break
    except TimeoutError:
        reply.ended = "timeout"
    except (OSError, asyncio.IncompleteReadError):  # reset, or closed while we sent
        reply.ended = "answered" if played.answer.whole else "closed"
    finally:
        reply.seconds = (now_ns() - begun_ns) / 1e9
        await played.close()
    return reply


def _own_s(steps: tuple[Step, ...]) -> float:
    """Seconds that the steps themselves take."""
    slow = sum(len(s.data) * s.every_s for s in steps if isinstance(s, Send))
    return slow + sum(s.seconds for s in steps if isinstance(s, Pause))


class _Played:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, reply: Reply) -> None:
        self.answer = _Answer(reply)
        self._reader, self._writer, self._reply = reader, writer, reply
        self._over = False

    async def step(self, step: Step) -> bool:
        """True: there is nothing more to do."""
        if isinstance(step, Send):
            return await self._send(step)
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return False
        if isinstance(step, Leave):
            await self._leave(step.reset)
            return True
        return await self._read(step)

    async def _send(self, step: Send) -> bool:
        """Reads meanwhile: what the server says before the last byte would be lost with a reset that follows it."""
        reading = asyncio.create_task(self._read_on())
        try:
            pieces = [step.data] if not step.every_s else [step.data[i : i + 1] for i in range(len(step.data))]
            for piece in pieces:
                self._writer.write(piece)
                await self._writer.drain()
                self._reply.sent_bytes += len(piece)
                if step.every_s:
                    await asyncio.sleep(step.every_s)
                if self.answer.whole:
                    break
        except OSError:
            pass  # closed while we sent: the next step finds what has come
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        return False

    async def _read_on(self) -> None:
        while not self._over:
            await self._take()

    async def _take(self) -> None:
        """One read. After the connection's end there is nothing more to read."""
        try:
            data = await self._reader.read(_READ_BYTES)
        except OSError:
            data = b""
        if data:
            self.answer.feed(data)
        else:
            self.answer.end()
            self._over = True

    async def _read(self, step: Await) -> bool:
        while not self._reached(step) and not self._over and not self.answer.broken:
            await self._take()
        if self._reached(step):
            if self.answer.whole:
                self._reply.ended = "answered"
            return self.answer.whole
        self._reply.ended = "answered" if self.answer.whole else "closed"
        return True

    def _reached(self, step: Await) -> bool:
        if self.answer.whole:
            return True
        if step.what == "head":
            return self.answer.head
        return step.what == "body" and self._reply.body_bytes > 0

    async def _leave(self, reset: bool) -> None:
        self._reply.ended = "left"
        sock: socket.socket | None = self._writer.get_extra_info("socket")
        if reset and sock is not None:
            with suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._writer.transport.abort()

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError, ssl.SSLError, TimeoutError):
            async with asyncio.timeout(1.0):
                await self._writer.wait_closed()
