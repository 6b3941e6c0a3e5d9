"""HTTP framing without sockets: any split gives the same body and events; no bytes crash or bloat it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import httpcore
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loadgen.drive import Event, Exchange, WireLimits, frame
from loadgen.drive.kernel.answer import MAX_LOOSE_BYTES, Answer
from loadgen.drive.transport import BodyTooLarge

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def chunked(pieces: Iterable[bytes], extension: bytes = b"", trailer: bytes = b"") -> bytes:
    chunks = [b"%x%s\r\n%s\r\n" % (len(piece), extension, piece) for piece in pieces if piece]
    return b"".join(chunks) + b"0\r\n" + trailer + b"\r\n"


def cut(data: bytes, at: Iterable[int]) -> list[bytes]:
    """`data` cut at these places."""
    ends = [*sorted({place % len(data) for place in at} - {0}), len(data)]
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def fed(reads: Iterable[bytes], stamps: Iterable[int] | None = None, **more: Any) -> tuple[Exchange, Answer]:
    """The i-th read has the stamp 1000 × (i + 1)."""
    exchange = Exchange()
    answer = Answer(exchange, more.pop("limits", WireLimits()), **more)
    reads = list(reads)
    for data, stamp_ns in zip(reads, stamps or range(1000, 1000 * (len(reads) + 1), 1000), strict=True):
        answer.feed(data, stamp_ns)
    return exchange, answer


places = st.lists(st.integers(0, 100_000), max_size=40)
payloads = st.lists(st.binary(min_size=1, max_size=40), max_size=12)


@quick
@given(payloads, places, st.sampled_from([b"", b";a=b", b';q="x"']), st.sampled_from([b"", b"x-sum: 1\r\n"]))
def test_any_split_gives_the_same_body(pieces: list[bytes], at: list[int], extension: bytes, trailer: bytes) -> None:
    """wire.md 4: HTTP chunks and reads are independent; body offsets are those after de-chunking."""
    reads = cut(b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + chunked(pieces, extension, trailer), at)
    exchange, answer = fed(reads)
    assert (answer.done, answer.keep_alive, exchange.complete) == (True, True, True)
    assert exchange.body == b"".join(pieces)
    assert exchange.status == 200
    assert "x-sum" not in exchange.headers
    assert list(exchange.piece_ns) == sorted(set(exchange.piece_ns))
    assert list(exchange.piece_end) == sorted(set(exchange.piece_end))
    assert not pieces or exchange.piece_end[-1] == len(exchange.body)


@quick
@given(st.lists(st.text(max_size=12), min_size=1, max_size=8), places, places)
def test_any_split_gives_the_same_events(texts: list[str], chunks_at: list[int], reads_at: list[int]) -> None:
    """wire.md 4: SSE events, HTTP chunks and reads do not align; an event arrives with its last byte."""
    stream = b"".join(b"data: " + text.encode("unicode_escape") + b"x\n\n" for text in texts)
    wire = HEAD + chunked(cut(stream, chunks_at))
    exchange, answer = fed(reads := cut(wire, reads_at))
    assert answer.done
    events: list[Event] = frame(bytes(exchange.body))
    assert [event.data for event in events] == [text.encode("unicode_escape") + b"x" for text in texts]
    assert sum(len(data) for data in reads) == len(wire)


@quick
@given(payloads, st.integers(1, 30))
def test_each_byte_has_the_stamp_of_its_read(pieces: list[bytes], size: int) -> None:
    """wire.md 3: the stamp of a piece is that of the read whose bytes it holds, for every byte."""
    wire, exchange, position = HEAD + chunked(pieces), Exchange(), 0
    answer = Answer(exchange, WireLimits())
    expected: list[int] = []
    for number, start in enumerate(range(0, len(wire), size)):
        answer.feed(wire[start : start + size], number)
        expected += [number] * (len(exchange.body) - position)
        position = len(exchange.body)
    found: list[int] = []
    for stamp_ns, end in zip(exchange.piece_ns, exchange.piece_end, strict=True):
        found += [stamp_ns] * (end - len(found))
    assert found == expected


def test_equal_stamps_are_one_arrival() -> None:
    """DESIGN.md, Wire: the same stamp twice is one arrival, never an invented gap."""
    exchange, _ = fed([HEAD, b"1\r\na\r\n", b"1\r\nb\r\n", b"1\r\nc\r\n"], [5, 7, 7, 9])
    assert (list(exchange.piece_ns), list(exchange.piece_end)) == ([7, 9], [2, 3])
    assert exchange.headers_ns == 5


def test_what_overtook_on_the_network_arrives_with_what_it_waited_for() -> None:
    """TCP gives bytes in order: those that came early could not be read before the late ones."""
    exchange, _ = fed([HEAD, b"1\r\na\r\n", b"1\r\nb\r\n"], [5, 9, 7])
    assert (list(exchange.piece_ns), list(exchange.piece_end)) == ([9], [2])


@pytest.mark.parametrize(
    ("stamps", "source", "missing"), [([5, 6], "kernel", 0), ([5, None], "kernel_partial", 1), ([None] * 2, "user", 2)]
)
def test_source_of_the_stamps_is_told(stamps: list[int | None], source: str, missing: int) -> None:
    exchange = Exchange()
    answer = Answer(exchange, WireLimits())
    for data, stamp in zip([HEAD, chunked([b"a"])], stamps, strict=True):
        answer.feed(data, stamp)
    answer.close()
    assert (exchange.timestamp_source, exchange.missing_stamps) == (source, missing)


def test_no_stamp_is_missing_where_none_was_asked_for() -> None:
    exchange = Exchange()
    answer = Answer(exchange, WireLimits(), stamped=False)
    answer.feed(HEAD + chunked([b"a"]), None)
    answer.close()
    assert (exchange.timestamp_source, exchange.missing_stamps) == ("user", None)


@pytest.mark.parametrize(
    "tail", [b"x", b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nxyz", b"HTTP/1.1 500 no\r\n", b"\x00\xff"]
)
@pytest.mark.parametrize("apart", [False, True])
def test_bytes_after_the_end_do_no_harm_and_end_the_connection(tail: bytes, apart: bool) -> None:
    """wire.md 5: nothing is pipelined, so bytes after the message belong to no request."""
    message = HEAD + chunked([b"abc"])
    exchange, answer = fed([message, tail] if apart else [message + tail])
    assert (exchange.body, exchange.status, exchange.complete) == (b"abc", 200, True)
    assert list(exchange.piece_end) == [3]
    assert (answer.done, answer.keep_alive) == (True, False)


@pytest.mark.parametrize(
    ("message", "keep_alive"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\nabc", False),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 3\r\n\r\nabc", False),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 3\r\nconnection: keep-alive\r\n\r\nabc", True),
        (HEAD + chunked([b"abc"]), True),
    ],
)
def test_keep_alive_is_as_http_has_it(message: bytes, keep_alive: bool) -> None:
    _, answer = fed([message])
    assert (answer.done, answer.keep_alive) == (True, keep_alive)


def test_answer_to_head_has_no_body() -> None:
    exchange, answer = fed([b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n"], method="HEAD")
    assert (answer.done, exchange.complete, exchange.body) == (True, True, b"")


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200", HEAD, HEAD + b"5\r\nab", HEAD + b"2\r\nab\r\n"])
def test_end_of_file_before_the_end_is_a_cut(head: bytes) -> None:
    """A4: EOF without message end is truncated."""
    exchange, answer = fed([head] if head else [])
    with pytest.raises(httpcore.RemoteProtocolError):
        answer.eof()
    assert (answer.closed, exchange.complete) == (True, False)


def test_end_of_file_ends_a_body_without_length() -> None:
    exchange, answer = fed([b"HTTP/1.1 200 OK\r\n\r\nab", b"c"])
    assert not answer.done
    answer.eof()
    assert (answer.done, answer.keep_alive, exchange.complete, exchange.body) == (True, False, True, b"abc")


@pytest.mark.parametrize("coding", [b"gzip", b"gzip, chunked", b"chunked, chunked"])
def test_other_transfer_codings_are_refused(coding: bytes) -> None:
    """What is not understood is not read as if it were."""
    with pytest.raises(httpcore.RemoteProtocolError):
        fed([b"HTTP/1.1 200 OK\r\ntransfer-encoding: " + coding + b"\r\n\r\nabc"])


@pytest.mark.parametrize("status", [b"000", b"099", b"101"])
def test_impossible_statuses_are_refused(status: bytes) -> None:
    """Nothing proposed an upgrade, and below 100 there is no status."""
    with pytest.raises(httpcore.RemoteProtocolError):
        fed([b"HTTP/1.1 " + status + b" x\r\ncontent-length: 0\r\n\r\n"])


def test_body_limit() -> None:
    with pytest.raises(BodyTooLarge):
        fed([HEAD + b"fffff\r\n", b"x" * 100, b"x"], limits=WireLimits(max_body_bytes=100))


def endless(kind: str) -> tuple[bytes, Callable[[int], bytes]]:
    """A first read, and one that may come again and again and never brings a byte of body."""
    return {
        "header": (b"HTTP/1.1 200 OK\r\nx: ", lambda _i: b"y" * 1000),
        "headers": (b"HTTP/1.1 200 OK\r\n", lambda i: b"x-%d: %s\r\n" % (i, b"y" * 900)),
        "interim": (b"", lambda _i: b"HTTP/1.1 102 Processing\r\n\r\n" * 40),
        "trailer": (HEAD + b"0\r\nx: ", lambda _i: b"y" * 1000),
        "extension": (HEAD + b"5;x=", lambda _i: b"y" * 1000),
        "blank": (b"", lambda _i: b"\r\n" * 500),
    }[kind]


@pytest.mark.parametrize("kind", ["header", "headers", "interim", "trailer", "extension", "blank"])
def test_endless_heads_and_trailers_are_cut(kind: str) -> None:
    """Memory is bounded also where no body grows."""
    first, more = endless(kind)
    reads = (first, *(more(number) for number in range(2 * MAX_LOOSE_BYTES // 1000)))
    exchange = Exchange()
    with pytest.raises(httpcore.RemoteProtocolError):
        feed_all(Answer(exchange, WireLimits()), reads)
    assert exchange.body == b""


def feed_all(answer: Answer, reads: Iterable[bytes]) -> None:
    for number, data in enumerate(reads):
        answer.feed(data, number)


_SCRAPS = st.sampled_from(
    [
        *(HEAD, b"HTTP/1.1 ", b"HTTP/1.0 200 OK\r\n", b"200 OK\r\n", b"\r\n", b"\r\n\r\n", b"HTTP/1.1 099 x\r\n\r\n"),
        *(b"5\r\nabcde\r\n", b"0\r\n\r\n", b"ffffffffffffffff\r\n", b"-1\r\n", b":", b" ", b"\t", b"\x00", b"\xff\xfe"),
        *(b"content-length: 3\r\n", b"content-length: 99999999999999999999\r\n", b"transfer-encoding: chunked\r\n"),
        *(b"connection: upgrade\r\nupgrade: h2c\r\n", b"HTTP/1.1 101 x\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"),
        *(b"HTTP/1.1 304 x\r\n\r\n", b"PRI * HTTP/2.0\r\n"),
    ]
)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=30), _SCRAPS), max_size=30), st.booleans())
def test_no_bytes_crash_the_parser(reads: list[bytes], ends: bool) -> None:
    """Garbage is malformed or a cut, never a crash; the body is never more than what came."""
    exchange = Exchange()
    answer = Answer(exchange, WireLimits())
    try:
        for number, data in enumerate(reads):
            if data and not answer.done:
                answer.feed(data, number)
        if ends and not answer.done:
            answer.eof()
    except (httpcore.RemoteProtocolError, BodyTooLarge):
        assert not exchange.complete
    answer.close()
    assert exchange.complete == answer.done
    assert len(exchange.body) <= sum(map(len, reads))
    assert exchange.status is None or 200 <= exchange.status <= 999


@pytest.mark.parametrize(
    ("wire", "kept"),
    [
        (b"HTTP/1.1 200 OK\ncontent-type: text/plain\ncontent-length: 2\n\nhi", True),
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\ncontent-length: 2\r\n\r\nhi", True),
        (b"HTTP/1.1 200 OK\r\ncontent-type:\r\n text/plain\r\ncontent-length: 2\r\n\r\nhi", True),
        (
            b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 9\r\ntransfer-encoding: chunked\r\n\r\n"
            + chunked([b"hi"]),
            False,
        ),
    ],
    ids=["bare LF", "one bare LF", "folded", "length beside chunks"],
)
@pytest.mark.parametrize("split", [False, True])
def test_odd_answers_that_a_client_may_take(wire: bytes, kept: bool, split: bool) -> None:
    """A8, RFC 9112 2.2, 5.2, 6.3: hand-made servers and gateways that copy headers are read, as the plain wire does."""
    exchange, answer = fed([bytes([byte]) for byte in wire] if split else [wire])
    assert (answer.done, answer.keep_alive, exchange.complete) == (True, kept, True)
    assert (exchange.status, exchange.body) == (200, b"hi")
    assert exchange.headers["content-type"].strip() == "text/plain"


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", "status 101"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n", "transfer-encoding gzip, chunked"),
    ],
)
def test_a_refused_answer_says_why(head: bytes, why: str) -> None:
    """C11: our own check is named, not that a callback of the parser failed."""
    with pytest.raises(httpcore.RemoteProtocolError, match=why):
        fed([head])
