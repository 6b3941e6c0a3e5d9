"""What is known only when the run is over: server batch size and GPU memory per request, columns that stayed null."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from loadgen.observe import GaugeTrack, Measured, Scrape, TelemetrySample, tracks_of
from loadgen.record.columns import CONTRACT, EXTRA
from loadgen.record.schema import REQUESTS
from loadgen.record.types import ArmFacts

_WHY_NULL = {column.name: column.null for column in (*CONTRACT, *EXTRA)}
_NO_SAMPLE = "no scrape of every metrics page fell between sent and last token"
_NO_GPU_SAMPLE = "no sample of every GPU fell between sent and last token"


class BatchSizes:
    """Fills `batch_size`: mean of the servers' running requests over each request's [sent, last]."""

    def __init__(self, scrapes: Sequence[Scrape], arms: Mapping[str, ArmFacts]) -> None:
        self._tracks = (
            {name: GaugeTrack(scrapes, name, "running", facts.model) for name, facts in arms.items()} if scrapes else {}
        )

    def fill(self, table: pa.Table) -> pa.Table:
        sizes = self._sizes(table)
        table = _replace(table, "absent", _with_reason(table["absent"], sizes.is_null(), "batch_size", _NO_SAMPLE))
        return _replace(table, "batch_size", sizes)

    def _sizes(self, table: pa.Table) -> pa.Array[Any]:
        if not self._tracks:
            return pa.nulls(table.num_rows, pa.float64())
        return pa.array(_per_request(table, self._mean), type=pa.float64())

    def _mean(self, arm: str | None, sent_ns: int, last_ns: int) -> float | None:
        if arm is None or arm not in self._tracks:
            return None
        found = self._tracks[arm].mean(sent_ns, last_ns)
        return found[0] if found else None


class GpuPeaks:
    """Fills `gpu_mem_peak_bytes`: most memory in use on the arm's GPUs at one time within [sent, last]."""

    def __init__(self, samples: Sequence[TelemetrySample]) -> None:
        self._tracks = {arm: tracks for arm, tracks in tracks_of(samples, ()).items() if tracks.devices}

    def fill(self, table: pa.Table) -> pa.Table:
        if not self._tracks:
            return table
        peaks = pa.array(_per_request(table, self._peak), type=pa.int64())
        sampled = pc.is_in(table["arm"].combine_chunks(), value_set=pa.array(list(self._tracks), pa.string()))
        missing = pc.and_(peaks.is_null(), sampled)
        table = _replace(table, "absent", _with_reason(table["absent"], missing, "gpu_mem_peak_bytes", _NO_GPU_SAMPLE))
        return _replace(table, "gpu_mem_peak_bytes", peaks)

    def _peak(self, arm: str | None, sent_ns: int, last_ns: int) -> int | None:
        if arm is None or arm not in self._tracks:
            return None
        found = self._tracks[arm].peak("memory_used_bytes", sent_ns, last_ns)
        return round(found.value) if isinstance(found, Measured) else None


def _per_request(table: pa.Table, ask: Callable[[str | None, int, int], Any]) -> list[Any]:
    """`ask`(arm, sent, last) of every row that has both; last: of the last token, or of a whole answer its end."""
    streamed = table["stream"].combine_chunks().fill_null(pa.scalar(False))
    last_ns = pc.if_else(streamed, table["last_token_ns"], table["end_ns"])
    known = pc.and_(pc.is_valid(table["sent_ns"]), pc.is_valid(last_ns)).to_numpy()
    spans = zip(_ints(table["sent_ns"]), _ints(last_ns), strict=True)
    found: list[Any] = [None] * table.num_rows
    for row, (arm, (sent, last)) in enumerate(zip(table["arm"].to_pylist(), spans, strict=True)):
        if known[row]:
            found[row] = ask(arm, sent, last)
    return found


class NullColumns:
    """Which columns are null in every row of an arm, and why."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = defaultdict(int)
        self._nulls: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self._told: dict[str, dict[str, str]] = {}

    def add(self, table: pa.Table) -> None:
        arms = table["arm"].combine_chunks().fill_null("").dictionary_encode()
        codes = _ints(arms.indices)
        names = [str(name) for name in arms.dictionary.to_pylist()]
        rows = np.bincount(codes, minlength=len(names))
        nulls = {column: _nulls(table[column], codes, rows) for column in table.column_names}
        for code, arm in enumerate(names):
            self._rows[arm] += int(rows[code])
            for column, counts in nulls.items():
                self._nulls[arm][column] += int(counts[code])
            if arm not in self._told:
                first = int(np.argmax(codes == code))
                self._told[arm] = orjson.loads(table["absent"][first].as_py() or "{}")

    def complete(self, arms: Mapping[str, ArmFacts]) -> dict[str, ArmFacts]:
        """The arms' facts with `absent_columns` completed."""
        return {
            name: facts.model_copy(update={"absent_columns": self._reasons(name, facts.absent_columns)})
            for name, facts in arms.items()
        }

    def _reasons(self, arm: str, known: Mapping[str, str]) -> dict[str, str]:
        """`known` reasons first (preflight), then the first request's own, then what the column says."""
        if arm not in self._rows:
            return dict(known)
        null = [name for name, n in self._nulls[arm].items() if n and n == self._rows[arm]]
        told = self._told.get(arm, {})
        return {name: known.get(name) or told.get(name) or _WHY_NULL[name] for name in null}


def conform(table: pa.Table, schema: pa.Schema = REQUESTS) -> pa.Table:
    """The table with exactly the schema's columns: unknown ones left out, missing ones null."""
    columns = [
        table[field.name].cast(field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, type=field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _with_reason(absent: pa.ChunkedArray[Any], missing: pa.Array[Any], column: str, why: str) -> pa.Array[Any]:
    """The `absent` texts, with the reason `why` there is no `column` where it is `missing`. Few texts are distinct."""
    whole = absent.combine_chunks().fill_null("{}")
    if not pc.any(missing).as_py():
        return whole
    coded = whole.dictionary_encode()
    texts = [str(text) for text in coded.dictionary.to_pylist()]
    told = [orjson.dumps({**orjson.loads(text), column: why}).decode() for text in texts]
    which = pc.add(coded.indices, pc.multiply(missing.cast(pa.int32()), pa.scalar(len(texts), pa.int32())))
    return pa.array([*texts, *told], pa.string()).take(which)


def _nulls(column: pa.ChunkedArray[Any], codes: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Null values of every code; `rows`: all values of it."""
    if not column.null_count:
        return np.zeros_like(rows)
    if column.null_count == len(column):
        return rows
    return np.bincount(codes[column.is_null().to_numpy()], minlength=len(rows))


def _ints(column: pa.Array[Any] | pa.ChunkedArray[Any]) -> npt.NDArray[np.int64]:
    """0 where null."""
    return np.asarray(pc.coalesce(column.cast(pa.int64()), pa.scalar(0, pa.int64())), np.int64)


def _replace(table: pa.Table, name: str, values: pa.Array[pa.Scalar[pa.DataType]]) -> pa.Table:
    at = table.column_names.index(name)
    return table.set_column(at, table.schema.field(at), values)
