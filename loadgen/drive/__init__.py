"""Doing it: dispatcher, wire, ledger."""

from loadgen.drive.asking import Asking, DriveLimits, asking_of, drive_limits_of
from loadgen.drive.cap import Budget, RateCap
from loadgen.drive.driver import Driver
from loadgen.drive.health import quiet_gc
from loadgen.drive.kernel import make_kernel_transport, reader_name
from loadgen.drive.ledger import Sent, read_exchange
from loadgen.drive.recorder import Counts, Tally
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
    Teller,
    WorkerEnd,
)
from loadgen.drive.worker_process import Tripped, Warmed, WorkerSetup, WorkerSink
from loadgen.drive.workers import Workers

__all__ = [
    "UNKNOWN_TOKENS",
    "Accounting",
    "Asking",
    "Attempt",
    "Budget",
    "Counts",
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
    "Teller",
    "Tripped",
    "Warmed",
    "WireLimits",
    "WorkerEnd",
    "WorkerSetup",
    "WorkerSink",
    "Workers",
    "asking_of",
    "drive_limits_of",
    "frame",
    "make_kernel_transport",
    "make_transport",
    "quiet_gc",
    "read_exchange",
    "reader_name",
]
