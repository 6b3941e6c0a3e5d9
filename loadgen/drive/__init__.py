"""Doing it: dispatcher, wire, ledger."""

from loadgen.drive.asking import Asking, DriveLimits, asking_of, drive_limits_of
from loadgen.drive.cap import RateCap
from loadgen.drive.driver import Driver
from loadgen.drive.health import quiet_gc
from loadgen.drive.ledger import Sent, read_exchange
from loadgen.drive.recorder import Tally
from loadgen.drive.request import DriveArm
from loadgen.drive.segment_run import StopReason
from loadgen.drive.sse import Event, Framer, frame
from loadgen.drive.transport import WireLimits, make_transport
from loadgen.drive.types import (
    UNKNOWN_TOKENS,
    Accounting,
    Attempt,
    Deadlines,
    Exchange,
    Ledger,
    LoopHealth,
    Outcome,
    SegmentResult,
    Sink,
)

__all__ = [
    "UNKNOWN_TOKENS",
    "Accounting",
    "Asking",
    "Attempt",
    "Deadlines",
    "DriveArm",
    "DriveLimits",
    "Driver",
    "Event",
    "Exchange",
    "Framer",
    "Ledger",
    "LoopHealth",
    "Outcome",
    "RateCap",
    "SegmentResult",
    "Sent",
    "Sink",
    "StopReason",
    "Tally",
    "WireLimits",
    "asking_of",
    "drive_limits_of",
    "frame",
    "make_transport",
    "quiet_gc",
    "read_exchange",
]
