"""The C reader: what it keeps aside becomes the same exchange as reads that were fed one by one, whatever comes."""

from __future__ import annotations

import errno
import os
import random
import select
import socket
import struct
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import httpcore
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from loadgen.drive import Exchange, WireLimits
from loadgen.drive.kernel import aside as parts
from loadgen.drive.kernel.answer import Answer
from loadgen.drive.kernel.aside import (
    CHUNKED,
    END,
    ENDED,
    ERROR,
    FULL,
    LATER,
    NO_STAMP,
    ODD,
    OPEN,
    SIZED,
    UNSTAMPED,
    Aside,
)
from loadgen.drive.kernel.clock_offset import WallOffset
from loadgen.drive.kernel.side_reader import SideReader, fault_of
from loadgen.drive.kernel.stamps import Stamper, ask_for_stamps
from loadgen.drive.transport import BodyTooLarge

FD = 7  # of no socket: bytes are put
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
USER_NS = 10**12  # what the clock says where a stamp is missing
WALL = WallOffset()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="epoll is Linux's")
def test_the_c_reader_is_built() -> None:
    """An install without a compiler is allowed to have none; CI is not."""
    if parts._reader is None:
        reason = "the C reader is not built: python setup.py build_ext --inplace"
        if os.environ.get("SPECLOAD_NO_SKIP") == "1":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    assert parts.reader_name() == ("python" if os.environ.get("SPECLOAD_READER") == "python" else "c")


@pytest.fixture
def c(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    if parts._reader is None:
        pytest.skip("the C reader is not built: python setup.py build_ext --inplace")
    monkeypatch.setattr("loadgen.drive.kernel.answer.now_ns", lambda: USER_NS)
    reader = parts._reader.Reader()
    yield reader
    reader.close()


# ---------------------------------------------------------------- the same as fed one by one

Reads = list[tuple[bytes, int | None]]


def by_python(reads: Reads, ends: bool, limits: WireLimits) -> dict[str, Any]:
    exchange = Exchange()
    answer, fault = Answer(exchange, limits), None
    try:
        for data, stamp_ns in reads:
            answer.feed(data, stamp_ns)
            if answer.done:
                break
        if ends and not answer.done:
            answer.eof()
    except (httpcore.RemoteProtocolError, BodyTooLarge) as error:
        fault = error
    return found(exchange, answer, fault)


def by_c(
    reader: Any, reads: Reads, ends: bool, limits: WireLimits, looks: Callable[[], bool] = lambda: False
) -> dict[str, Any]:
    """As a connection does it. `looks`: whether somebody wants to see what has come so far."""
    exchange = Exchange()
    answer, fault, fresh = Answer(exchange, limits), None, True
    side = SideReader(reader, FD, Stamper(WALL))
    try:
        for data, stamp_ns in reads:
            if side.on:
                why = reader.put(FD, data, NO_STAMP if stamp_ns is None else stamp_ns)
                if why or looks():
                    side.give(answer, why)
            else:
                answer.feed(data, stamp_ns)
                if fresh and exchange.status is not None and not answer.done:
                    fresh = False
                    side.begin(answer, data)
            if answer.done:
                break
        if side.on:
            side.give(answer)
        if ends and not answer.done:
            answer.eof()
    except (httpcore.RemoteProtocolError, BodyTooLarge) as error:
        fault = error
    finally:
        side.end()
    return found(exchange, answer, fault)


def found(exchange: Exchange, answer: Answer, fault: Exception | None) -> dict[str, Any]:
    answer.close()
    facts: dict[str, Any] = {name: getattr(exchange, name) for name in (
        "status", "headers", "headers_ns", "body", "piece_ns", "piece_end", "complete", "timestamp_source",
        "missing_stamps",
    )}  # fmt: skip
    return {**facts, "done": answer.done, "keep_alive": answer.keep_alive, "last_ns": answer.last_ns,
            "fault": repr(fault)}  # fmt: skip


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """A whole answer in any framing, chunks also as few servers write them; now and then it is damaged."""
    pieces = draw(st.lists(st.binary(min_size=1, max_size=40), max_size=10))
    framing = draw(st.sampled_from(["chunked", "sized", "open", "both"]))
    body = b"".join(pieces)
    head = HEAD + (b"content-length: %d\r\n" % len(body) if framing in ("sized", "both") else b"")
    if framing in ("chunked", "both"):
        head += b"transfer-encoding: chunked\r\n"
        size = draw(st.sampled_from([b"%x", b"%X", b"%04x", b"%020x", b"%x;a=b", b'%x;q="x"', b"%x \t"]))
        line = draw(st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n"]))
        body = b"".join(size % len(piece) + line + piece + b"\r\n" for piece in pieces)
        body += draw(st.sampled_from([b"0\r\n\r\n", b"000\r\n\r\n", b"0\r\nx-sum: 1\r\n\r\n", b"0;a\r\n\r\n"]))
    whole = bytearray(draw(st.sampled_from([b"", b"HTTP/1.1 103 x\r\n\r\n"])) + head + b"\r\n" + body)
    whole += draw(st.sampled_from([b"", b"", b"stray"]))
    for at in draw(st.lists(st.integers(0, len(whole) - 1), max_size=2)) if draw(st.booleans()) else []:
        whole[at] = draw(st.sampled_from([*b"\r\n0aG;x\x00\xff"]))
    return bytes(whole)


@st.composite
def cuts(draw: st.DrawFn) -> Reads:
    """An answer in reads, with stamps that rise, stay, and now and then fall or are missing."""
    whole, stamp_ns, reads = draw(answers()), 1000, []
    widest = draw(st.sampled_from([1, 5, 60, 1000]))
    while whole:
        size = draw(st.integers(1, widest))
        stamp_ns += draw(st.sampled_from([0, 1, 7, 7, 7, -3]))
        reads.append((whole[:size], None if draw(st.integers(0, 30)) == 30 else stamp_ns))
        whole = whole[size:]
    return reads


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts(), st.booleans(), st.randoms(use_true_random=False))
@example([(HEAD + b"transfer-encoding: chunked\r\n\r\n", 1), (b"2\r\nab\r\n", 1), (b"1;\n", 2)], True, random.Random(1))
def test_the_same_as_fed_one_by_one(c: Any, reads: Reads, ends: bool, chance: random.Random) -> None:
    """wire.md 3, 4: bodies, pieces, stamps, ends and faults do not depend on who reads, nor on when it is looked at."""
    limits = WireLimits(max_body_bytes=300)
    wanted = by_python(reads, ends, limits)
    assert by_c(c, reads, ends, limits) == wanted
    assert by_c(c, reads, ends, limits, lambda: chance.random() < 0.3) == wanted


def test_long_streams_are_given_in_parts(c: Any) -> None:
    """More than is kept aside: every chunk of its own read keeps its own stamp."""
    reads: Reads = [(HEAD + b"transfer-encoding: chunked\r\n\r\n", 5)]
    reads += [(b"64\r\n" + b"x" * 100 + b"\r\n", 10 * i) for i in range(1, 1000)]
    reads.append((b"0\r\n\r\n", 10_000))
    facts = by_c(c, reads, False, WireLimits())
    assert facts == by_python(reads, False, WireLimits())
    assert (len(facts["piece_ns"]), facts["done"], facts["last_ns"]) == (999, True, 10_000)


def test_what_the_reader_gets_wrong_is_seen(c: Any) -> None:
    """llhttp is the judge. Where it finds another body, all of what came has the last stamp, and Python reads on."""
    exchange = Exchange()
    answer = Answer(exchange, WireLimits())
    answer.feed(HEAD + b"transfer-encoding: chunked\r\n\r\n1\r\na\r\n", 5)
    assert answer.feed_aside(Aside(b"2\r\nbc\r\n", pair(7, 7), one(7), one(4), 4, 7), True) is False
    assert (list(exchange.piece_ns), list(exchange.piece_end)) == ([5, 7], [1, 3])


def pair(stamp_ns: int, size: int) -> bytes:
    return struct.pack("qq", stamp_ns, size)


def one(number: int) -> bytes:
    return struct.pack("q", number)


# ---------------------------------------------------------------- when Python is wanted


@pytest.mark.parametrize(
    ("framing", "left", "reads", "whys"),
    [
        (
            CHUNKED,
            0,
            [b"3\r\nabc\r\n", b"1", b"0\r\n", b"x" * 16, b"\r", b"\n0\r", b"\n\r\n"],
            [0, 0, 0, 0, 0, END, END],
        ),
        (CHUNKED, 0, [b"3;a=b\r\nabc\r\n", b"0\r\n\r\n"], [ODD, END]),
        (CHUNKED, 0, [b"3\r\nabcd"], [ODD]),
        (CHUNKED, 0, [b"\r\n"], [ODD]),
        (CHUNKED, 0, [b"0" * 16 + b"1\r\n"], [ODD]),
        (SIZED, 5, [b"abc", b"de"], [0, END]),
        (SIZED, 5, [b"abcdefgh"], [END]),
        (OPEN, 0, [b"abc", b"0\r\n\r\n"], [0, 0]),
        (OPEN, 0, [b"x" * 20_000, b"x"], [FULL, FULL]),
        (CHUNKED, 0, [b"1\r\nx\r\n"] * 512, [*[0] * 511, FULL]),
    ],
)
def test_why_python_is_wanted(c: Any, framing: int, left: int, reads: list[bytes], whys: list[int]) -> None:
    assert c.attach(FD, framing, left, b"", 0, 9**9, 0)
    assert [c.put(FD, data, 1) for data in reads] == whys


def test_a_read_without_stamp_is_told_at_once(c: Any) -> None:
    c.attach(FD, OPEN, 0, b"", 0, 9**9, 0)
    assert c.put(FD, b"a", NO_STAMP) == UNSTAMPED
    aside = Aside(*c.take(FD))
    assert (aside.raw, aside.number, aside.unstamped) == (b"a", 1, 1)


@pytest.mark.parametrize(
    ("tail", "body", "taken"),
    [(b"", 0, True), (b"2\r\nab", 2, True), (b"2\r\nab", 1, False), (b"2;x\r\nab", 2, False), (b"0\r\n", 0, False)],
)
def test_the_tail_of_the_head_must_be_plain(c: Any, tail: bytes, body: int, taken: bool) -> None:
    """Where the reader cannot tell where in a chunk it begins, it does not begin."""
    assert c.attach(FD, CHUNKED, 0, tail, body, 9**9, 0) is taken
    c.detach(FD)


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.attach(-1, OPEN, 0, b"", 0, 9**9, 0),
        lambda c: c.attach(1 << 30, OPEN, 0, b"", 0, 9**9, 0),
        lambda c: c.attach(FD, 9, 0, b"", 0, 9**9, 0),
        lambda c: c.attach(FD, SIZED, -1, b"", 0, 9**9, 0),
        lambda c: (c.attach(FD, OPEN, 0, b"", 0, 9**9, 0), c.attach(FD, OPEN, 0, b"", 0, 9**9, 0)),
        lambda c: c.take(FD),
        lambda c: c.take(1 << 40),
        lambda c: c.take(-5),
        lambda c: c.read(FD, 0, 0),
        lambda c: c.put(FD, b"", 0),
        lambda c: c.pace(-1),
        lambda c: c.attach("x"),
        lambda c: type(c)(1),
    ],
)
def test_wrong_calls_are_refused(c: Any, call: Callable[[Any], Any]) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        call(c)


def test_memory_is_flat(c: Any) -> None:
    """Many streams, whole, cut and forgotten: nothing is left of them."""

    def many(streams: int) -> None:
        for number in range(streams):
            c.attach(FD + number % 50, OPEN, 0, b"", 0, 9**9, 0)
            for size in (10, 3000, 70_000 if number % 10 == 0 else 1):
                c.put(FD + number % 50, b"x" * size, size)
            if number % 3:
                c.take(FD + number % 50)
            c.detach(FD + number % 50)

    many(100)
    tracemalloc.start()
    try:
        many(1)
        before = tracemalloc.get_traced_memory()[0]
        many(2000)
        assert tracemalloc.get_traced_memory()[0] - before < 1000
        c.attach(FD, OPEN, 0, b"", 0, 9**9, 0)
        c.put(FD, b"x" * 50_000, 1)
        assert tracemalloc.get_traced_memory()[0] - before > 50_000
        c.close()
        assert tracemalloc.get_traced_memory()[0] - before < 1000
    finally:
        tracemalloc.stop()
    c.close()
    assert c.attach(FD, OPEN, 0, b"", 0, 9**9, 0)


# ---------------------------------------------------------------- sockets


@pytest.fixture
def tcp() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Ours, whose reads are stamped, and the peer's end. The kernel begins to stamp a moment after the first socket of
    the machine has asked for it."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as ours:
        ask_for_stamps(ours)
        ours.connect(listener.getsockname())
        ours.setblocking(False)
        with listener.accept()[0] as peer:
            end_s = time.monotonic() + 30
            stamped = False
            while not stamped:
                assert time.monotonic() < end_s, "the kernel stamps nothing"
                peer.send(b"x")
                select.select([ours], [], [])
                stamped = bool(ours.recvmsg(1, 512)[1])
            yield ours, peer


def serve(c: Any, *sockets: socket.socket, spread: bool = False) -> tuple[int, int, Any]:
    with select.epoll() as epoll:
        for one in sockets:
            epoll.register(one.fileno(), select.EPOLLIN)
        found: tuple[int, int, Any] = c.serve(epoll.fileno(), 10, WALL.offset_ns, WALL.uncertainty_ns, spread)
    return found


def test_only_those_that_want_python_are_told(c: Any, tcp: tuple[socket.socket, socket.socket]) -> None:
    ours, peer = tcp
    fd = ours.fileno()
    assert serve(c, ours) == (0, 0, None)
    peer.send(b"abc")
    assert serve(c, ours) == (1, 0, [(fd, select.EPOLLIN)])
    c.attach(fd, SIZED, 5, b"", 0, 9**9, 0)
    assert serve(c, ours) == (1, 1, None)
    peer.send(b"de")
    assert serve(c, ours) == (1, 1, [(fd, -END)])
    assert Aside(*c.take(fd)).raw == b"abcde"


def test_the_end_and_faults_of_the_socket_are_told(c: Any, tcp: tuple[socket.socket, socket.socket]) -> None:
    ours, peer = tcp
    c.attach(ours.fileno(), OPEN, 0, b"", 0, 9**9, 0)
    assert c.read(ours.fileno(), 0, 0) == 0  # nothing has come
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    assert c.read(ours.fileno(), 0, 0) == ERROR + errno.ECONNRESET
    assert isinstance(fault_of(ERROR + errno.ECONNRESET), ConnectionResetError)
    assert fault_of(END) is None
    assert c.read(ours.fileno(), 0, 0) == ENDED


def test_a_stream_whose_answer_has_begun_is_told_once(c: Any, tcp: tuple[socket.socket, socket.socket]) -> None:
    ours, peer = tcp
    c.attach(ours.fileno(), OPEN, 0, b"", 0, 9**9, 0)
    told = []
    for _ in range(4):
        peer.send(b"x")
        told.append(serve(c, ours, spread=True)[2])
    assert told == [None, [(ours.fileno(), -LATER)], None, None]


def test_a_socket_without_stamps(c: Any) -> None:
    ours, peer = socket.socketpair()
    with ours, peer:
        c.attach(ours.fileno(), OPEN, 0, b"", 0, 9**9, 0)
        peer.send(b"x")
        assert c.read(ours.fileno(), 0, 0) == UNSTAMPED


def test_a_stamp_of_the_future_is_none(c: Any, tcp: tuple[socket.socket, socket.socket]) -> None:
    """C24: as after a step of the wall clock."""
    ours, peer = tcp
    c.attach(ours.fileno(), OPEN, 0, b"", 0, 9**9, 0)
    peer.send(b"x")
    assert c.read(ours.fileno(), WALL.offset_ns - 60 * 10**9, WALL.uncertainty_ns) == UNSTAMPED


def test_closed_descriptors_are_faults_not_crashes(c: Any) -> None:
    spare = socket.socket()
    fd = spare.fileno()
    c.attach(fd, OPEN, 0, b"", 0, 9**9, 0)
    spare.close()
    assert c.read(fd, 0, 0) == ERROR + errno.EBADF
    with pytest.raises(OSError, match="descriptor"):
        c.serve(fd, 10, 0, 0, False)


def test_the_pace_ticks(c: Any) -> None:
    c.tick()  # before there is one
    fd = c.pace(1_000_000)
    assert select.select([fd], [], [], 10)[0] == [fd]
    c.tick()
    assert c.pace(0) == fd
    c.tick()
    assert select.select([fd], [], [], 0)[0] == []
