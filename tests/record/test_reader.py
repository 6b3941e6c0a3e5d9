"""Reading runs: torn, old, new, broken."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loadgen.drive import Attempt
from loadgen.errors import StorageError
from loadgen.record import REQUESTS, Manifest, PhaseRecord, RunWriter, list_runs, open_run

MakeAttempt = Callable[..., Attempt]


@pytest.fixture
def unfinished(
    tmp_path: Path,
    whole: Any,
    manifest: Callable[..., Manifest],
    attempt: MakeAttempt,
    phase: Callable[..., PhaseRecord],
) -> Path:
    """A run directory as a killed process leaves it: three batches of two requests, no end."""
    writer = whole(tmp_path / "live", manifest())
    writer.phase(phase())
    for i in range(6):
        writer.attempt(attempt(index=i))
        if i % 2:
            writer.flush()
    left = tmp_path / "left"
    left.mkdir()
    for file in writer.path.iterdir():
        (left / file.name).write_bytes(file.read_bytes())
    writer.finish("finished")
    return left


def test_an_unfinished_run_reads_without_loss(unfinished: Path) -> None:
    run = open_run(unfinished)
    assert run.manifest.state == "killed"
    assert run.requests.num_rows == 6
    assert len(run.problems) == 1
    assert run.requests.schema == REQUESTS


@pytest.mark.parametrize("cut", [1, 7, 500, 2000])
def test_a_torn_last_batch_is_left_out_and_named(unfinished: Path, cut: int) -> None:
    file = unfinished / "requests-0.arrow"
    file.write_bytes(file.read_bytes()[:-cut])
    run = open_run(unfinished)
    assert run.requests["seq"].to_pylist() == [0, 1, 2, 3]
    assert any("requests-0.arrow: the last batch is torn" in problem for problem in run.problems)


def test_files_cut_to_nothing_read_as_empty(unfinished: Path) -> None:
    (unfinished / "requests-0.arrow").write_bytes(b"")
    (unfinished / "health-0.arrow").write_bytes((unfinished / "health-0.arrow").read_bytes()[:100])
    (unfinished / "scrapes.arrow").unlink()
    run = open_run(unfinished)
    assert (run.requests.num_rows, run.health.num_rows, run.scrapes) == (0, 0, ())
    assert any(p.startswith("health-0.arrow") for p in run.problems)
    assert any("neither scrapes.parquet nor an .arrow file of scrapes" in p for p in run.problems)


def test_a_torn_phase_line_is_named(unfinished: Path) -> None:
    file = unfinished / "phases.jsonl"
    file.write_bytes(file.read_bytes() + b'{"segment": 1, "arm": "ba')
    run = open_run(unfinished)
    assert [p.segment for p in run.phases] == [0]
    assert any("phases.jsonl: line 2 is torn" in problem for problem in run.problems)


def test_a_newer_version_is_refused_with_what_to_do(write_run: Any, attempt: MakeAttempt) -> None:
    path = write_run([attempt()])
    data = orjson.loads((path / "manifest.json").read_bytes())
    (path / "manifest.json").write_bytes(orjson.dumps({**data, "schema_version": 2, "specload_version": "9.9"}))
    with pytest.raises(StorageError, match=r"newer specload \(9\.9, record schema 2; .* upgrade specload"):
        open_run(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "not JSON"),
        (b"[]", "no schema_version"),
        (b'{"run_id": "x"}', "no schema_version"),
        (b'{"schema_version": 1, "run_id": "x"}', "specload_version: Field required"),
    ],
)
def test_a_broken_manifest_is_a_clear_error(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(StorageError, match=message):
        open_run(tmp_path)


def test_not_a_run_directory(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="not a run directory"):
        open_run(tmp_path)
    with pytest.raises(StorageError, match="not a run directory"):
        open_run(tmp_path / "nowhere")


def test_a_broken_parquet_file_is_a_clear_error(write_run: Any, attempt: MakeAttempt) -> None:
    path = write_run([attempt()])
    (path / "requests.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(StorageError, match=r"requests\.parquet: cannot be read"):
        open_run(path)


def test_columns_that_were_added_later_are_null_and_unknown_ones_left_out(write_run: Any, attempt: MakeAttempt) -> None:
    """Additions are free: an older file lacks a column, a newer one has more."""
    path = write_run([attempt()])
    table = pq.read_table(str(path / "requests.parquet")).drop_columns(["wait_s"])
    table = table.append_column("from_the_future", pa.array([1]))
    pq.write_table(table, str(path / "requests.parquet"))
    run = open_run(path)
    assert run.requests.schema == REQUESTS
    assert run.requests["wait_s"].to_pylist() == [None]


def test_runs_are_listed_newest_first_and_broken_ones_with_their_reason(
    tmp_path: Path, manifest: Callable[..., Manifest]
) -> None:
    for name, started in (("one", "2026-01-01T00:00:00+00:00"), ("two", "2026-03-01T00:00:00+00:00")):
        RunWriter(tmp_path, manifest(name, started=started)).finish("finished")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "manifest.json").write_bytes(b"{")
    (tmp_path / "something else").mkdir()
    (tmp_path / "a file").write_text("")
    live = RunWriter(tmp_path, manifest("live", started="2026-04-01T00:00:00+00:00"))
    entries = list_runs(tmp_path)
    live.finish("interrupted", "Ctrl-C")
    assert [(e.run_id, e.state) for e in entries] == [
        ("live", "running"), ("two", "finished"), ("one", "finished"), ("broken", "unreadable")
    ]  # fmt: skip
    assert "not JSON" in (entries[-1].problem or "")
    assert list_runs(tmp_path)[0].state == "interrupted"
    assert list_runs(tmp_path / "nowhere") == []
