"""What the C reader keeps aside of a stream, and whether there is a C reader: without a compiler there is none.

`SPECLOAD_READER=python` in the environment leaves it out, for comparison.
"""

from __future__ import annotations

import os
from array import array
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from loadgen.drive.kernel._reader import Reader

try:
    from loadgen.drive.kernel import _reader
except ImportError:
    _reader = None  # type: ignore[assignment]

#: how a body is framed: by chunks, by its length, by the end of the connection (as in _stream.h)
CHUNKED, SIZED, OPEN = 0, 1, 2
#: why the reader wants Python, in the same order; `ERROR` + errno is what the socket said
LATER, FULL, END, ENDED, ODD, UNSTAMPED, LOST = range(1, 8)
ERROR = 1000
#: in place of the stamp of a read that has none
NO_STAMP = -(2**63)
#: of one read in `Aside.reads`
_READ_BYTES = 16

#: framing; bytes that a sized body lacks; what of a chunked body came with the head; length of the body; its limit
Framing = tuple[int, int, bytes, int, int]


class Aside(NamedTuple):
    """Reads of one stream. `reads`: stamp and bytes of each; `piece_ns`, `piece_end`: as of an `Exchange`. All int64.

    `body`: length of the body after them, `last_ns`: the newest stamp, if the reader has followed rightly.
    """

    raw: bytes
    reads: bytes
    piece_ns: bytes
    piece_end: bytes
    body: int
    last_ns: int

    @property
    def number(self) -> int:
        return len(self.reads) // _READ_BYTES

    @property
    def unstamped(self) -> int:
        return array("q", self.reads)[::2].count(NO_STAMP)


def make_reader() -> Reader | None:
    return None if reader_name() == "python" else _reader.Reader()


def reader_name() -> str:
    """Who reads the sockets of the kernel transport in this process: "c" or "python"."""
    return "python" if _reader is None or os.environ.get("SPECLOAD_READER") == "python" else "c"
