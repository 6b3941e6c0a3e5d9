"""Writes the run directory while the run lives. Whatever ends the process, at most the last second is lost."""

from __future__ import annotations

import errno
import os
import secrets
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from loadgen.clock import anchor, now_ns
from loadgen.drive import WorkerEnd
from loadgen.errors import StorageError
from loadgen.observe import Scrape, TelemetrySample
from loadgen.record.anomalies import AnomalyLog
from loadgen.record.compact import compact
from loadgen.record.files import (
    ANOMALIES,
    EVENTS,
    LOCK,
    MANIFEST,
    PHASES,
    AppendFile,
    ArrowFile,
    SharedLog,
    hold_lock,
    record_batch,
    replace_file,
    storage_error,
)
from loadgen.record.rows import Labels, scrape_row, telemetry_row
from loadgen.record.schema import SCRAPES, TELEMETRY
from loadgen.record.types import Event, Manifest, PhaseRecord
from loadgen.record.worker import FLUSH_INTERVAL_S, WorkerRecordsSetup, guarded, take
from loadgen.redact import MASK, Redactor

#: What we said ourselves, of the run and of an arm: a secret that happens to be such a word must not change it.
_OWN_WORDS = frozenset(
    {"run_id", "specload_version", "started", "finished", "state", "scenario_sha256", "plan_hash", "shard", "design"}
)
_OWN_ARM_WORDS = frozenset({"adapter", "chunk_unit", "endpoint"})
#: Keys whose text values are secrets wherever they stand in the manifest.
_SECRET_KEYS = frozenset({"api_key", "authorization", "password"})


def new_run_id(name: str = "run") -> str:
    """UTC time, name, six random hex digits: sorts by time, unique enough for one folder."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{name}-{secrets.token_hex(3)}"


class RunWriter:
    """The coordinator's part of the run directory: manifest, phases, scrapes, telemetry, human log, and the end.

    Attempts and health are written by the worker processes (`sinks`). All calls only queue; one thread of its
    own writes. Raises StorageError from the constructor and from `finish`. If writing fails in between, `failed`
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
        self._structured = tuple(bool(task.get("json_schema")) for task in workload.get("tasks") or [])
        self._anchor = manifest.anchors[0] if manifest.anchors else anchor()
        self._scrapes: deque[Scrape] = deque()
        self._telemetry: deque[TelemetrySample] = deque()
        self._telemetry_file: ArrowFile | None = None  # made with the first sample: most runs have none
        self._lines: deque[tuple[str, str]] = deque()  # (file, line)
        self._log = AnomalyLog(self._anchor, self._redact)
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
        self.path.mkdir(parents=True, exist_ok=True)  # logs of servers that were started first may be there
        if (self.path / MANIFEST).exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        self._lock_fd = hold_lock(self.path)
        self.save_manifest()
        self._scrape_file = ArrowFile(self.path / "scrapes.arrow", SCRAPES)
        self._texts: dict[str, AppendFile | SharedLog] = {
            PHASES: AppendFile(self.path / PHASES),
            ANOMALIES: SharedLog(self.path / ANOMALIES),
        }

    def sinks(self, labels: Mapping[int, Labels]) -> WorkerRecordsSetup:
        """What a worker process needs to write its own records here. `labels` by segment number."""
        return WorkerRecordsSetup(
            self.path,
            self.manifest.run_id,
            self.manifest.arms,
            labels,
            self._structured,
            self._keep_text,
            self._redact,
            self._anchor,
        )

    def scrape(self, scrape: Scrape) -> None:
        self._queue(self._scrapes, scrape)

    def telemetry(self, sample: TelemetrySample) -> None:
        self._queue(self._telemetry, sample)

    def phase(self, phase: PhaseRecord) -> None:
        """At the segment's start, before its attempts, and again at its end; the last one counts."""
        self._queue(self._lines, (PHASES, orjson.dumps(asdict(phase)).decode() + "\n"))

    def anomaly(self, text: str) -> None:
        """One line of the human log."""
        self._queue(self._lines, (ANOMALIES, self._log.line(text, now_ns())))

    def event(self, event: Event) -> None:
        """What an experiment did or saw beside the load. Secrets are masked here."""
        line = orjson.dumps(
            {"at_ns": event.at_ns, "name": event.name, "data": _masked(event.data, self._redact)},
            option=orjson.OPT_NON_STR_KEYS,
        )
        self._queue(self._lines, (EVENTS, line.decode() + "\n"))

    def save_manifest(self) -> None:
        """Replace manifest.json by the present `manifest`, secrets masked. Raises OSError."""
        data = _masked_manifest(self.manifest.model_dump(mode="json"), self._redact)
        replace_file(self.path / MANIFEST, orjson.dumps(data, option=orjson.OPT_INDENT_2))

    def finish(
        self,
        state: str,
        reason: str | None = None,
        lengths: Mapping[str, Any] | None = None,
        workers: Sequence[WorkerEnd] = (),
    ) -> None:
        """Write the rest, compact to Parquet, close the manifest. Idempotent. `workers`: how each of them ended;
        all must have, before.

        Raises StorageError if anything could not be written, after doing all that could be done.
        """
        if self._finished:
            return
        self._finished = True
        self._ending.set()
        self._thread.join()
        self._flush()
        self.lost += len(self._scrapes) + len(self._telemetry) + sum(end.lost for end in workers)
        self.manifest.lost_workers = [end.worker for end in workers if end.died]
        for end in workers:
            if end.failed is not None:
                self.failed = self.failed or StorageError(end.failed)
        self._guarded(self._end_stream)
        if self.failed is None:
            self._guarded(self._compact)
        for file in (*self._arrow_files(), *self._texts.values()):
            file.close()
        self._close_manifest(state, reason, lengths)
        (self.path / LOCK).unlink(missing_ok=True)
        os.close(self._lock_fd)
        if self.failed is not None:
            raise self.failed

    def _end_stream(self) -> None:
        if self.failed is None:
            for file in self._arrow_files():
                file.finish()

    def _arrow_files(self) -> list[ArrowFile]:
        return [self._scrape_file, *([self._telemetry_file] if self._telemetry_file is not None else [])]

    def _compact(self) -> None:
        done = compact(self.path, self.manifest)
        self.manifest.arms = done.arms
        self.manifest.notes += [f"of a worker that died: {text}" for text in done.torn]
        at_ns = now_ns()
        self._texts[ANOMALIES].write("".join(self._log.line(text, at_ns) for text in done.totals).encode())

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
        texts: dict[str, list[str]] = {}
        for name, line in take(self._lines):
            texts.setdefault(name, []).append(line)
        for name, lines in texts.items():
            if name not in self._texts:  # most runs have no events
                self._texts[name] = AppendFile(self.path / name)
            self._texts[name].write("".join(lines).encode())
        if scrapes := take(self._scrapes):
            self._scrape_file.write(record_batch([scrape_row(scrape) for scrape in scrapes], SCRAPES))
        if samples := take(self._telemetry):
            if self._telemetry_file is None:
                self._telemetry_file = ArrowFile(self.path / "telemetry.arrow", TELEMETRY)
            self._telemetry_file.write(record_batch([telemetry_row(sample) for sample in samples], TELEMETRY))

    def _guarded(self, work: Callable[[], None]) -> None:
        """The first failure is remembered."""
        error = guarded(self.path, work)
        if error is not None:
            self.failed = self.failed or error


def _masked_manifest(data: dict[str, Any], redact: Redactor) -> dict[str, Any]:
    arms = {name: {**_masked(arm, redact), **_only(arm, _OWN_ARM_WORDS)} for name, arm in data["arms"].items()}
    return {**_masked(data, redact), **_only(data, _OWN_WORDS), "arms": arms}


def _only(data: Mapping[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key in keys}


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
