"""Lines to the service, written by a thread: a service that reads slowly delays no run."""

from __future__ import annotations

import os
from queue import SimpleQueue
from threading import Lock, Thread

from pydantic import BaseModel


class Outbox:
    """`fd` is written until `close`; once nobody reads any more, what is said is dropped."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._waiting = 0
        self._lock = Lock()
        self._thread = Thread(target=self._write, name="specload-outbox", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Lines not written yet."""
        with self._lock:
            return self._waiting

    def put(self, message: BaseModel) -> None:
        with self._lock:
            self._waiting += 1
        self._lines.put(message.model_dump_json().encode() + b"\n")

    def close(self, timeout_s: float) -> None:
        """Write what is left; no longer than so."""
        self._lines.put(None)
        self._thread.join(timeout_s)

    def _write(self) -> None:
        gone = False
        while (line := self._lines.get()) is not None:
            while line and not gone:
                try:
                    line = line[os.write(self._fd, line) :]
                except OSError:
                    gone = True
            with self._lock:
                self._waiting -= 1
