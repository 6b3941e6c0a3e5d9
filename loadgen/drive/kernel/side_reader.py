"""Reads of one connection that the C reader makes, from the end of an answer's head on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from loadgen.drive.kernel.answer import Answer
from loadgen.drive.kernel.aside import ERROR, LOST, ODD, UNSTAMPED, Aside
from loadgen.drive.kernel.stamps import Stamper

if TYPE_CHECKING:
    from loadgen.drive.kernel._reader import Reader


class SideReader:
    """`on`: the reader reads the socket, and nobody else may. Of one answer at a time: `end` before the next."""

    __slots__ = ("_fd", "_reader", "_stamper", "on")

    def __init__(self, reader: Reader, fd: int, stamper: Stamper) -> None:
        self.on = False
        self._reader = reader
        self._fd = fd
        self._stamper = stamper

    def begin(self, answer: Answer, read: bytes) -> None:
        """After `read`, with which the head ended. Not `on` then: the body cannot be followed."""
        framing = answer.framing(read)
        if framing is not None:
            self.on = self._reader.attach(self._fd, *framing, answer.last_ns)

    def read(self) -> int:
        """Read now. Returns why `give` is wanted, 0 if it is not."""
        offset = self._stamper.offset
        return self._reader.read(self._fd, offset.offset_ns, offset.uncertainty_ns)

    def give(self, answer: Answer, why: int = 0) -> None:
        """What is aside becomes part of the answer; raises as `Answer.feed`. It ends where it can follow no further."""
        aside = Aside(*self._reader.take(self._fd))
        plain, followed = why not in (ODD, UNSTAMPED), True
        if aside.reads:
            self._stamper.note(aside.number, 0 if plain else aside.unstamped)
            followed = answer.feed_aside(aside, plain)
        if why == ODD or not followed:
            self.end()

    def end(self) -> None:
        if self.on:
            self.on = False
            self._reader.detach(self._fd)


def fault_of(why: int) -> Exception | None:
    """What the socket, or the memory, said."""
    if why == LOST:
        return MemoryError("no memory for what was read")
    return OSError(why - ERROR, os.strerror(why - ERROR)) if why > ERROR else None
