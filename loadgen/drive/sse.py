"""Server-sent events on bytes. Lines end at CR, LF or CRLF and nowhere else (WHATWG HTML, "Event stream")."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import orjson
from numpy.typing import NDArray

try:
    from loadgen.drive import _sse
except ImportError:
    _sse = None  # type: ignore[assignment]

#: an event may carry a long echo or many logprobs; beyond this the stream is malformed (A19)
MAX_EVENT_BYTES = 8 * 2**20

_BOM = b"\xef\xbb\xbf"
_CR, _LF = 13, 10
DONE = b"[DONE]"


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its data lines joined by LF, and its `event:` name.

    `end`: bytes of the body up to and including the line end that completes the event. Of a
    CRLF that is the CR: the event is complete there, and the LF may come in a later read.
    """

    data: bytes
    end: int
    name: bytes | None = None


class Framer:
    """Bytes in, events out, the same for any split of the bytes.

    `comments` counts comment lines. `overflow` is set by an event of more than
    `max_event_bytes`; nothing after it is framed. `unterminated` is set by `close`.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.comments = 0
        self.overflow = False
        self.unterminated = False
        self._max = max_event_bytes
        self._tail = bytearray()  # an unfinished line
        self._offset = 0  # of the tail's first byte in the body
        self._scanned = 0  # tail bytes known to hold no line end
        self._at_start = True
        self._after_cr = False
        self._data: list[bytes] = []
        self._size = 0
        self._name: bytes | None = None

    def feed(self, data: bytes | bytearray | memoryview) -> list[Event]:
        """The events that `data` completes."""
        if self.overflow:
            return []
        self._tail += data
        if self._at_start and not self._skip_bom():
            return []
        return self._lines()

    @property
    def idle(self) -> bool:
        """Between two events, with nothing pending: what comes next is framed as if it were the beginning."""
        return not (self._tail or self._data or self._after_cr or self.overflow or self._name is not None)

    def skip(self, size: int) -> None:
        """Count bytes that were framed otherwise: whole events, given while `idle`."""
        self._offset += size
        self._at_start = False

    def close(self) -> Event | None:
        """End of body. An event whose blank line never came counts only if its data is whole:
        a JSON value or [DONE]; `unterminated` then says so. Otherwise it is discarded, as the standard has it.
        """
        if self.overflow:
            return None
        if self._tail:
            self._line(bytes(self._tail))
            self._offset += len(self._tail)
            self._tail.clear()
        event = self._dispatch(self._offset)
        if event is None or not _is_whole(event.data):
            return None
        self.unterminated = True
        return event

    def _skip_bom(self) -> bool:
        """True once the body's first bytes have been judged."""
        head = bytes(self._tail[: len(_BOM)])
        if head != _BOM and _BOM.startswith(head):
            return False
        self._at_start = False
        if head == _BOM:
            del self._tail[: len(_BOM)]
            self._offset = len(_BOM)
        return True

    def _lines(self) -> list[Event]:
        tail, events, begin = self._tail, [], 0
        if self._after_cr and tail:
            begin = 1 if tail[0] == _LF else 0
            self._after_cr = False
        scan = max(begin, self._scanned)
        cr, lf = tail.find(_CR, scan), tail.find(_LF, scan)
        while cr >= 0 or lf >= 0:
            at = lf if cr < 0 or 0 <= lf < cr else cr
            if event := self._line_end(bytes(tail[begin:at]), self._offset + at + 1):
                events.append(event)
            if self.overflow:
                return events
            begin = at + 1
            if at == cr:
                if begin == len(tail):
                    self._after_cr = True
                elif tail[begin] == _LF:
                    begin += 1
                cr = tail.find(_CR, begin)
            if 0 <= lf < begin:
                lf = tail.find(_LF, begin)
        del tail[:begin]
        self._offset += begin
        self._scanned = len(tail)
        self._guard(len(tail))
        return events

    def _line_end(self, line: bytes, end: int) -> Event | None:
        if not line:
            return self._dispatch(end)
        self._line(line)
        return None

    def _line(self, line: bytes) -> None:
        self._guard(len(line))
        if line.startswith(b":"):
            self.comments += 1
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
            self._size += len(value) + 1
        elif field == b"event":
            self._name = value

    def _dispatch(self, end: int) -> Event | None:
        data, name = self._data, self._name
        self._name = None
        if not data:
            return None
        self._data, self._size = [], 0
        return Event(data[0] if len(data) == 1 else b"\n".join(data), end, name)

    def _guard(self, pending: int) -> None:
        self.overflow = self.overflow or self._size + pending > self._max


def frame(body: bytes | bytearray | memoryview, max_event_bytes: int = MAX_EVENT_BYTES) -> list[Event]:
    """All events of a whole body. Events after one that is too long are not framed (`Framer.overflow`)."""
    framer = Framer(max_event_bytes)
    events = framer.feed(body)
    if last := framer.close():
        events.append(last)
    return events


def plain_payloads(block: bytes) -> tuple[list[bytes], NDArray[np.int64]] | None:
    """Data and end (as of `Event`, in bytes of the block) of every event of a block that is nothing but `data: …`
    lines with a blank line after each, LF only.

    None for any other block. In C, where that is built and `SPECLOAD_READER=python` in the environment does not leave
    it out.
    """
    if _sse is None or os.environ.get("SPECLOAD_READER") == "python":
        return split_plain(block)
    found = _sse.plain_payloads(block)
    return None if found is None else (found[0], np.frombuffer(found[1], dtype=np.int64))


def split_plain(block: bytes) -> tuple[list[bytes], NDArray[np.int64]] | None:
    """`plain_payloads` without C. The number of line ends proves the shape: two a payload, so none inside one."""
    if not (block.startswith(b"data: ") and block.endswith(b"\n\n")) or _CR in block:
        return None
    payloads = block[6:-2].split(b"\n\ndata: ")
    line_ends = (np.frombuffer(block, dtype=np.uint8) == _LF).nonzero()[0]
    return (payloads, line_ends[1::2] + 1) if len(line_ends) == 2 * len(payloads) else None


def is_done(data: bytes) -> bool:
    """The terminal marker of OpenAI-style streams."""
    return data.strip() == DONE


def _is_whole(data: bytes) -> bool:
    if is_done(data):
        return True
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return True
