"""What is known only when the run is over: server batch size per request, columns that stayed null."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from loadgen.observe import GaugeTrack, Scrape
from loadgen.record.columns import CONTRACT, EXTRA
from loadgen.record.schema import REQUESTS
from loadgen.record.types import ArmFacts

_WHY_NULL = {column.name: column.null for column in (*CONTRACT, *EXTRA)}
_NO_SAMPLE = "no scrape of every metrics page fell between sent and last token"


class BatchSizes:
    """Fills `batch_size`: mean of the servers' running requests over each request's [sent, last]."""

    def __init__(self, scrapes: Sequence[Scrape], arms: Mapping[str, ArmFacts]) -> None:
        self._tracks = {name: GaugeTrack(scrapes, name, "running", facts.model) for name, facts in arms.items()}

    def fill(self, table: pa.Table) -> pa.Table:
        keys = ("arm", "stream", "sent_ns", "last_token_ns", "end_ns", "absent")
        sizes: list[float | None] = []
        absents: list[str] = []
        for row in table.select(list(keys)).to_pylist():
            last = row["last_token_ns"] if row["stream"] else row["end_ns"]
            size = self._mean(row["arm"], row["sent_ns"], last)
            sizes.append(size)
            told = row["absent"] or "{}"
            if size is None:
                told = orjson.dumps({**orjson.loads(told), "batch_size": _NO_SAMPLE}).decode()
            absents.append(told)
        table = _replace(table, "batch_size", pa.array(sizes, type=pa.float64()))
        return _replace(table, "absent", pa.array(absents, type=pa.string()))

    def _mean(self, arm: str, sent_ns: int | None, last_ns: int | None) -> float | None:
        if arm not in self._tracks or sent_ns is None or last_ns is None:
            return None
        found = self._tracks[arm].mean(sent_ns, last_ns)
        return found[0] if found else None


class NullColumns:
    """Which columns are null in every row of an arm, and why."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = defaultdict(int)
        self._nulls: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self._told: dict[str, dict[str, str]] = {}

    def add(self, table: pa.Table) -> None:
        for arm in sorted({str(name) for name in table["arm"].to_pylist()}):
            rows = table.filter(pc.equal(table["arm"], pa.scalar(arm)))
            self._rows[arm] += rows.num_rows
            for name in rows.column_names:
                self._nulls[arm][name] += rows[name].null_count
            self._told.setdefault(arm, orjson.loads(rows["absent"][0].as_py() or "{}"))

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


def _replace(table: pa.Table, name: str, values: pa.Array[pa.Scalar[pa.DataType]]) -> pa.Table:
    at = table.column_names.index(name)
    return table.set_column(at, table.schema.field(at), values)
