"""What a worker process writes of its own into the run directory: its requests and its health."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from loadgen.clock import Anchor
from loadgen.drive import Attempt, LoopHealth
from loadgen.errors import StorageError
from loadgen.record.anomalies import AnomalyLog
from loadgen.record.batch import RequestBatches
from loadgen.record.files import ANOMALIES, KEPT, ArrowFile, SharedLog, record_batch, storage_error, stream_of
from loadgen.record.rows import Labels
from loadgen.record.schema import HEALTH, REQUESTS
from loadgen.record.types import ArmFacts
from loadgen.redact import Redactor

#: What is not yet on disk is never older than this plus one flush.
FLUSH_INTERVAL_S = 0.5
#: Bounds of one batch, and a pause between the pieces of work on it: the dispatching loop shares the
#: interpreter lock with this thread, and its stamps must not wait for a whole batch.
BATCH_ROWS = 128
BATCH_CHUNKS = 32_768
YIELD_S = 1e-5


@dataclass(frozen=True)
class WorkerRecordsSetup:
    """Makes a worker's sink in its own process: `setup(worker)`. Can be pickled.

    `labels` by segment; `structured` by task index: the server was asked to enforce a JSON Schema.
    """

    path: Path
    run_id: str
    arms: Mapping[str, ArmFacts]
    labels: Mapping[int, Labels]
    structured: tuple[bool, ...]
    keep_text: bool
    redact: Redactor
    anchor: Anchor

    def __call__(self, worker: int) -> WorkerRecords:
        return WorkerRecords(self, worker)


class WorkerRecords:
    """A `drive.WorkerSink`. All calls only queue; one thread of its own turns attempts into rows and writes.

    The constructor raises StorageError. If writing fails later, `failed` says so from then on, what comes
    after is lost and counted, and the files on disk end at their last whole batch.
    """

    def __init__(self, setup: WorkerRecordsSetup, worker: int) -> None:
        self.failed: str | None = None
        self.lost = 0
        self._setup = setup
        self._attempts: deque[Attempt] = deque()
        self._health: deque[LoopHealth] = deque()
        self._log = AnomalyLog(setup.anchor, setup.redact)
        self._batches = RequestBatches(
            setup.run_id, setup.arms, setup.labels, setup.structured, setup.keep_text, setup.redact
        )
        self._flushing = threading.Lock()
        self._ending = threading.Event()
        try:
            self._requests = ArrowFile(stream_of(setup.path, "requests", worker), REQUESTS)
            self._health_file = ArrowFile(stream_of(setup.path, "health", worker), HEALTH)
            self._text = SharedLog(setup.path / ANOMALIES)
        except OSError as error:
            raise storage_error(setup.path, error, KEPT) from None
        self._thread = threading.Thread(target=self._flush_until_end, name="specload-record", daemon=True)
        self._thread.start()

    def attempt(self, attempt: Attempt) -> None:
        self._queue(self._attempts, attempt)

    def health(self, health: LoopHealth) -> None:
        self._queue(self._health, health)

    def close(self) -> int:
        """Write the rest and end the files. Returns the number of records that could not be written. Idempotent."""
        if not self._ending.is_set():
            self._ending.set()
            self._thread.join()
            self.flush()
            self._guarded(self._finish)
            for file in (self._requests, self._health_file, self._text):
                file.close()
            self.lost += len(self._attempts) + len(self._health)
        return self.lost

    def flush(self) -> None:
        """Write what is queued."""
        with self._flushing:
            if self.failed is None:
                self._guarded(self._write_queued)

    def _finish(self) -> None:
        for stream in (self._requests, self._health_file):
            if self.failed is None:
                stream.finish()

    def _queue(self, queue: deque[Any], item: object) -> None:
        if self.failed is None and not self._ending.is_set():
            queue.append(item)
        else:
            self.lost += 1

    def _flush_until_end(self) -> None:
        while not self._ending.wait(FLUSH_INTERVAL_S):
            self.flush()

    def _write_queued(self) -> None:
        attempts = take(self._attempts)
        before = self._requests.rows
        try:
            for batch in batches(attempts):
                self._write_batch(batch)
        except Exception:
            self.lost += len(attempts) - (self._requests.rows - before)
            raise
        if healths := take(self._health):
            self._health_file.write(record_batch([asdict(health) for health in healths], HEALTH))

    def _write_batch(self, attempts: list[Attempt]) -> None:
        lines: list[str] = []
        for attempt in attempts:
            if told := self._log.lines(attempt):
                lines += told
                self._pause()
        if lines:
            self._text.write("".join(lines).encode())
        self._requests.write(self._batches.batch(attempts, self._pause))
        self._pause()

    def _pause(self) -> None:
        """Lets the dispatching loop have the interpreter lock, if it waits for it."""
        if not self._ending.is_set():
            time.sleep(YIELD_S)

    def _guarded(self, work: Callable[[], None]) -> None:
        error = guarded(self._setup.path, work)
        if error is not None:
            self.failed = self.failed or str(error)


def batches(attempts: Sequence[Attempt]) -> Iterator[list[Attempt]]:
    """In order, at most `BATCH_ROWS` attempts each; one with more than `BATCH_CHUNKS` chunks ends its batch."""
    batch: list[Attempt] = []
    chunks = 0
    for attempt in attempts:
        batch.append(attempt)
        chunks += len(attempt.ledger)
        if len(batch) >= BATCH_ROWS or chunks >= BATCH_CHUNKS:
            yield batch
            batch, chunks = [], 0
    if batch:
        yield batch


def take(queue: deque[Any]) -> list[Any]:
    """What is there now; others may append meanwhile."""
    return [queue.popleft() for _ in range(len(queue))]


def guarded(path: Path, work: Callable[[], None]) -> StorageError | None:
    """Why `work` failed, if it did: everything already on disk stays as it is."""
    try:
        work()
    except OSError as error:
        return storage_error(path, error, KEPT)
    except StorageError as error:
        return error
    except Exception as error:  # a fault of ours must not end the thread unseen
        return StorageError(f"{path}: {type(error).__name__}: {error}; {KEPT}")
    return None
