"""Framing on bytes: every line end, every split."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.drive import Event, Framer, frame, sse
from loadgen.drive.sse import plain_payloads, split_plain

JSON = b'{"choices":[{"delta":{"content":"A\xe2\x80\xa8B\xc2\x85C\x0b\x0c\x1c\x1d\x1e"}}]}'


def feed_all(reads: list[bytes], limit: int = 8 * 2**20) -> tuple[list[Event], Framer]:
    framer = Framer(limit)
    events = [event for data in reads for event in framer.feed(data)]
    if last := framer.close():
        events.append(last)
    return events, framer


@pytest.mark.parametrize("eol", [b"\n", b"\r", b"\r\n"])
def test_all_line_ends(eol: bytes) -> None:
    """A8, A9: LF, CR and CRLF, with and without the space after the colon."""
    first, second = b"data: {1}" + eol + eol, b"data:{2}" + eol + eol
    events = frame(first + second)
    assert [e.data for e in events] == [b"{1}", b"{2}"]
    cut = 1 if eol == b"\r\n" else 0  # of a CRLF the CR completes the event
    assert [e.end for e in events] == [len(first) - cut, len(first + second) - cut]


def test_mixed_line_ends() -> None:
    """A8: line ends may change from line to line."""
    assert [e.data for e in frame(b"data: a\r\ndata: b\n\r\ndata: c\r\r\ndata: d\n\n")] == [b"a\nb", b"c", b"d"]


def test_crlf_over_two_reads_neither_waits_nor_doubles() -> None:
    """A8: the CR of the blank line completes the event; the LF in the next read is part of it."""
    framer = Framer()
    assert framer.feed(b"data: a\r\n\r") == [Event(b"a", 10)]
    assert framer.feed(b"\ndata: b\r") == []
    assert framer.feed(b"\n\r\n") == [Event(b"b", 21)]


def test_no_space_one_space_two_spaces() -> None:
    """A10: one space after the colon is taken off, no more."""
    assert [e.data for e in frame(b"data:x\n\ndata: x\n\ndata:  x\n\ndata\n\n")] == [b"x", b"x", b" x", b""]


def test_unicode_line_separators_are_data() -> None:
    """A16: U+2028, U+0085 and control characters inside JSON never end a line."""
    assert frame(b"data: " + JSON + b"\n\n") == [Event(JSON, len(JSON) + 8)]


def test_comments_are_counted_and_ignored() -> None:
    """A11, A12: a comment is no event and poisons no later one."""
    events, framer = feed_all([b": x\n\n", b":\n\n", b"data: a\n:comment\n\n", b": ping\n\n" + b"data: b\n\n" * 10])
    assert [e.data for e in events] == [b"a", *[b"b"] * 10]
    assert framer.comments == 4


def test_ping_alone_in_a_read_does_not_glue() -> None:
    """A13: reads are never trimmed."""
    events, _ = feed_all([b": ping\n\n", b"data: {a}\n\n", b"data: {b}\n\n", b"data: [DONE]\n\n"])
    assert [e.data for e in events] == [b"{a}", b"{b}", b"[DONE]"]


def test_space_at_a_read_boundary_stays() -> None:
    """A14: byte-exact reassembly."""
    events, _ = feed_all([b'data: {"content":"Hello ', b'World"}\n\n'])
    assert events[0].data == b'{"content":"Hello World"}'


def test_character_over_two_reads() -> None:
    """A17: a multi-byte character may straddle reads."""
    events, _ = feed_all([b'data: {"content":"\xe6\xbb', b'\x9a"}\n\n'])
    assert events[0].data.decode() == '{"content":"滚"}'


def test_event_larger_than_a_read() -> None:
    """A19: 300 kB in one line, in reads of 1 kB; the bound is explicit."""
    payload = b'{"x":"' + b"y" * 300_000 + b'"}'
    body = b"data: " + payload + b"\n\n"
    reads = [body[i : i + 1000] for i in range(0, len(body), 1000)]
    events, framer = feed_all(reads)
    assert events == [Event(payload, len(body))]
    assert not framer.overflow
    events, framer = feed_all([b"data: ok\n\n", *reads, b"data: later\n\n"], limit=200_000)
    assert [e.data for e in events] == [b"ok"]
    assert framer.overflow


def test_data_lines_without_an_end_are_bounded() -> None:
    """A9: an event of many lines that never ends does not grow for ever."""
    framer = Framer(1000)
    for _ in range(1000):
        framer.feed(b"data: 0123456789\n")
    assert framer.overflow


def test_event_names_and_several_data_lines() -> None:
    events = frame(b"event: error\ndata: a\ndata: b\nid: 7\nretry: 5\n\nevent: lost\n\ndata: c\n\n")
    assert [(e.name, e.data) for e in events] == [(b"error", b"a\nb"), (None, b"c")]


def test_bom_is_skipped_even_over_reads() -> None:
    body = b"\xef\xbb\xbfdata: a\n\n"
    assert frame(body) == [Event(b"a", len(body))]
    events, _ = feed_all([b"\xef", b"\xbb", b"\xbfdata: a\n\n"])
    assert events == [Event(b"a", len(body))]


@pytest.mark.parametrize(
    ("tail", "counts"),
    [
        (b"data: [DONE]", True),
        (b"data: [DONE]\n", True),
        (b'data: {"a":1}\n', True),
        (b'data: {"a":1}', True),
        (b'data: {"a":', False),
        (b"data: hello\n", False),
        (b": c", False),
    ],
)
def test_end_without_blank_line(tail: bytes, counts: bool) -> None:
    """A pending event is discarded at the end of the body, except a whole JSON value or [DONE]."""
    events, framer = feed_all([b"data: 1\n\n" + tail])
    assert len(events) == (2 if counts else 1)
    assert framer.unterminated is counts
    if counts:
        assert events[-1].end == 9 + len(tail)


LINES = st.sampled_from(
    [
        b"data: {1}",
        b"data:[2]",
        b"data: \xe2\x80\xa8",
        b": c",
        b"",
        b"event: e",
        b"data",
        b"x",
        b"data: [DONE]",
        b"\xef\xbb\xbf",
    ]
)


@settings(max_examples=300, deadline=None)
@given(
    lines=st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r", b"\r\n"])), max_size=12),
    tail=LINES,
    cuts=st.lists(st.integers(0, 200), max_size=20),
)
def test_any_split_gives_the_same_events(lines: list[tuple[bytes, bytes]], tail: bytes, cuts: list[int]) -> None:
    """A20: any split of the bytes into reads gives the same events, with the same ends."""
    body = b"".join(line + eol for line, eol in lines) + tail
    at = sorted({0, len(body), *(c for c in cuts if c < len(body))})
    events, framer = feed_all([body[a:b] for a, b in pairwise(at)])
    whole = Framer()
    expected = whole.feed(body)
    if last := whole.close():
        expected.append(last)
    assert events == expected == frame(body)
    assert (framer.comments, framer.unterminated) == (whole.comments, whole.unterminated)
    bytewise, _ = feed_all([body[i : i + 1] for i in range(len(body))])
    assert bytewise == expected


@settings(max_examples=100, deadline=None)
@given(sizes=st.lists(st.integers(0, 40), max_size=8), cuts=st.lists(st.integers(0, 400), max_size=10))
def test_the_bound_does_not_depend_on_the_split(sizes: list[int], cuts: list[int]) -> None:
    """A19, A20: the size limit is met by the same event however the bytes were read."""
    body = b"".join(b"data: " + b"z" * n + b"\n\n" for n in sizes)
    at = sorted({0, len(body), *(c for c in cuts if c < len(body))})
    events, framer = feed_all([body[a:b] for a, b in pairwise(at)], limit=32)
    expected, whole = feed_all([body], limit=32)
    assert (events, framer.overflow) == (expected, whole.overflow)


PIECES = st.sampled_from(
    [
        b"data: ",
        b"data: {}\n\n",
        b"data: ab\n\n",
        b"\n",
        b"\n\n",
        b"\r",
        b"data:",
        b"x",
        b"{",
        b" ",
        b": c\n\n",
        b"\x00",
        b"\xef",
    ]
)


@settings(max_examples=1000, deadline=None)
@given(block=st.lists(PIECES, max_size=8).map(b"".join) | st.binary(max_size=20))
def test_blocks_are_split_in_c_as_in_python(block: bytes) -> None:
    """A8, A10: the same payloads and ends, or neither takes it."""
    if sse._sse is None:
        pytest.skip("the C is not built: python setup.py build_ext --inplace")
    expected, found = split_plain(block), plain_payloads(block)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert (found[0], found[1].tolist()) == (expected[0], expected[1].tolist())


def test_a_block_is_bytes() -> None:
    if sse._sse is not None:
        with pytest.raises(TypeError, match="bytes"):
            sse._sse.plain_payloads(bytearray(b"data: x\n\n"))  # type: ignore[arg-type]
