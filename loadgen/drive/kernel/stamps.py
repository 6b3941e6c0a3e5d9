"""Receive timestamps of the kernel: switching them on, and reading them as CLOCK_MONOTONIC ns.

A stamp is that of the last segment copied by the read (`tcp_recvmsg`, net/ipv4/tcp.c): exact for the
last byte read, an upper bound for those before it.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from collections.abc import Sequence

from loadgen.clock import now_ns
from loadgen.drive.kernel.clock_offset import WallOffset

#: asm-generic/socket.h; Python has no name for it. On the few architectures with other numbers no such
#: control message comes, and stamps are taken in user space
SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@ll")
#: room for one stamp
ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size) if hasattr(socket, "CMSG_SPACE") else 0

_PROBES = 50
_PROBE_S = 0.001

Ancillary = Sequence[tuple[int, int, bytes]]


def ask_for_stamps(sock: socket.socket) -> bool:
    """Whether reads of `sock` will bring the kernel's stamps. Linux, TCP only."""
    if not sys.platform.startswith("linux") or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return False
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        return sock.getsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS) == 1
    except OSError:
        return False


class StampKeeper:
    """Switches the kernel's stamping on, sees that stamps come, and keeps it on until closed.

    The kernel stamps packets only while some socket wants it, and begins up to some milliseconds after the
    first one has asked: answers that came before would have no stamps. `kernel`: it does stamp.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self.kernel = ask_for_stamps(self._socket) and self._begins()
        except BaseException:
            self._socket.close()
            raise

    def close(self) -> None:
        self._socket.close()

    def _begins(self) -> bool:
        """Blocks until a read has had a stamp: mostly the first, at most 50 ms."""
        with socket.create_server(("127.0.0.1", 0), backlog=1) as listener:
            self._socket.connect(listener.getsockname())
            peer, _address = listener.accept()
        with peer:
            for _ in range(_PROBES):
                peer.send(b"x")
                if self._socket.recvmsg(1, ANCILLARY_BYTES)[1]:
                    return True
                time.sleep(_PROBE_S)
        return False


class Stamper:
    """Reads stamps, and counts them over all connections: `reads`, and of these `missing`."""

    __slots__ = ("missing", "offset", "reads")

    def __init__(self, offset: WallOffset) -> None:
        self.offset = offset
        self.reads = 0
        self.missing = 0

    def kernel_ns(self, ancillary: Ancillary) -> int | None:
        """The kernel's stamp in CLOCK_MONOTONIC ns. None: there is none, or it lies in the future,
        which a step of the wall clock in the last moments does; the caller takes its own time then."""
        self.reads += 1
        for level, kind, data in ancillary:
            if kind == SO_TIMESTAMPNS and level == socket.SOL_SOCKET and len(data) == _TIMESPEC.size:
                seconds, nanoseconds = _TIMESPEC.unpack(data)
                offset = self.offset
                stamp_ns: int = seconds * 1_000_000_000 + nanoseconds - offset.offset_ns
                if stamp_ns <= now_ns() + offset.uncertainty_ns:
                    return stamp_ns
                offset.check()
        self.missing += 1
        return None

    def note(self, reads: int, missing: int) -> None:
        """Reads whose stamps the C reader has looked at, by the same rules."""
        self.reads += reads
        if missing:
            self.missing += missing
            self.offset.check()
