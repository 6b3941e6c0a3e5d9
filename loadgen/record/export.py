"""One row per request, by the contract: JSONL, CSV, Parquet."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from loadgen.errors import StorageError
from loadgen.record.columns import COLUMNS
from loadgen.record.types import RunData

ExportKind = Literal["jsonl", "csv", "parquet"]
#: Columns that only formats with lists have.
LIST_COLUMNS = ("chunk_times_s", "chunk_tokens")
_BATCH_ROWS = 1000


def export_table(run: RunData) -> pa.Table:
    """The contract's columns, in its order."""
    return run.requests.select(list(COLUMNS))


def write_export(run: RunData, kind: ExportKind, path: Path | str) -> int:
    """Write the export whole or not at all; returns the number of rows. Raises StorageError.

    CSV has no chunk lists, an empty field for null, and the histogram as JSON text.
    """
    path, table = Path(path), export_table(run)
    write: Callable[[pa.Table, Path], None] = {"jsonl": _jsonl, "csv": _csv, "parquet": _parquet}[kind]
    special = path.exists() and not path.is_file()  # a pipe or terminal cannot be replaced
    target = path if special else path.with_name(path.name + ".part")
    try:
        write(table, target)
        if not special:
            target.replace(path)
    except OSError as error:
        if not special:
            target.unlink(missing_ok=True)
        raise StorageError(f"{path}: cannot be written: {error.strerror or error}") from None
    return table.num_rows


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
        yield from batch.to_pylist()


def _jsonl(table: pa.Table, path: Path) -> None:
    with path.open("wb") as file:
        for row in _rows(table):
            file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))


def _csv(table: pa.Table, path: Path) -> None:
    names = [name for name in COLUMNS if name not in LIST_COLUMNS]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for row in _rows(table.select(names)):
            writer.writerow([_field(row[name]) for name in names])


def _field(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return orjson.dumps(value).decode() if isinstance(value, list) else value


def _parquet(table: pa.Table, path: Path) -> None:
    pq.write_table(table, str(path), compression="zstd")
