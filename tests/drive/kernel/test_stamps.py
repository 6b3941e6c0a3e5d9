"""Control messages to CLOCK_MONOTONIC."""

from __future__ import annotations

import socket
import struct
import time

import pytest

from loadgen.drive.kernel.clock_offset import WallOffset
from loadgen.drive.kernel.stamps import SO_TIMESTAMPNS, Stamper, StampKeeper, ask_for_stamps


def message(wall_ns: int) -> tuple[int, int, bytes]:
    return socket.SOL_SOCKET, SO_TIMESTAMPNS, struct.pack("@ll", wall_ns // 10**9, wall_ns % 10**9)


def test_stamp_is_converted_exactly() -> None:
    offset = WallOffset()
    stamper = Stamper(offset)
    mono_ns = time.monotonic_ns() - 7_654_321
    assert stamper.kernel_ns([message(mono_ns + offset.offset_ns)]) == mono_ns
    assert (stamper.reads, stamper.missing) == (1, 0)


@pytest.mark.parametrize(
    "ancillary", [[], [(socket.SOL_SOCKET, 99, bytes(16))], [(socket.SOL_SOCKET, SO_TIMESTAMPNS, bytes(8))]]
)
def test_no_stamp_is_counted(ancillary: list[tuple[int, int, bytes]]) -> None:
    stamper = Stamper(WallOffset())
    assert stamper.kernel_ns(ancillary) is None
    assert (stamper.reads, stamper.missing) == (1, 1)


def test_a_stamp_of_the_future_is_none() -> None:
    """C24: stamped before the wall clock was set back, read after: it would lie ahead of now."""
    offset = WallOffset()
    stamper = Stamper(offset)
    assert stamper.kernel_ns([message(time.time_ns() + 60 * 10**9)]) is None
    assert stamper.missing == 1


def test_stamps_are_of_tcp_only() -> None:
    here, there = socket.socketpair()
    with here, there, socket.socket() as tcp:
        assert not ask_for_stamps(here)
        assert ask_for_stamps(tcp)
    keeper = StampKeeper()
    assert keeper.kernel
    keeper.close()
