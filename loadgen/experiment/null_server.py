"""A server that does nothing but stream, to measure a client against. Run as a file, in a process of its own.

    GET /stream?n=15&every_us=20000    n events of a chunked body, every_us apart; each carries when it was sent
    GET /whole                         a short answer
    GET /late                          how late the events since the last look were sent, P99 in ns; then forgets them

It prints its port on one line and ends when its standard input closes, so it does not outlive its parent. Times are
CLOCK_MONOTONIC ns. Imports nothing of loadgen, so that it starts at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import sys
import time
from typing import cast
from urllib.parse import parse_qs, urlsplit

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_END = b"0\r\n\r\n"
_PAD = "x" * 150  # an event of the size that servers send
_MOST_EVENTS = 100_000


class _Stream:
    """Events still to be sent on one connection."""

    __slots__ = ("due_ns", "every_ns", "left", "transport")

    def __init__(self, transport: asyncio.WriteTransport, left: int, every_ns: int) -> None:
        self.transport = transport
        self.left = left
        self.every_ns = every_ns
        self.due_ns = time.monotonic_ns() + every_ns


class Pacer:
    """Sends the events of all streams when they are due, from one timer."""

    def __init__(self) -> None:
        self.late_ns: list[int] = []
        self._loop = asyncio.get_running_loop()
        self._due: list[tuple[int, int, _Stream]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._count = 0

    def add(self, stream: _Stream) -> None:
        self._push(stream)
        self._wake()

    def _push(self, stream: _Stream) -> None:
        self._count += 1
        heapq.heappush(self._due, (stream.due_ns, self._count, stream))

    def _wake(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._due:
            wait_s = max(0, self._due[0][0] - time.monotonic_ns()) / 1e9
            self._timer = self._loop.call_later(wait_s, self._send)

    def _send(self) -> None:
        until_ns = time.monotonic_ns()
        while self._due and self._due[0][0] <= until_ns:
            _, _, stream = heapq.heappop(self._due)
            if stream.transport.is_closing():
                continue
            now_ns = time.monotonic_ns()
            self.late_ns.append(now_ns - stream.due_ns)
            event = f'data: {{"sent_ns":{now_ns},"text":"{_PAD}"}}\n\n'
            stream.left -= 1
            stream.transport.write(f"{len(event):x}\r\n{event}\r\n".encode() + (b"" if stream.left else _END))
            if stream.left:
                stream.due_ns += stream.every_ns
                self._push(stream)
        self._wake()


class NullProtocol(asyncio.Protocol):
    """One connection, kept alive; requests have no body."""

    def __init__(self, pacer: Pacer) -> None:
        self._pacer = pacer
        self._head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        self._head += data
        while b"\r\n\r\n" in self._head:
            head, _, self._head = self._head.partition(b"\r\n\r\n")
            self._answer(head.split(b" ", 2)[1].decode("latin-1"))

    def _answer(self, target: str) -> None:
        url = urlsplit(target)
        if url.path == "/stream":
            query = parse_qs(url.query)
            events = min(int(query["n"][0]), _MOST_EVENTS)
            self._transport.write(_HEAD)
            self._pacer.add(_Stream(self._transport, events, int(query["every_us"][0]) * 1000))
        elif url.path == "/late":
            late = sorted(self._pacer.late_ns)
            self._pacer.late_ns.clear()
            self._whole(str(late[-(-99 * len(late) // 100) - 1] if late else 0))
        else:
            self._whole("null")

    def _whole(self, text: str) -> None:
        self._transport.write(f"HTTP/1.1 200 OK\r\ncontent-length: {len(text)}\r\n\r\n{text}".encode())


async def serve() -> None:
    """Until standard input closes."""
    loop = asyncio.get_running_loop()
    pacer = Pacer()
    server = await loop.create_server(lambda: NullProtocol(pacer), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await loop.run_in_executor(None, sys.stdin.buffer.read)


def main() -> None:
    factory = None
    with contextlib.suppress(ImportError):
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serve())


if __name__ == "__main__":
    main()
