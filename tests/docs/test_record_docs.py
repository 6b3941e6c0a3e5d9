"""docs/records.md says of every column what the code says, and nothing else."""

import re
from pathlib import Path

from loadgen.record import COLUMNS, EXTRA_COLUMNS, HEALTH
from loadgen.record.columns import CONTRACT, EXTRA, Column
from loadgen.record.files import ANOMALIES, LOCK, MANIFEST, PHASES, stream_of

DOC = Path(__file__).resolve().parents[2] / "docs" / "records.md"


def rows_under(heading: str) -> list[str]:
    text = DOC.read_text(encoding="utf-8")
    part = text.split(f"## {heading}", 1)[1].split("\n## ", 1)[0]
    return [line for line in part.splitlines() if line.startswith("| `")]


def row(column: Column) -> str:
    return f"| `{column.name}` | {column.type} | {column.unit} | {column.meaning} | {column.null} |"


def test_contract_columns_are_documented_in_order() -> None:
    documented = rows_under("The contract: columns of an export, in this order")
    assert documented == [row(column) for column in CONTRACT]
    assert [re.findall(r"`(\w+)`", line)[0] for line in documented] == list(COLUMNS)


def test_further_columns_are_documented() -> None:
    documented = rows_under("Further columns of the run directory")
    assert documented == [row(column) for column in EXTRA]
    assert [re.findall(r"`(\w+)`", line)[0] for line in documented] == list(EXTRA_COLUMNS)


def test_every_file_of_a_run_directory_is_documented() -> None:
    text = DOC.read_text(encoding="utf-8")
    streams = ["scrapes.arrow", *(stream_of(Path(), table, 0).name for table in ("requests", "health"))]
    tables = [f"{table}.parquet" for table in ("requests", "scrapes", "health")]
    for name in (MANIFEST, PHASES, ANOMALIES, LOCK, *streams, *tables):
        assert f"`{name}`" in text


def test_every_column_says_when_it_is_null_and_what_it_means() -> None:
    for column in (*CONTRACT, *EXTRA):
        assert column.meaning
        assert column.null
        timed = column.name.endswith(("_s", "_ns"))
        assert not timed or column.unit in {"s", "ns", "1/s"}, column.name
    assert "lag_max_s" in HEALTH.names
