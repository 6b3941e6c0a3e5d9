"""What the kernel transport does beyond the plain one: stamps, reuse, uploads, cancelling, Unix sockets, IPv6."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import select
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvloop

from loadgen.clock import now_ns
from loadgen.drive import Deadlines, Exchange, Outcome, WireLimits, frame
from loadgen.drive.kernel import KernelTransport, make_kernel_transport
from loadgen.drive.kernel.pool import ConnectPacer
from loadgen.drive.watchdog import TokenClock

MS = 1_000_000
Kernel = Callable[..., KernelTransport]
Send = Callable[..., Awaitable[Exchange]]


# ---------------------------------------------------------------- stamps


async def test_every_stamp_is_the_kernels(play: Any, http: Any, kernel: Kernel, send: Send) -> None:
    server = await play(http.answer(tokens=5, gap_s=0.01))
    one = kernel()
    for _ in range(3):
        exchange = await send(one, server.url)
        assert (exchange.timestamp_source, exchange.missing_stamps) == ("kernel", 0)
        assert exchange.end_ns == exchange.piece_ns[-1]
        assert exchange.sent_ns is not None
        assert exchange.headers_ns is not None
        assert exchange.sent_ns < exchange.headers_ns <= exchange.piece_ns[0]
    assert one.stamper.missing == 0
    assert one.offset.steps == []


def contexts(certificate: Path, tls: bool) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    """The server's and the client's, or neither."""
    if not tls:
        return None, None
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate)
    return server, ssl.create_default_context(cafile=str(certificate))


@pytest.mark.parametrize("tls", [False, True], ids=["tcp", "tls"])
async def test_a_blocked_loop_does_not_move_stamps(
    http: Any, thread_server: Any, kernel: Kernel, send: Send, certificate: Path, tls: bool
) -> None:
    """C23: the loop is blocked for 10 ms after every chunk's send; stamps stay where the chunks were sent."""
    server_side, client_side = contexts(certificate, tls)
    go = threading.Semaphore(0)
    chunks = [http.chunk(b"data: %d\n\n" % i) for i in range(10)]
    server = thread_server([http.head(), *chunks, http.end], go=go, tls=server_side)
    task = asyncio.create_task(send(kernel(context=client_side), server.url))
    await asyncio.to_thread(server.asked.acquire)
    freed_ns = []
    for _ in range(12):
        await asyncio.sleep(0.005)  # the last chunk is read
        go.release()
        server.sent.acquire()
        time.sleep(0.01)  # noqa: ASYNC251 the loop is to be blocked
        freed_ns.append(now_ns())
    exchange = await task
    assert (exchange.complete, exchange.timestamp_source, len(exchange.piece_ns)) == (True, "kernel", 10)
    for before_ns, stamp_ns, free_ns in zip(server.before_ns[1:11], exchange.piece_ns, freed_ns[1:11], strict=True):
        assert before_ns <= stamp_ns < free_ns - 5 * MS


@pytest.mark.parametrize("tls", [False, True], ids=["tcp", "tls"])
async def test_merged_chunks_are_one_arrival(
    http: Any, wire: Any, thread_server: Any, kernel: Kernel, send: Send, read: Any, certificate: Path, tls: bool
) -> None:
    """Three sends 10 ms apart while the loop is blocked: one stamp, that of the last, and no invented gaps."""
    server_side, client_side = contexts(certificate, tls)
    deltas = [wire.delta("x", usage=i + 1) for i in range(3)]
    rest = http.chunk(wire.usage(3) + wire.done) + http.end
    go = threading.Semaphore(1)
    server = thread_server([http.head(), *map(http.chunk, deltas), rest], gap_s=0.01, go=go, tls=server_side)
    task = asyncio.create_task(send(kernel(context=client_side), server.url))
    await asyncio.to_thread(server.sent.acquire)
    await asyncio.sleep(0.02)  # the head is read
    go.release(3)
    for _ in deltas:
        server.sent.acquire()
    freed_ns = now_ns()
    await asyncio.sleep(0.02)  # the chunks are read
    go.release()
    exchange = await task
    assert exchange.piece_end[0] == sum(map(len, deltas))
    assert server.before_ns[3] <= exchange.piece_ns[0] <= freed_ns
    attempt = read(exchange)
    assert list(attempt.ledger.arrival_no) == [0, 0, 0]
    assert list(attempt.ledger.tokens) == [1, 1, 1]
    assert attempt.ledger.coalesced == 2
    assert attempt.timestamp_source == "kernel"


async def test_without_the_kernels_help_stamps_are_our_own(
    play: Any, http: Any, kernel: Kernel, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loadgen.drive.kernel.stamps.ask_for_stamps", lambda _sock: False)
    exchange = await send(kernel(), (await play(http.answer())).url)
    assert (exchange.complete, exchange.timestamp_source, exchange.missing_stamps) == (True, "user", None)


async def test_missing_stamps_are_counted(
    play: Any, http: Any, kernel: Kernel, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel says it will stamp, and does not."""
    monkeypatch.setattr("loadgen.drive.kernel.dial.ask_for_stamps", lambda _sock: True)
    exchange = await send(kernel(), (await play(http.answer())).url)
    assert (exchange.complete, exchange.timestamp_source) == (True, "user")
    assert exchange.missing_stamps >= 1


def test_no_epoll_means_the_plain_transport(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(select, "epoll")
    assert not isinstance(make_kernel_transport(Deadlines(MS, None, None, None)), KernelTransport)


# ---------------------------------------------------------------- framing over real sockets


@pytest.mark.parametrize("seed", range(6))
async def test_random_splits_on_the_wire(
    play: Any, http: Any, wire: Any, kernel: Kernel, send: Send, seed: int
) -> None:
    """wire.md 4: whatever the sends are cut into, body and events are the same."""
    rng = random.Random(seed)
    stream = b"".join(wire.delta("x" * rng.randrange(200), usage=i + 1) for i in range(20)) + wire.done
    parts = split(stream, rng, 15)
    whole = http.head() + b"".join(http.chunk(part) for part in parts) + b"0\r\nx-trailer: 1\r\n\r\n"
    steps = [step for part in split(whole, rng, 40) for step in (part, 0.001)]
    server = await play(steps)
    exchange = await send(kernel(), server.url)
    assert (exchange.complete, exchange.body) == (True, stream)
    assert len(frame(bytes(exchange.body))) == 21
    assert list(exchange.piece_ns) == sorted(exchange.piece_ns)
    assert exchange.piece_end[-1] == len(stream)
    assert len(exchange.piece_end) > 5


def split(data: bytes, rng: random.Random, parts: int) -> list[bytes]:
    ends = [*sorted(rng.sample(range(1, len(data)), parts - 1)), len(data)]
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@pytest.mark.parametrize("seed", range(20))
async def test_garbage_ends_in_an_outcome(play: Any, http: Any, kernel: Kernel, send: Send, seed: int) -> None:
    """Bytes flipped, dropped and doubled at random: an outcome within the deadline, and the next request works."""
    rng = random.Random(seed)
    noisy = bytearray(http.head() + http.chunk(b"data: x\n\n") * 5 + http.end)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(noisy))
        noisy[at : at + rng.randrange(2)] = rng.randbytes(rng.randrange(3))
    server = await play(lambda n, _got: [bytes(noisy), "close"] if n == 0 else http.answer())
    one = kernel(idle_s=1)
    exchange = await send(one, server.url)
    assert exchange.complete == (exchange.failure is None)
    assert exchange.failure in (None, Outcome.MALFORMED, Outcome.TRUNCATED)
    assert (await send(one, server.url)).complete


async def test_bytes_after_the_end_close_the_connection(play: Any, http: Any, kernel: Kernel, send: Send) -> None:
    server = await play(lambda n, _got: [http.whole(b"{}") + (b"junk" if n == 0 else b"")])
    one = kernel()
    first, second = await send(one, server.url), await send(one, server.url)
    assert (first.body, first.complete, second.complete) == (b"{}", True, True)
    assert server.connections == 2


# ---------------------------------------------------------------- reuse


async def test_bytes_between_requests_close_the_connection(play: Any, http: Any, kernel: Kernel, send: Send) -> None:
    """An answer nobody asked for must not be taken for the next one's."""
    server = await play(
        lambda n, _got: [http.whole(b"1"), 0.02, http.whole(b"stray")] if n == 0 else [http.whole(b"2")]
    )
    one = kernel()
    assert (await send(one, server.url)).body == b"1"
    await asyncio.sleep(0.1)
    assert one.connections == 0
    assert (await send(one, server.url)).body == b"2"
    assert server.connections == 2


async def test_a_connection_closed_while_idle_is_not_used(play: Any, http: Any, kernel: Kernel, send: Send) -> None:
    """The end may be on its way while the loop is busy: it is looked for once more just before the reuse."""
    server = await play([http.whole(b"{}"), "close"])
    one = kernel()
    for _ in range(5):
        exchange = await send(one, server.url)
        assert (exchange.complete, exchange.failure) == (True, None)
        await asyncio.sleep(0.02)  # the server closes
    assert server.connections == 5


async def test_end_of_an_idle_connection_seen_without_the_loop(http: Any, kernel: Kernel, send: Send) -> None:
    """The stale-connection race: closed by the peer, and the loop has not polled since."""
    closed = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for _ in range(2):
            peer, _address = listener.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(http.whole(b"{}"))
            closed.set()

    thread = threading.Thread(target=serve)
    thread.start()
    one, url = kernel(), f"http://127.0.0.1:{listener.getsockname()[1]}"
    first = await send(one, url)
    closed.wait()  # blocks the loop until the peer has closed
    second = await send(one, url)
    thread.join()
    listener.close()
    assert (first.failure, second.failure) == (None, None)
    assert second.connect_ns is not None


async def test_idle_connections_expire(play: Any, http: Any, kernel: Kernel, send: Send) -> None:
    server = await play(http.answer())
    one = kernel(limits=WireLimits(keepalive_s=0.02))
    await send(one, server.url)
    await asyncio.sleep(0.05)
    assert (await send(one, server.url)).connect_ns is not None
    assert (server.connections, one.connections) == (2, 1)


async def test_set_up_is_recorded_apart_from_the_wait_for_it(play: Any, http: Any, kernel: Kernel, send: Send) -> None:
    """C20, E4: the wait for a turn to connect is told, and no part of the connection's own time."""
    one, server = kernel(), await play(http.answer())
    first, second = await send(one, server.url), await send(one, server.url)
    assert first.connect_wait_ns is not None
    assert first.connect_ns is not None
    assert (second.connect_wait_ns, second.connect_ns) == (None, None)


async def test_connects_are_paced() -> None:
    """E21: a burst, then one a gap."""
    pacer = ConnectPacer(per_s=100, burst=2, at_once=10)
    begun_ns, waited_ns = now_ns(), 0
    for _ in range(6):
        async with pacer.turn() as wait_ns:
            waited_ns += wait_ns
    assert now_ns() - begun_ns >= 3 * 10 * MS
    assert 0 < waited_ns <= now_ns() - begun_ns


async def test_no_more_connects_at_once_than_allowed() -> None:
    pacer = ConnectPacer(per_s=100_000, at_once=3)
    live, most = 0, 0

    async def connect() -> None:
        nonlocal live, most
        async with pacer.turn():
            live += 1
            most = max(most, live)
            await asyncio.sleep(0.002)
            live -= 1

    await asyncio.gather(*(connect() for _ in range(12)))
    assert most == 3


# ---------------------------------------------------------------- uploads


@contextlib.asynccontextmanager
async def slow_reader(reply: bytes, read_all: bool) -> AsyncIterator[tuple[str, list[int]]]:
    """A server with small buffers that reads 64 KiB a millisecond, or answers after the first of them."""
    got = [0, 0]  # bytes, when the last came

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                got[0] += len(data)
                got[1] = now_ns()
                if b"END" in data[-3:] or not read_all:
                    break
                await asyncio.sleep(0.001)
            writer.write(reply)
            await writer.drain()

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    listener.bind(("127.0.0.1", 0))
    async with await asyncio.start_server(serve, sock=listener, limit=65536):
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", got


async def test_sent_is_when_the_last_byte_is_handed_over(http: Any, kernel: Kernel, send: Send) -> None:
    """C21: the reader is slow, so that most of the prompt waits: sent is near its end, not its start."""
    body = b"p" * 20_000_000 + b"END"
    async with slow_reader(http.whole(b"{}"), read_all=True) as (url, got):
        begun_ns = now_ns()
        exchange = await send(kernel(idle_s=5), url, body)
    assert (exchange.complete, exchange.failure) == (True, None)
    assert got[0] > len(body)
    assert exchange.sent_ns is not None
    assert begun_ns + (got[1] - begun_ns) // 4 < exchange.sent_ns < got[1]
    assert exchange.headers_ns is not None
    assert exchange.headers_ns > exchange.sent_ns


async def test_an_answer_before_the_upload_ends_counts(kernel: Kernel, send: Send) -> None:
    """A server that says no to a long prompt after its first bytes, and closes."""
    reply = b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno"
    async with slow_reader(reply, read_all=False) as (url, _got):
        one = kernel(idle_s=2)
        exchange = await send(one, url, b"p" * 20_000_000)
    assert exchange.status == 413 or (exchange.failure, exchange.status) == (Outcome.TRUNCATED, None)
    assert exchange.sent_ns is None
    assert one.connections == 0


async def test_a_reader_that_stops_meets_the_idle_deadline(kernel: Kernel, send: Send, code: Any) -> None:
    """E28: bytes idle counts for what is sent too."""
    listener = socket.create_server(("127.0.0.1", 0))
    exchange = await send(kernel(idle_s=0.1), f"http://127.0.0.1:{listener.getsockname()[1]}", b"p" * 20_000_000)
    listener.close()
    assert (exchange.failure, code(exchange), exchange.sent_ns) == (Outcome.TIMEOUT, "byte_idle", None)


async def test_a_body_of_unknown_length_is_sent_chunked(play: Any, http: Any, kernel: Kernel) -> None:
    seen = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"0\r\n\r\n"))
        writer.write(http.whole(b"{}"))
        writer.close()
        await writer.wait_closed()

    async def content() -> AsyncIterator[bytes]:
        yield b"abc"
        yield b"de"

    async with (
        await asyncio.start_server(serve, "127.0.0.1", 0) as listener,
        httpx.AsyncClient(transport=kernel()) as client,
    ):
        port = listener.sockets[0].getsockname()[1]
        answer = await client.post(f"http://127.0.0.1:{port}/a?b=c", content=content())
    assert answer.json() == {}
    assert seen[0].startswith(b"POST /a?b=c HTTP/1.1\r\n")
    assert seen[0].endswith(b"\r\n\r\n5\r\nabcde\r\n0\r\n\r\n")


@pytest.mark.parametrize("header", [("x", "a\r\nb: c"), ("x y", "1"), ("x", "a\x00")])
async def test_a_header_that_breaks_the_head_is_our_fault(
    kernel: Kernel, send: Send, code: Any, header: tuple[str, str], free_port: int
) -> None:
    exchange = await send(kernel(), f"http://127.0.0.1:{free_port}", headers=[header])
    assert (exchange.failure, code(exchange)) == (Outcome.CLIENT_FAULT, "LocalProtocolError")


async def test_expect_continue(play: Any, http: Any, kernel: Kernel, send: Send) -> None:
    """The interim answer is passed over; the body is sent without waiting for it."""
    server = await play([b"HTTP/1.1 100 Continue\r\n\r\n", *http.answer()])
    exchange = await send(kernel(), server.url, b"{}", headers={"expect": "100-continue"})
    assert (exchange.status, exchange.complete, server.got[0].body) == (200, True, b"{}")


# ---------------------------------------------------------------- cancelling


async def cancel_after(task: asyncio.Task[Exchange], delay_s: float) -> None:
    await asyncio.sleep(delay_s)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_cancel_during_an_upload(kernel: Kernel, send: Send) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    one = kernel()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    await cancel_after(asyncio.create_task(send(one, url, b"p" * 20_000_000)), 0.05)
    listener.close()
    assert one.connections == 0


@contextlib.contextmanager
def full_backlog() -> Iterator[str]:
    """A listener whose queue is full: further connects get no answer."""
    with socket.socket() as listener, contextlib.ExitStack() as fillers:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = fillers.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


async def test_cancel_while_connecting(kernel: Kernel, send: Send) -> None:
    """E5: nothing is left of a connection that was being made."""
    before = len(os.listdir("/proc/self/fd"))
    with full_backlog() as url:
        one = kernel(connect_s=30)
        await cancel_after(asyncio.create_task(send(one, url)), 0.05)
        assert one.connections == 0
    await one.aclose()
    assert len(os.listdir("/proc/self/fd")) == before


async def test_cancel_storm_leaks_no_descriptor(play: Any, http: Any, kernel: Kernel, send: Send) -> None:
    """E5: cancelled at every stage; every descriptor is given back, and no answer meets another's request."""
    server = await play(lambda _n, got: [http.head(), http.chunk(got.body), 0.002, http.end])
    before = len(os.listdir("/proc/self/fd"))
    one, rng = kernel(), random.Random(1)
    for wave in range(15):
        bodies = [b"%d-%d" % (wave, i) for i in range(20)]
        tasks = [asyncio.create_task(send(one, server.url, body)) for body in bodies]
        for task in tasks:
            await asyncio.sleep(rng.choice([0, 0, 0.001]))
            rng.choice(tasks if rng.random() < 0.5 else [task]).cancel()
        for body, done in zip(bodies, await asyncio.gather(*tasks, return_exceptions=True), strict=True):
            assert isinstance(done, asyncio.CancelledError) or (done.body, done.complete) == (body, True)
    assert one.connections <= 20
    await one.aclose()
    assert one.connections == 0
    for _ in range(200):
        if len(os.listdir("/proc/self/fd")) <= before:
            break
        await asyncio.sleep(0.01)  # the server's ends
    assert len(os.listdir("/proc/self/fd")) <= before


async def test_closing_the_transport_ends_what_is_in_flight(play: Any, http: Any, kernel: Kernel, send: Send) -> None:
    server = await play([http.head(), "hang"])
    one = kernel()
    task = asyncio.create_task(send(one, server.url))
    await asyncio.sleep(0.05)
    await one.aclose()
    assert (await task).failure is Outcome.CLIENT_FAULT


async def test_closing_the_transport_ends_what_connects(kernel: Kernel, send: Send) -> None:
    with full_backlog() as url:
        one = kernel(connect_s=30)
        task = asyncio.create_task(send(one, url))
        await asyncio.sleep(0.05)
        await one.aclose()
        exchange = await task
    assert (exchange.failure, exchange.sent_ns) == (Outcome.CLIENT_FAULT, None)


@pytest.mark.parametrize("cut", [False, True])
async def test_requests_leave_no_cycles(play: Any, http: Any, kernel: Kernel, send: Send, cut: bool) -> None:
    """wire.md 7: with rare collections, garbage in cycles would hold every body."""
    server = await play([*http.answer()[:-1], "close"] if cut else http.answer())
    one = kernel()
    await send(one, server.url)
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            await send(one, server.url)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = [type(found).__name__ for found in gc.garbage]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not {"Answer", "Job", "HttpResponseParser", "Exchange", "bytearray"} & set(left)


# ---------------------------------------------------------------- addresses


def serve_answers(http: Any) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await reader.readuntil(b"\r\n\r\n{}")
                writer.writelines([step for step in http.answer() if isinstance(step, bytes)])

    return serve


async def test_ipv6(http: Any, kernel: Kernel, send: Send) -> None:
    one = kernel()
    async with await asyncio.start_server(serve_answers(http), "::1", 0) as listener:
        url = f"http://[::1]:{listener.sockets[0].getsockname()[1]}"
        exchange = await send(one, url)
        again = await send(one, url)
        await one.aclose()
    assert (exchange.complete, exchange.timestamp_source) == (True, "kernel")
    assert again.connect_ns is None


async def test_a_name_with_an_address_that_refuses(http: Any, kernel: Kernel, send: Send) -> None:
    """`localhost` may be ::1 first, where nobody listens."""
    one = kernel()
    async with await asyncio.start_server(serve_answers(http), "127.0.0.1", 0) as listener:
        url = f"http://localhost:{listener.sockets[0].getsockname()[1]}"
        found = await asyncio.gather(*(send(one, url) for _ in range(5)))
        await one.aclose()
    assert all(exchange.complete for exchange in found)


@pytest.mark.parametrize("as_url", [False, True])
async def test_unix_socket(http: Any, kernel: Kernel, send: Send, as_url: bool) -> None:
    """By `http+unix` URL or by extension. The kernel stamps no Unix sockets, and that is said."""
    one = kernel()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/{'s' if as_url else 'S'}.sock"
        async with await asyncio.start_unix_server(serve_answers(http), path):
            if as_url:
                exchange = await send(one, "http+unix://" + path.replace("/", "%2F") + "/v1/x")
            else:
                exchange = await send(one, "http://server/v1/x", extensions={"uds": path})
            await one.aclose()
    assert (exchange.failure, exchange.complete) == (None, True)
    assert (exchange.timestamp_source, exchange.missing_stamps) == ("user", None)


async def test_a_unix_socket_that_is_not_there(kernel: Kernel, send: Send, code: Any, tmp_path: Path) -> None:
    exchange = await send(kernel(), "http://server/", extensions={"uds": str(tmp_path / "none")})
    assert (exchange.failure, code(exchange)) == (Outcome.REFUSED, "connect")


async def test_other_schemes_are_our_fault(kernel: Kernel, send: Send, code: Any) -> None:
    exchange = await send(kernel(), "ftp://127.0.0.1/")
    assert (exchange.failure, code(exchange)) == (Outcome.CLIENT_FAULT, "UnsupportedProtocol")


# ---------------------------------------------------------------- loops and the driver


@pytest.mark.usefixtures("reader")
def test_it_works_on_uvloop(http: Any, send: Send) -> None:
    async def run() -> Exchange:
        one = make_kernel_transport(Deadlines(2_000 * MS, 500 * MS, None, None))
        assert isinstance(one, KernelTransport)
        async with await asyncio.start_server(serve_answers(http), "127.0.0.1", 0) as listener:
            url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
            first = await send(one, url)
            assert first.complete
            second = await send(one, url)
            await one.aclose()
        return second

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        exchange = runner.run(run())
    assert (exchange.complete, exchange.timestamp_source, exchange.connect_ns) == (True, "kernel", None)


@pytest.mark.usefixtures("reader")
async def test_a_segment_driven_over_it(
    play: Any, http: Any, driver: Any, segments: Any, sink: Any, soon: Callable[[], int]
) -> None:
    server = await play(http.answer(tokens=4, gap_s=0.002))
    due_ms = [5.0 * i for i in range(30)]
    result = await driver(server.url, transport=make_kernel_transport).run(segments.open(due_ms), soon())
    assert (result.accounting.sent, sink.outcomes) == (30, {"ok": 30})
    for attempt in sink.attempts:
        assert attempt.timestamp_source == "kernel"
        assert list(attempt.ledger.tokens) == [1, 1, 1, 1]
        assert attempt.sent_ns < attempt.ledger.arrival_ns[0]


# ---------------------------------------------------------------- what is aside


async def test_chunks_as_few_servers_write_them(play: Any, http: Any, kernel: Kernel, send: Send) -> None:
    """wire.md 4: an extension in the middle of a stream, a size in capitals with zeros, trailers: the same body."""
    odd = [b"5;a=b\r\nabcde\r\n", 0.002, b"000C\r\nfghijklmnopq\r\n", 0.002, b"0\r\nx-sum: 1\r\n", 0.002, b"\r\n"]
    server = await play([http.head(), http.chunk(b"123"), 0.002, http.chunk(b"45"), 0.002, *odd])
    one = kernel()
    for _ in range(2):
        exchange = await send(one, server.url)
        assert (exchange.body, exchange.complete) == (b"12345abcdefghijklmnopq", True)
        assert (exchange.timestamp_source, list(exchange.piece_end)) == ("kernel", [3, 5, 10, 22])
    assert server.connections == 1


@pytest.mark.parametrize("end", ["cancel", "reset", "close"])
async def test_nothing_read_is_lost_when_a_stream_is_cut(
    play: Any, http: Any, kernel: Kernel, end: str, send: Send
) -> None:
    """A4, E5: however a stream ends, its exchange has every byte and stamp that came before."""
    chunks = [step for i in range(5) for step in (http.chunk(b"data: %d\n\n" % i), 0.002)]
    server = await play([http.head(), 0.002, *chunks, "hang" if end == "cancel" else end])
    exchange, one = Exchange(), kernel()
    task = asyncio.create_task(send(one, server.url, exchange=exchange))
    if end == "cancel":
        for _ in range(5000):
            if len(seen(exchange)) == 45:
                break
            await asyncio.sleep(0.001)
        await cancel_after(task, 0)
    else:
        await task
        assert (exchange.failure, exchange.complete) == (Outcome.TRUNCATED, False)
    assert exchange.body == b"".join(b"data: %d\n\n" % i for i in range(5))
    assert list(exchange.piece_end) == [9, 18, 27, 36, 45]
    assert exchange.timestamp_source == "kernel"
    assert exchange.refresh is None


def seen(exchange: Exchange) -> bytearray:
    if exchange.refresh is not None:
        exchange.refresh()
    return exchange.body


async def test_a_stream_in_progress_can_be_looked_at(
    play: Any, http: Any, wire: Any, kernel: Kernel, send: Send, adapter: Any
) -> None:
    """E30: the watchdog sees the tokens that have come, not only those that have been framed."""
    deltas = [step for i in range(4) for step in (http.chunk(wire.delta("x", usage=i + 1)), 0.03)]
    server = await play([http.head(), *deltas, http.end])
    exchange = Exchange()
    task = asyncio.create_task(send(kernel(), server.url, exchange=exchange))
    clock, told = TokenClock(exchange, adapter), set[int | None]()
    while not task.done():
        told.add(clock.look())
        await asyncio.sleep(0.002)
    await task
    assert set(exchange.piece_ns[:-1]) <= told
    assert exchange.complete


async def test_a_fault_seen_by_a_look_ends_the_request(play: Any, http: Any, kernel: Kernel, send: Send) -> None:
    """C11: a limit that is met while somebody looks ends this request, and raises nothing at whoever looked."""
    server = await play([http.head(), 0.01, *[http.chunk(b"x" * 50) for _ in range(10)], "hang"])
    exchange = Exchange()
    one = kernel(limits=WireLimits(max_body_bytes=120))
    task = asyncio.create_task(send(one, server.url, exchange=exchange))
    while not task.done():
        seen(exchange)
        await asyncio.sleep(0.001)
    assert (exchange.failure, exchange.failure_detail) == (
        Outcome.MALFORMED,
        "body_too_large: more than 120 bytes",
    )


async def test_streams_read_by_the_clock(
    play: Any, http: Any, kernel: Kernel, send: Send, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C21: at a high rate, here at any, the clock wakes the loop; every chunk keeps its stamp, heads do not wait."""
    monkeypatch.setattr("loadgen.drive.kernel.pace._ON_PER_S", 0)
    monkeypatch.setattr("loadgen.drive.kernel.pace._OFF_PER_S", -1)
    chunks = [step for i in range(20) for step in (http.chunk(b"data: %d\n\n" % i), 0.003)]
    server = await play([http.head(), 0.003, *chunks, http.end])
    one = kernel()
    found = await asyncio.gather(*(send(one, server.url) for _ in range(30)))
    assert all(exchange.complete for exchange in found)
    assert {exchange.timestamp_source for exchange in found} == {"kernel"}
    assert {bytes(exchange.body) for exchange in found} == {b"".join(b"data: %d\n\n" % i for i in range(20))}
    assert one._wire is not None
    assert one._wire.poller._pace.on == (reader == "c")
    later = await send(one, server.url)
    assert (later.complete, later.connect_ns) == (True, None)
