"""At the end of a run: Arrow streams to Parquet, completed by what only the whole run tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from loadgen.errors import StorageError
from loadgen.observe import Scrape
from loadgen.record.complete import BatchSizes, NullColumns
from loadgen.record.files import read_stream
from loadgen.record.rows import scrape_of
from loadgen.record.schema import HEALTH, REQUESTS, SCRAPES
from loadgen.record.types import ArmFacts, Manifest

#: Rows of a Parquet row group: bounds the memory of the compaction.
GROUP_ROWS = 5000


def compact(path: Path, manifest: Manifest) -> dict[str, ArmFacts]:
    """Replace the three .arrow files by .parquet; returns the arms with `absent_columns` completed.

    Each .arrow is removed only when its Parquet file is in place and has as many rows. Raises
    OSError or StorageError; the .arrow files that are left remain readable.
    """
    scrapes = [scrape for batch in _groups(path / "scrapes.arrow", SCRAPES) for scrape in scrapes_of(batch)]
    sizes, nulls = BatchSizes(scrapes, manifest.arms), NullColumns()

    def finished(table: pa.Table) -> pa.Table:
        table = sizes.fill(table)
        nulls.add(table)
        return table

    _convert(path / "requests.arrow", REQUESTS, finished)
    _convert(path / "scrapes.arrow", SCRAPES, lambda table: table)
    _convert(path / "health.arrow", HEALTH, lambda table: table)
    return nulls.complete(manifest.arms)


def scrapes_of(table: pa.Table) -> list[Scrape]:
    return [scrape_of(row) for row in table.to_pylist()]


def _convert(source: Path, schema: pa.Schema, finish: Callable[[pa.Table], pa.Table]) -> None:
    target = source.with_suffix(".parquet")
    temporary = target.with_name(target.name + ".part")
    rows = 0
    try:
        with pq.ParquetWriter(str(temporary), schema, compression="zstd") as writer:
            for table in _groups(source, schema):
                writer.write_table(finish(table))
                rows += table.num_rows
        stored = pq.read_metadata(str(temporary)).num_rows
        if stored != rows:
            raise StorageError(f"{target}: {stored} rows were stored of {rows}; {source.name} is kept")
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    source.unlink()


def _groups(source: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    """The stream in tables of about `GROUP_ROWS` rows. Its own writer closed it: a tear is an error."""
    batches: list[pa.RecordBatch] = []
    for batch in read_stream(source):
        if isinstance(batch, str):
            raise StorageError(f"{source}: {batch}")
        batches.append(batch)
        if sum(b.num_rows for b in batches) >= GROUP_ROWS:
            yield pa.Table.from_batches(batches, schema=schema)
            batches = []
    if batches:
        yield pa.Table.from_batches(batches, schema=schema)
