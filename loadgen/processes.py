"""What our child processes have in common: signals are their parent's business."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker

#: A terminal and a service manager send them to the whole group.
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def signals_held() -> Iterator[None]:
    """A process started in here is born with the signals blocked, until it ignores them. They reach us afterwards."""
    resource_tracker.ensure_running()  # or starting the process would start it, and unblock them
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_signals() -> None:
    """In the child, first of all: what it still has to hand over comes after the signal, and its parent says when."""
    for name in SIGNALS:
        signal.signal(name, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
