"""Files of a run directory: append-only Arrow streams, whole files replaced at once, the writer's lock."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from loadgen.errors import StorageError

MANIFEST = "manifest.json"
PHASES = "phases.jsonl"
ANOMALIES = "anomalies.log"
EVENTS = "events.jsonl"
LOCK = ".lock"
KEPT = "what was written before is kept: `specload report` reads it"

_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_NOT_A_VALUE = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError)


class AppendFile:
    """Bytes are with the kernel when `write` returns, so they survive `kill -9`.

    A write that fails half-way (full disk) is taken back: the file ends at the last whole one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o644)
        self._size = 0

    def write(self, data: bytes | pa.Buffer) -> None:
        view = memoryview(data)
        size = len(view)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            os.ftruncate(self._fd, self._size)
            raise
        self._size += size

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class SharedLog:
    """Lines of text that several processes append to one file; each write is whole."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)

    def write(self, data: bytes) -> None:
        if os.write(self._fd, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class ArrowFile:
    """An Arrow IPC stream that grows by whole record batches."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._file = AppendFile(path)
        self._file.write(schema.serialize())
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._file.write(batch.serialize())
        self.rows += batch.num_rows

    def finish(self) -> None:
        self._file.write(_END_OF_STREAM)
        self._file.close()

    def close(self) -> None:
        self._file.close()


def record_batch(rows: Sequence[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows as a batch. A value that its column cannot hold becomes null: no row is lost for it."""
    columns = [column_of([row.get(field.name) for row in rows], field.type)[0] for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def column_of(values: Sequence[Any], kind: pa.DataType) -> tuple[pa.Array[Any], dict[int, str]]:
    """The values as a column, and by index why one of them became null: it cannot be held (a count of 2**40)."""
    try:
        return pa.array(values, type=kind), {}
    except _NOT_A_VALUE:
        kept, reasons = list(values), {}
        for i, value in enumerate(kept):
            try:
                pa.array([value], type=kind)
            except _NOT_A_VALUE as error:
                kept[i], reasons[i] = None, f"not storable: {error}"
        return pa.array(kept, type=kind), reasons


def stream_of(path: Path, table: str, worker: int) -> Path:
    """The stream of one worker's rows of a table, while the run lives."""
    return path / f"{table}-{worker}.arrow"


def streams_of(path: Path, table: str) -> list[Path]:
    """All streams of a table: of every worker by number, or the only one of a table that has one writer."""
    own = [
        (int(p.stem.rpartition("-")[2]), p) for p in path.glob(f"{table}-*.arrow") if p.stem[len(table) + 1 :].isdigit()
    ]
    whole = path / f"{table}.arrow"
    return ([whole] if whole.exists() else []) + [p for _, p in sorted(own)]


def read_stream(path: Path) -> Iterator[pa.RecordBatch | str]:
    """Whole batches of an Arrow stream; last, where the file is torn, one sentence about it.

    A stream of a killed writer ends without its end mark: that alone is no tear.
    """
    try:
        with pa.OSFile(str(path), "rb") as source:
            if source.size() == 0:
                return
            reader = pa.ipc.open_stream(source)
            while True:
                yield reader.read_next_batch()
    except StopIteration:
        return
    except (pa.ArrowInvalid, OSError) as error:
        yield f"{path.name}: the last batch is torn and was left out ({error})"


def replace_file(path: Path, data: bytes) -> None:
    """Write whole or not at all."""
    temporary = path.with_name(path.name + ".part")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def hold_lock(path: Path) -> int:
    """Held as long as the writing process lives, whatever kills it. Returns the descriptor."""
    fd = os.open(path / LOCK, os.O_CREAT | os.O_RDWR, 0o644)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return fd


def is_being_written(path: Path) -> bool:
    try:
        fd = os.open(path / LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def storage_error(path: Path, error: OSError, kept: str) -> StorageError:
    """`kept` says what remains, in words."""
    return StorageError(f"{error.filename or path}: {error.strerror or error}; {kept}")
