"""Runs of several worker processes, whole: how many, what they write, and what a run says when one dies."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from loadgen.experiment import RunOptions, RunResult, run_scenario, worker_count
from loadgen.plan import build_plan
from loadgen.record import RunData, open_run
from loadgen.scenario import LoadedScenario, Scenario, load_scenario

Hostile = Callable[..., Awaitable[Any]]
Cli = Callable[..., Awaitable[Any]]
TheRun = Callable[[], tuple[Path, dict[str, Any]]]
MakeScenario = Callable[..., Path]


class Watcher:
    """Remembers where the run is recorded, what was said, and how many requests ended."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self.said: list[str] = []
        self.count = 0

    def started(self, plan: Any, path: Path, notes: tuple[str, ...]) -> None:
        self.path = path

    def segment(self, segment: Any, number: int, total: int) -> None: ...

    def ended(self, requests: int, failed: int) -> None:
        self.count += requests

    def live(self, segment: Any, live: Any) -> None: ...

    def say(self, text: str) -> None:
        self.said.append(text)


def rows_of(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(path / "requests.parquet").to_pylist()
    return rows


async def test_the_command_line_takes_a_number_of_workers(
    hostile: Hostile, cli: Cli, scenario: MakeScenario, the_run: TheRun
) -> None:
    """One directory with the rows, the health and the number of both; the summary is of all of them."""
    server = await hostile()
    load = [{"kind": "concurrency", "concurrency": 4, "cases": 30}]
    file = scenario({"url": server.url}, load=load, warmup={"warmup_requests": 4})
    done = await cli("run", file, "--out", "runs", "--workers", "2")
    assert done.code in (0, 98), done.said  # 98: a busy machine measures nothing well
    path, manifest = the_run()
    assert (manifest["workers"], manifest["state"]) == (2, "finished"), manifest["stop_reason"]
    rows = rows_of(path)
    assert Counter(row["phase"] for row in rows) == {"warmup": 4, "measure": 30}
    assert {row["worker"] for row in rows if row["phase"] == "measure"} == {0, 1}
    assert {row["seq"] for row in rows if row["phase"] == "measure"} == set(range(30))
    assert set(pq.read_table(path / "health.parquet")["worker"].to_pylist()) == {0, 1}
    overall = json.loads((path / "summary.json").read_bytes())["arms"]["base"]["overall"]
    assert overall["requests"]["sent"] == 30
    assert not list(path.glob("*.arrow"))


@pytest.mark.parametrize("number", ["0", "-1", "x"])
def test_a_number_of_workers_that_is_none(specload: Callable[..., Any], scenario: MakeScenario, number: str) -> None:
    done = specload("run", scenario({"url": "http://127.0.0.1:1"}), "--workers", number)
    assert done.returncode == 2
    assert "--workers" in done.stderr


async def test_ctrl_c_twice_reaches_every_worker(
    hostile: Hostile, cli: Cli, scenario: MakeScenario, the_run: TheRun
) -> None:
    """The terminal signals the whole group: the workers leave it to their coordinator; what was cut is recorded."""
    server = await hostile()
    load = [{"kind": "concurrency", "concurrency": 4, "duration_s": 60}]
    file = scenario({"url": server.url}, load=load, warmup={"warmup_requests": 0})

    def slow(_number: int, _headers: dict[str, str]) -> bytes | None:
        server.pause_s = 30.0
        return None

    server.misbehave = slow  # but not the answer to the probe
    signals = (signal.SIGINT,) * 2
    done = await cli("run", file, "--out", "runs", "--workers", "2", when="measure", signals=signals)
    assert done.code == 130, done.said
    assert "Traceback" not in done.said
    assert done.after_signal_s < 20
    path, manifest = the_run()
    assert manifest["state"] == "interrupted"
    rows = rows_of(path)
    assert {row["outcome"] for row in rows} <= {"aborted"}
    phases = [json.loads(line) for line in (path / "phases.jsonl").read_text().splitlines()]
    assert all(p["accounting"]["sent"] == len(rows) for p in phases if p["accounting"])


def worker_writing(file: Path) -> psutil.Process:
    (found,) = [c for c in psutil.Process().children(recursive=True) if str(file) in {f.path for f in c.open_files()}]
    return found


async def test_a_killed_worker_ends_the_run_at_once_and_its_requests_are_kept(
    hostile: Hostile, scenario: MakeScenario, tmp_path: Path
) -> None:
    """F14: `kill -9` in the middle: the run ends long before its time, says which worker and why, and reads."""
    server, watcher = await hostile(), Watcher()
    load = [{"kind": "concurrency", "concurrency": 4, "duration_s": 300}]
    loaded = load_scenario(scenario({"url": server.url}, load=load))
    running: asyncio.Task[RunResult] = asyncio.create_task(
        run_scenario(loaded, RunOptions(tmp_path / "runs", workers=2), watcher)
    )

    def stored() -> set[tuple[str, int]]:
        if watcher.path is None:
            return set()
        rows = open_run(watcher.path).requests.to_pylist()
        return {(r["phase"], r["seq"]) for r in rows if r["worker"] == 1}

    async with asyncio.timeout(60):
        while sum(phase == "measure" for phase, _ in stored()) < 10:
            assert not running.done(), running
            await asyncio.sleep(0.1)
    assert watcher.path is not None
    before = stored()
    os.kill(worker_writing(watcher.path / "requests-1.arrow").pid, signal.SIGKILL)
    async with asyncio.timeout(60):
        result = await running
    why = "worker 1 died (signal 9); the measured requests are kept"
    assert (result.state, result.reason) == ("inconclusive", why)
    assert f"stopping: {why}" in watcher.said
    assert why in (result.path / "anomalies.log").read_text()
    run = open_run(result.path)
    assert (run.manifest.state, run.manifest.stop_reason, run.manifest.lost_workers) == ("inconclusive", why, [1])
    assert result.summary.validity.state == "invalid"
    assert result.summary.validity.reasons[0].startswith("invalid: 1 of 2 worker processes died: ")
    assert any(why in reason for reason in result.summary.validity.reasons)
    rows = run.requests.to_pylist()
    assert before <= {(r["phase"], r["seq"]) for r in rows if r["worker"] == 1}
    assert {r["worker"] for r in rows} == {0, 1}
    assert all(p.accounting is not None and p.ended_ns is not None for p in run.phases)
    for books in (p.accounting for p in run.phases if p.accounting):
        assert books.scheduled == books.sent + books.dropped + books.unsent
    assert result.summary.arms["base"].overall.requests.outcomes["ok"] > 0
    assert watcher.count > 0
    assert not list(result.path.glob("*.arrow"))


async def test_a_run_that_lost_its_only_worker_ends_with_98(
    hostile: Hostile, cli: Cli, scenario: MakeScenario, the_run: TheRun, tmp_path: Path
) -> None:
    """F14: the whole command, `kill -9` of the process that drives."""
    server = await hostile()
    load = [{"kind": "concurrency", "concurrency": 2, "duration_s": 300}]
    running = asyncio.create_task(
        cli("run", scenario({"url": server.url}, load=load), "--out", "runs", "--workers", "1")
    )

    def measured() -> Iterator[Path]:
        for file in tmp_path.glob("runs/*/requests-0.arrow"):
            if any(row["phase"] == "measure" for row in open_run(file.parent).requests.to_pylist()):
                yield file

    async with asyncio.timeout(60):
        while not (files := list(measured())):
            assert not running.done(), running
            await asyncio.sleep(0.1)
    worker_writing(files[0]).kill()
    done = await running
    assert done.code == 98, done.said
    assert "the run was ended early: worker 0 died (signal 9); the measured requests are kept" in done.err
    path, manifest = the_run()
    assert manifest["state"] == "inconclusive"
    assert json.loads((path / "summary.json").read_bytes())["validity"]["state"] == "invalid"


async def test_workers_do_not_outlive_a_killed_coordinator_and_close_their_records(
    hostile: Hostile, command: Callable[..., Awaitable[Any]], scenario: MakeScenario, tmp_path: Path
) -> None:
    """F14: end of file on the pipe: they cut what is in flight, write it down and go."""
    server = await hostile()
    server.misbehave = lambda n, _headers: setattr(server, "pause_s", 0.05)
    file = scenario({"url": server.url}, load=[{"kind": "concurrency", "concurrency": 4, "duration_s": 300}])
    process = await command("run", file, "--out", "runs", "--workers", "2")

    def recorded() -> Iterator[RunData]:
        return (open_run(file.parent) for file in tmp_path.glob("runs/*/requests-0.arrow"))

    def rows() -> list[dict[str, Any]]:
        return [row for run in recorded() for row in run.requests.to_pylist()]

    async with asyncio.timeout(60):
        while {r["worker"] for r in rows() if r["phase"] == "measure"} != {0, 1}:
            assert psutil.pid_exists(process.pid)
            await asyncio.sleep(0.1)
    children = psutil.Process(process.pid).children()
    before = {(r["phase"], r["seq"]) for r in rows()}
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    _, alive = await asyncio.to_thread(psutil.wait_procs, children, timeout=30)
    assert not alive
    after = rows()
    assert before < {(r["phase"], r["seq"]) for r in after}
    assert "aborted" in {r["outcome"] for r in after}
    (run,) = recorded()
    assert run.manifest.state == "killed"
    assert not any("torn" in problem for problem in run.problems)


OPEN: dict[str, Any] = {"kind": "arrival_rate", "duration_s": 2, "arrivals": "uniform", "max_in_flight": 10_000}


def planned(load: dict[str, Any], tokens: int = 50) -> Any:
    lengths = {"input_len": {"kind": "fixed", "value": 20}, "output_len": {"kind": "fixed", "value": tokens}}
    document = {
        "version": 1, "name": "n", "environment": "disposable", "arms": {"base": {"url": "http://127.0.0.1:1"}},
        "workload": {"tasks": [{"task_type": "code", **lengths}]}, "load": [load],
    }  # fmt: skip
    return build_plan(LoadedScenario(Scenario.model_validate(document), None, "0" * 64))


@pytest.mark.parametrize(
    ("load", "tokens", "cores", "workers"),
    [
        ({"kind": "concurrency", "concurrency": 1024, "cases": 2000}, 50, 16, 1),
        ({"kind": "concurrency", "concurrency": 1025, "cases": 2000}, 50, 16, 2),
        ({"kind": "concurrency", "concurrency": 4096, "duration_s": 5}, 50, 16, 4),
        ({"kind": "concurrency", "concurrency": 4096, "duration_s": 5}, 50, 2, 1),
        ({"kind": "concurrency", "concurrency": 4096, "duration_s": 5}, 50, 1, 1),
        ({**OPEN, "rate_per_s": 900}, 20, 16, 1),
        ({**OPEN, "rate_per_s": 2500}, 2, 16, 3),
        ({**OPEN, "rate_per_s": 500}, 350, 16, 4),
    ],
)
def test_one_worker_unless_the_planned_peak_needs_more(
    load: dict[str, Any], tokens: int, cores: int, workers: int
) -> None:
    """docs/cli.md: 1,024 streams or 1,000 requests a second for each; one core is left."""
    assert worker_count(planned(load, tokens), cores) == workers
