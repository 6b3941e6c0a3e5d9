"""Several workers write into one run directory; one of them may die."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from loadgen.drive import Attempt, LoopHealth, Outcome, WorkerEnd
from loadgen.errors import StorageError
from loadgen.record import Manifest, PhaseRecord, RunWriter, open_run

S = 1_000_000_000
MakeAttempt = Callable[..., Attempt]
Open = Callable[..., tuple[RunWriter, list[Any]]]


@pytest.fixture
def open_two(tmp_path: Path, manifest: Callable[..., Manifest], phase: Callable[..., PhaseRecord]) -> Open:
    def start() -> tuple[RunWriter, list[Any]]:
        writer = RunWriter(tmp_path, manifest(workers=2))
        writer.phase(phase())
        setup = writer.sinks({0: phase()})
        return writer, [setup(0), setup(1)]

    return start


def count_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock takes 0.1 ms: how many pieces a turn has does not depend on the machine."""
    ticks = count(time.monotonic_ns(), 100_000)
    monkeypatch.setattr("loadgen.record.worker.now_ns", lambda: next(ticks))


def fill(sinks: list[Any], attempt: MakeAttempt) -> None:
    """Six requests, even ones of worker 0; the last of each failed."""
    for i in range(6):
        outcome = Outcome.OK if i < 4 else Outcome.TRUNCATED
        sinks[i % 2].attempt(attempt(index=i, worker=i % 2, outcome=outcome, warnings=("no_done",)))
    for worker, sink in enumerate(sinks):
        sink.health(LoopHealth(S, worker, 0.001, 0.002, 0.5, 3, 0.004, 10**8))
        sink.flush()


def ends(sinks: list[Any], died: int | None = None) -> list[WorkerEnd]:
    return [
        WorkerEnd(i, f"worker {i} died (signal 9)", None, 0) if i == died else WorkerEnd(i, None, s.failed, s.close())
        for i, s in enumerate(sinks)
    ]


def test_rows_of_all_workers_are_one_table(open_two: Open, attempt: MakeAttempt) -> None:
    """While the run lives and after it; the human log has the lines of both and counts them together."""
    writer, sinks = open_two()
    fill(sinks, attempt)
    alive = open_run(writer.path)
    writer.finish("finished", workers=ends(sinks))
    after = open_run(writer.path)
    for run in (alive, after):
        assert run.problems == ()
        assert run.requests.select(["worker", "seq", "stage"]).to_pylist() == [
            {"worker": w, "seq": i, "stage": "c=4"} for w in (0, 1) for i in range(w, 6, 2)
        ]
        assert run.health["worker"].to_pylist() == [0, 1]
    assert (after.manifest.workers, after.manifest.state) == (2, "finished")
    assert sorted(p.name for p in writer.path.glob("*.*")) == [
        "anomalies.log", "health.parquet", "manifest.json", "phases.jsonl", "requests.parquet", "scrapes.parquet"
    ]  # fmt: skip
    log = (writer.path / "anomalies.log").read_text().splitlines()
    assert sum(" truncated " in line and "request=" in line for line in log) == 2
    totals = [line.split(" ", 1)[1] for line in log if " total " in line]
    assert totals == ["total no_done: 6 requests", "total truncated: 2 requests"]


def tear(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def test_the_torn_end_of_a_worker_that_died_is_left_out_and_named(open_two: Open, attempt: MakeAttempt) -> None:
    writer, sinks = open_two()
    fill(sinks, attempt)
    sinks[1].attempt(attempt(index=7, worker=1))
    sinks[1].flush()
    tear(writer.path / "requests-1.arrow")
    writer.finish("failed", "worker 1 died (signal 9)", workers=ends(sinks, died=1))
    run = open_run(writer.path)
    assert sorted(run.requests["seq"].to_pylist()) == [0, 1, 2, 3, 4, 5]
    assert run.manifest.lost_workers == [1]
    assert any("requests-1.arrow: the last batch is torn" in note for note in run.manifest.notes)
    assert not list(writer.path.glob("*.arrow"))
    sinks[1].close()


def test_a_tear_in_the_file_of_a_worker_that_closed_it_is_an_error(open_two: Open, attempt: MakeAttempt) -> None:
    writer, sinks = open_two()
    fill(sinks, attempt)
    ended = ends(sinks)
    tear(writer.path / "requests-0.arrow")
    tear(writer.path / "requests-0.arrow")
    with pytest.raises(StorageError, match=r"requests-0\.arrow: the last batch is torn"):
        writer.finish("finished", workers=ended)
    assert (writer.path / "requests-1.arrow").exists()
    assert open_run(writer.path).manifest.state == "failed"


def test_what_a_worker_could_not_write_fails_the_run(open_two: Open, attempt: MakeAttempt) -> None:
    writer, sinks = open_two()
    fill(sinks, attempt)
    for sink in sinks:
        sink.close()
    told = [WorkerEnd(0, None, None, 0), WorkerEnd(1, None, "requests-1.arrow: No space left on device", 3)]
    with pytest.raises(StorageError, match="No space left"):
        writer.finish("finished", workers=told)
    run = open_run(writer.path)
    assert run.manifest.stop_reason == "records could not be written: requests-1.arrow: No space left on device"
    assert run.manifest.notes == ["3 records were lost after writing had failed"]
    assert run.requests.num_rows == 6


def test_a_worker_that_died_before_its_first_row(open_two: Open, attempt: MakeAttempt) -> None:
    writer, sinks = open_two()
    fill(sinks[:1] * 2, attempt)
    sinks[1].close()
    (writer.path / "requests-1.arrow").unlink()
    (writer.path / "health-1.arrow").write_bytes(b"")
    writer.finish("failed", "worker 1 died", workers=ends(sinks, died=1))
    assert open_run(writer.path).requests.num_rows == 6


def test_work_is_done_in_pieces_and_written_by_the_thread(open_two: Open, attempt: MakeAttempt) -> None:
    """C21: the loop that stamps never waits for a whole batch, nor for the disk."""
    writer, sinks = open_two()
    sink = sinks[0]
    assert not sink.work(), "nothing waits"
    for i in range(200):
        sink.attempt(attempt(index=i))
    pieces = 1
    while sink.work():
        pieces += 1
    assert pieces > 3 * 4, "200 attempts are four batches, of several pieces each"
    assert not sink.work()
    until = time.monotonic() + 10
    while open_run(writer.path).requests.num_rows < 200 and time.monotonic() < until:
        time.sleep(0.02)
    assert open_run(writer.path).requests["seq"].to_pylist() == list(range(200))
    writer.finish("finished", workers=ends(sinks))


def test_a_batch_in_the_making_is_not_lost(open_two: Open, attempt: MakeAttempt) -> None:
    writer, sinks = open_two()
    for i in range(100):
        sinks[0].attempt(attempt(index=i))
    assert sinks[0].work()
    assert sinks[0].work()
    sinks[0].attempt(attempt(index=100))
    assert sinks[0].close() == 0
    writer.finish("finished", workers=ends(sinks))
    assert open_run(writer.path).requests["seq"].to_pylist() == list(range(101))


def test_much_that_waits_gets_longer_turns(
    open_two: Open, attempt: MakeAttempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop that falls behind gives up punctuality, not memory."""
    writer, sinks = open_two()
    one = attempt()
    for _ in range(20_000):
        sinks[0].attempt(one)
    count_steps(monkeypatch)
    turns = 0
    while len(sinks[0]._attempts) > 10_000:
        sinks[0].work()
        turns += 1
    assert turns < 10_000 / 64, "less than one turn a batch"
    writer.finish("finished", workers=ends(sinks))


def test_few_long_attempts_count_as_many(open_two: Open, attempt: MakeAttempt, monkeypatch: pytest.MonkeyPatch) -> None:
    """E31: 200 answers of 2,000 chunks are as much work, and memory, as thousands of short ones."""
    writer, sinks = open_two()
    long = attempt([(S + i, 1) for i in range(2_000)])
    for _ in range(200):
        sinks[0].attempt(long)
    assert sinks[0]._waiting() == 200 * 21
    count_steps(monkeypatch)
    turns = 0
    while sinks[0]._attempts:
        sinks[0].work()
        turns += 1
    assert turns < 200, "pieces are done many at a time"
    assert sinks[0]._waiting() == 0
    writer.finish("finished", workers=ends(sinks))


def test_a_batch_in_the_making_when_writing_fails_is_counted(open_two: Open, attempt: MakeAttempt) -> None:
    writer, sinks = open_two()
    for i in range(100):
        sinks[0].attempt(attempt(index=i))
    assert sinks[0].work()
    sinks[0].failed = "No space left on device"
    assert not sinks[0].work()
    assert sinks[0].close() == 100
    sinks[1].close()
    with pytest.raises(StorageError, match="No space left"):
        writer.finish("finished", workers=[WorkerEnd(0, None, "No space left on device", 100)])


def test_a_failed_write_counts_what_is_lost(open_two: Open, attempt: MakeAttempt) -> None:
    """Built, half built and queued rows are lost alike, and each is counted once."""
    writer, sinks = open_two()
    sink = sinks[0]
    sink._requests.write = lambda _batch: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    for i in range(150):
        sink.attempt(attempt(index=i))
    until = time.monotonic() + 10
    while sink.failed is None and time.monotonic() < until:
        sink.work()
    assert "No space left" in sink.failed
    assert not sink.work()
    sink.attempt(attempt(index=150))
    assert sink.close() == 151
    with pytest.raises(StorageError, match="No space left"):
        writer.finish("finished", workers=ends(sinks))
