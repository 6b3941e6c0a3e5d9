"""At the end of a run: Arrow streams to Parquet, completed by what only the whole run tells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from loadgen.errors import StorageError
from loadgen.observe import Scrape, TelemetrySample
from loadgen.record.anomalies import Totals
from loadgen.record.complete import BatchSizes, GpuPeaks, NullColumns
from loadgen.record.files import read_stream, stream_of, streams_of
from loadgen.record.rows import scrape_of, telemetry_of
from loadgen.record.schema import HEALTH, REQUESTS, SCRAPES, TELEMETRY
from loadgen.record.types import ArmFacts, Manifest

#: Rows and bytes of a Parquet row group, whichever comes first: bounds the memory of the compaction.
GROUP_ROWS = 5000
GROUP_BYTES = 16 << 20


@dataclass(frozen=True)
class Compacted:
    """`arms` with `absent_columns` completed; `totals`, lines of the human log; `torn`: ends that were left out."""

    arms: dict[str, ArmFacts]
    totals: list[str]
    torn: list[str]


def compact(path: Path, manifest: Manifest) -> Compacted:
    """Replace the .arrow streams by one Parquet file a table.

    The streams are removed only when their Parquet file is in place and has as many rows. Raises OSError or
    StorageError; the .arrow files that are left remain readable. Only streams of `lost_workers` may be torn.
    """
    torn: list[str] = []

    def tables(name: str, schema: pa.Schema) -> Iterator[pa.Table]:
        for source in streams_of(path, name):
            allowed = torn if source in {stream_of(path, name, worker) for worker in manifest.lost_workers} else None
            yield from _groups(source, schema, allowed)

    scrapes = [scrape for table in tables("scrapes", SCRAPES) for scrape in scrapes_of(table)]
    samples = [sample for table in tables("telemetry", TELEMETRY) for sample in telemetry_samples(table)]
    sizes, nulls, totals = BatchSizes(scrapes, manifest.arms), NullColumns(), Totals()
    peaks = GpuPeaks(samples)

    def finished(table: pa.Table) -> pa.Table:
        table = peaks.fill(sizes.fill(table))
        nulls.add(table)
        totals.add(table)
        return table

    _convert(path, "requests", REQUESTS, map(finished, tables("requests", REQUESTS)))
    _convert(path, "scrapes", SCRAPES, tables("scrapes", SCRAPES))
    _convert(path, "health", HEALTH, tables("health", HEALTH))
    if streams_of(path, "telemetry"):
        _convert(path, "telemetry", TELEMETRY, tables("telemetry", TELEMETRY))
    return Compacted(nulls.complete(manifest.arms), totals.lines(), torn)


def scrapes_of(table: pa.Table) -> list[Scrape]:
    return [scrape_of(row) for row in table.to_pylist()]


def telemetry_samples(table: pa.Table) -> list[TelemetrySample]:
    return [telemetry_of(row) for row in table.to_pylist()]


def _convert(path: Path, name: str, schema: pa.Schema, tables: Iterator[pa.Table]) -> None:
    target = path / f"{name}.parquet"
    temporary = target.with_name(target.name + ".part")
    rows = 0
    try:
        with pq.ParquetWriter(str(temporary), schema, compression="zstd", **encoding(schema)) as writer:
            for table in tables:
                writer.write_table(table)
                rows += table.num_rows
        stored = pq.read_metadata(str(temporary)).num_rows
        if stored != rows:
            raise StorageError(f"{target}: {stored} rows were stored of {rows}; the .arrow files are kept")
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    for source in streams_of(path, name):
        source.unlink()


def encoding(schema: pa.Schema) -> dict[str, Any]:
    """A dictionary for texts alone, which repeat. The bytes of chunk times apart, by their place in the number:
    smaller and cheaper than trying a dictionary on them."""
    texts = [field.name for field in schema if field.type == pa.string()]
    times = ["chunk_times_s.list.element"] if "chunk_times_s" in schema.names else []
    return {
        "compression_level": 1,
        "use_dictionary": texts,
        "column_encoding": dict.fromkeys(times, "BYTE_STREAM_SPLIT"),
    }


def _groups(source: Path, schema: pa.Schema, torn: list[str] | None) -> Iterator[pa.Table]:
    """The stream in tables of about `GROUP_ROWS` rows or `GROUP_BYTES`. A tear is an error where its own writer
    closed it (`torn` None), else noted there."""
    batches: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in read_stream(source):
        if isinstance(batch, str):
            if torn is None:
                raise StorageError(f"{source}: {batch}")
            torn.append(batch)
            continue
        batches.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= GROUP_ROWS or size >= GROUP_BYTES:
            yield pa.Table.from_batches(batches, schema=schema)
            batches, rows, size = [], 0, 0
    if batches:
        yield pa.Table.from_batches(batches, schema=schema)
