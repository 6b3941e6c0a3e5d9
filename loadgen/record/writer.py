"""Writes the run directory while the run lives. Whatever ends the process, at most the last second is lost."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from loadgen.clock import anchor, now_ns
from loadgen.drive import Attempt, LoopHealth
from loadgen.errors import StorageError
from loadgen.observe import Scrape
from loadgen.record.anomalies import AnomalyLog
from loadgen.record.compact import compact
from loadgen.record.files import (
    ANOMALIES,
    LOCK,
    MANIFEST,
    PHASES,
    AppendFile,
    ArrowFile,
    hold_lock,
    replace_file,
    storage_error,
)
from loadgen.record.rows import request_row, scrape_row
from loadgen.record.schema import HEALTH, REQUESTS, SCRAPES
from loadgen.record.types import Manifest, PhaseRecord
from loadgen.redact import MASK, Redactor

#: What is not yet on disk is never older than this plus one flush.
FLUSH_INTERVAL_S = 0.5
#: Rows turned into one batch at once, and a pause after each row: the dispatching loop shares the interpreter
#: lock with this thread, and its stamps must not wait for a whole batch.
BATCH_ROWS = 32
YIELD_S = 1e-5
KEPT = "what was written before is kept: `specload report` reads it"
#: Keys whose text values are secrets wherever they stand in the manifest.
_SECRET_KEYS = frozenset({"api_key", "authorization", "password"})


def new_run_id(name: str = "run") -> str:
    """UTC time, name, six random hex digits: sorts by time, unique enough for one folder."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{name}-{secrets.token_hex(3)}"


class RunWriter:
    """A `drive.Sink`. All calls only queue; one thread of its own turns attempts into rows and writes.

    Raises StorageError from the constructor and from `finish`. If writing fails in between, `failed`
    holds the error from then on, what comes later is counted in `lost`, and the files on disk end at
    their last whole batch. `keep_text` (default: the scenario's) says whether prompts and answers may
    be stored.
    """

    def __init__(
        self, root: Path, manifest: Manifest, redact: Redactor | None = None, keep_text: bool | None = None
    ) -> None:
        self.manifest = manifest
        self.path = Path(root) / manifest.run_id
        self.failed: StorageError | None = None
        self.lost = 0
        self._redact = redact or Redactor()
        workload = manifest.scenario.get("workload") or {}
        self._keep_text = bool(workload.get("keep_text", False)) if keep_text is None else keep_text
        self._structured = [bool(task.get("json_schema")) for task in workload.get("tasks") or []]
        self._phases: dict[int, PhaseRecord] = {}
        self._attempts: deque[Attempt] = deque()
        self._scrapes: deque[Scrape] = deque()
        self._health: deque[LoopHealth] = deque()
        self._lines: deque[tuple[str, str]] = deque()  # (file, line)
        self._log = AnomalyLog(manifest.anchors[0] if manifest.anchors else anchor(), self._redact)
        self._flushing = threading.Lock()
        self._ending = threading.Event()
        self._finished = False
        try:
            self._open()
        except OSError as error:
            raise storage_error(self.path, error, "choose another folder with --out") from None
        self._thread = threading.Thread(target=self._flush_until_end, name="specload-record", daemon=True)
        self._thread.start()

    def _open(self) -> None:
        self.path.mkdir(parents=True)
        self._lock_fd = hold_lock(self.path)
        self.save_manifest()
        self._requests = ArrowFile(self.path / "requests.arrow", REQUESTS)
        self._scrape_file = ArrowFile(self.path / "scrapes.arrow", SCRAPES)
        self._health_file = ArrowFile(self.path / "health.arrow", HEALTH)
        self._texts = {name: AppendFile(self.path / name) for name in (PHASES, ANOMALIES)}

    def attempt(self, attempt: Attempt) -> None:
        self._queue(self._attempts, attempt)

    def health(self, health: LoopHealth) -> None:
        self._queue(self._health, health)

    def scrape(self, scrape: Scrape) -> None:
        self._queue(self._scrapes, scrape)

    def phase(self, phase: PhaseRecord) -> None:
        """At the segment's start, before its attempts, and again at its end; the last one counts."""
        self._phases[phase.segment] = phase
        self._queue(self._lines, (PHASES, orjson.dumps(asdict(phase)).decode() + "\n"))

    def anomaly(self, text: str) -> None:
        """One line of the human log."""
        self._queue(self._lines, (ANOMALIES, self._log.line(text, now_ns())))

    def save_manifest(self) -> None:
        """Replace manifest.json by the present `manifest`, secrets masked. Raises OSError."""
        data = _masked(self.manifest.model_dump(mode="json"), self._redact)
        replace_file(self.path / MANIFEST, orjson.dumps(data, option=orjson.OPT_INDENT_2))

    def finish(self, state: str, reason: str | None = None, lengths: Mapping[str, Any] | None = None) -> None:
        """Write the rest, compact to Parquet, close the manifest. Idempotent.

        Raises StorageError if anything could not be written, after doing all that could be done.
        """
        if self._finished:
            return
        self._finished = True
        self._ending.set()
        self._thread.join()
        self._flush()
        self._lines.extend((ANOMALIES, line) for line in self._log.totals(now_ns()))
        self._flush()
        self.lost += len(self._attempts) + len(self._scrapes) + len(self._health)
        self._guarded(self._close_streams)
        if self.failed is None:
            self._guarded(lambda: setattr(self.manifest, "arms", compact(self.path, self.manifest)))
        self._close_manifest(state, reason, lengths)
        (self.path / LOCK).unlink(missing_ok=True)
        os.close(self._lock_fd)
        if self.failed is not None:
            raise self.failed

    def _close_manifest(self, state: str, reason: str | None, lengths: Mapping[str, Any] | None) -> None:
        manifest = self.manifest
        manifest.state, manifest.stop_reason = state, reason
        if self.failed is not None:
            manifest.state, manifest.stop_reason = "failed", f"records could not be written: {self.failed}"
        manifest.finished = datetime.now(UTC).isoformat(timespec="milliseconds")
        manifest.anchors.append(anchor())
        if self.lost:
            manifest.notes.append(f"{self.lost} records were lost after writing had failed")
        if lengths is not None:
            manifest.length_model = dict(lengths)
        self._guarded(self.save_manifest)

    def _close_streams(self) -> None:
        for text in self._texts.values():
            text.close()
        for stream in (self._requests, self._scrape_file, self._health_file):
            if self.failed is None:
                stream.finish()
            stream.close()

    def _queue(self, queue: deque[Any], item: object) -> None:
        if self.failed is None and not self._finished:
            queue.append(item)
        else:
            self.lost += 1

    def _flush_until_end(self) -> None:
        while not self._ending.wait(FLUSH_INTERVAL_S):
            self._flush()

    def _flush(self) -> None:
        with self._flushing:
            if self.failed is None:
                self._guarded(self._write_queued)

    def _write_queued(self) -> None:
        """Text first: a phase is on disk before the attempts of its segment."""
        attempts = _take(self._attempts)
        for attempt in attempts:
            self._lines.extend((ANOMALIES, line) for line in self._log.lines(attempt))
        texts: dict[str, list[str]] = {}
        for name, line in _take(self._lines):
            texts.setdefault(name, []).append(line)
        for name, lines in texts.items():
            self._texts[name].write("".join(lines).encode())
        self._write_attempts(attempts)
        if scrapes := _take(self._scrapes):
            self._scrape_file.write([scrape_row(scrape) for scrape in scrapes])
        if healths := _take(self._health):
            self._health_file.write([asdict(health) for health in healths])

    def _write_attempts(self, attempts: list[Attempt]) -> None:
        before = self._requests.rows
        try:
            for begin in range(0, len(attempts), BATCH_ROWS):
                rows = []
                for attempt in attempts[begin : begin + BATCH_ROWS]:
                    rows.append(self._row(attempt))
                    if not self._ending.is_set():
                        time.sleep(YIELD_S)
                self._requests.write(rows)
        except Exception:
            self.lost += len(attempts) - (self._requests.rows - before)
            raise

    def _row(self, attempt: Attempt) -> dict[str, Any]:
        if not self._keep_text and (attempt.text is not None or attempt.prompt is not None):
            attempt = replace(attempt, text=None, prompt=None)
        facts, phase = self.manifest.arms.get(attempt.arm), self._phases.get(attempt.segment)
        task = attempt.case.task_index
        structured = task < len(self._structured) and self._structured[task]
        return request_row(attempt, self.manifest.run_id, facts, phase, self._redact, structured)

    def _guarded(self, work: Callable[[], None]) -> None:
        """The first failure is remembered; everything already on disk stays as it is."""
        try:
            work()
        except OSError as error:
            self.failed = self.failed or storage_error(self.path, error, KEPT)
        except StorageError as error:
            self.failed = self.failed or error
        except Exception as error:  # a fault of ours must not end the thread unseen
            self.failed = self.failed or StorageError(f"{self.path}: {type(error).__name__}: {error}; {KEPT}")


def _take(queue: deque[Any]) -> list[Any]:
    """What is there now; others may append meanwhile."""
    return [queue.popleft() for _ in range(len(queue))]


def _masked(value: Any, redact: Redactor, secret: bool = False) -> Any:
    """Secrets out of plain data. The places secrets are read from (`api_key: {env: NAME}`) may stay."""
    if isinstance(value, dict):
        return {key: _masked(item, redact, secret or _holds_secret(key, item)) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(item, redact, secret) for item in value]
    if isinstance(value, str):
        return MASK if secret else redact(value)
    return value


def _holds_secret(key: str, item: object) -> bool:
    return key.lower() == "headers" or (key.lower() in _SECRET_KEYS and isinstance(item, str))
