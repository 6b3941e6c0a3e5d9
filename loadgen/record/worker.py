"""What a worker process writes of its own into the run directory: its requests and its health."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from loadgen.clock import Anchor, now_ns
from loadgen.drive import Attempt, LoopHealth
from loadgen.errors import StorageError
from loadgen.record.anomalies import AnomalyLog
from loadgen.record.batch import RequestBatches
from loadgen.record.files import ANOMALIES, KEPT, ArrowFile, SharedLog, record_batch, storage_error, stream_of
from loadgen.record.rows import Labels
from loadgen.record.schema import HEALTH, REQUESTS
from loadgen.record.types import ArmFacts
from loadgen.redact import Redactor

#: What is not yet on disk is never older than twice this plus one flush.
FLUSH_INTERVAL_S = 0.5
#: Bounds of one batch.
BATCH_ROWS = 64
BATCH_CHUNKS = 16_384
#: An attempt of more chunks counts as several.
SHORT_CHUNKS = 100
#: Of attempts that wait -> how long one turn may hold the loop: usually one piece; a loop that falls behind gives up
#: punctuality, which the run tells, for memory.
TURNS_NS = ((1_000, 0), (10_000, 2_000_000), (2**62, 20_000_000))

Steps = Generator[None, None, pa.RecordBatch]


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
    """A `drive.WorkerSink`. `attempt` and `health` only queue; `work`, called by the event loop, makes attempts into
    batches; a thread of its own writes them.

    A thread that made batches would hold the interpreter, or the core, when a request is due. Where nobody calls
    `work` for a while, the thread does it all the same: nothing stays unwritten because a loop is stuck.

    The constructor raises StorageError. If writing fails later, `failed` says so from then on, what comes
    after is lost and counted, and the files on disk end at their last whole batch.
    """

    def __init__(self, setup: WorkerRecordsSetup, worker: int) -> None:
        self.failed: str | None = None
        self.lost = 0
        self._setup = setup
        self._attempts: deque[Attempt] = deque()
        self._health: deque[LoopHealth] = deque()
        self._making: tuple[int, Steps] | None = None  # attempts of the batch in the making
        self._made: deque[pa.RecordBatch] = deque()
        self._lines: deque[str] = deque()
        self._worked_ns = 0
        self._log = AnomalyLog(setup.anchor, setup.redact)
        self._batches = RequestBatches(
            setup.run_id, setup.arms, setup.labels, setup.structured, setup.keep_text, setup.redact
        )
        self._making_lock, self._writing_lock = threading.Lock(), threading.Lock()
        self._wake = threading.Event()
        self._ending = False
        try:
            self._requests = ArrowFile(stream_of(setup.path, "requests", worker), REQUESTS)
            self._health_file = ArrowFile(stream_of(setup.path, "health", worker), HEALTH)
            self._text = SharedLog(setup.path / ANOMALIES)
        except OSError as error:
            raise storage_error(setup.path, error, KEPT) from None
        self._thread = threading.Thread(target=self._write_until_end, name="specload-record", daemon=True)
        self._thread.start()

    def attempt(self, attempt: Attempt) -> None:
        self._queue(self._attempts, attempt)

    def health(self, health: LoopHealth) -> None:
        self._queue(self._health, health)

    def work(self) -> bool:
        """A piece of work on the next batch, some tenths of a millisecond; longer where much waits. False: nothing
        waits, or others are at it."""
        if self.failed is not None or not self._making_lock.acquire(blocking=False):
            return False
        try:
            begun_ns = self._worked_ns = now_ns()
            turn_ns = next(ns for most, ns in TURNS_NS if self._waiting() < most)
            while (more := self._guarded(self._step)) and now_ns() - begun_ns < turn_ns:
                pass
            return more
        finally:
            self._making_lock.release()

    def _waiting(self) -> int:
        """Attempts that wait, a long one counted as so many short ones, judged by the first."""
        try:
            return len(self._attempts) * (1 + len(self._attempts[0].ledger) // SHORT_CHUNKS)
        except IndexError:
            return 0

    def close(self) -> int:
        """Write the rest and end the files. Returns the number of records that could not be written. Idempotent."""
        if not self._ending:
            self._ending = True
            self._wake.set()
            self._thread.join()
            self.flush()
            self._guarded(self._finish)
            for file in (self._requests, self._health_file, self._text):
                file.close()
            self.lost += len(self._attempts) + len(self._health) + (self._making[0] if self._making else 0)
        return self.lost

    def flush(self) -> None:
        """Write what is queued."""
        with self._making_lock:
            while self.failed is None and self._guarded(self._step):
                pass
        self._write()

    def _finish(self) -> None:
        for stream in (self._requests, self._health_file):
            if self.failed is None:
                stream.finish()

    def _queue(self, queue: deque[Any], item: object) -> None:
        if self.failed is None and not self._ending:
            queue.append(item)
        else:
            self.lost += 1

    def _write_until_end(self) -> None:
        while not self._ending:
            self._wake.wait(FLUSH_INTERVAL_S)
            self._wake.clear()
            if now_ns() - self._worked_ns > FLUSH_INTERVAL_S * 1e9:
                self.flush()
            else:
                self._write()

    def _step(self) -> bool:
        """One piece; whether there is more to do. Its caller holds the lock."""
        if self._making is None:
            attempts = next_batch(self._attempts)
            if not attempts:
                return False
            self._making = len(attempts), self._make(attempts)
        rows, steps = self._making
        try:
            next(steps)
        except StopIteration as done:
            self._making = None
            self._made.append(done.value)
            self._wake.set()
            return bool(self._attempts)
        except BaseException:
            self._making = None
            self.lost += rows
            raise
        return True

    def _make(self, attempts: list[Attempt]) -> Steps:
        for attempt in attempts:
            if told := self._log.lines(attempt):
                self._lines += told
                yield
        return (yield from self._batches.steps(attempts))

    def _write(self) -> None:
        with self._writing_lock:
            if self.failed is None:
                self._guarded(self._write_made)
            self.lost += sum(batch.num_rows for batch in take(self._made)) if self.failed else 0

    def _write_made(self) -> bool:
        if lines := take(self._lines):
            self._text.write("".join(lines).encode())
        while self._made:
            self._requests.write(self._made[0])
            self._made.popleft()
        if healths := take(self._health):
            self._health_file.write(record_batch([asdict(health) for health in healths], HEALTH))
        return True

    def _guarded(self, work: Callable[[], bool | None]) -> bool:
        """What `work` returns; False where it failed."""
        told: list[bool | None] = []
        error = guarded(self._setup.path, lambda: told.append(work()))
        if error is not None:
            self.failed = self.failed or str(error)
        return bool(told and told[0])


def next_batch(queue: deque[Attempt]) -> list[Attempt]:
    """What waits, in order, at most `BATCH_ROWS`; one with more than `BATCH_CHUNKS` chunks ends the batch."""
    batch: list[Attempt] = []
    chunks = 0
    while queue and len(batch) < BATCH_ROWS and chunks < BATCH_CHUNKS:
        batch.append(queue.popleft())
        chunks += len(batch[-1].ledger)
    return batch


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
