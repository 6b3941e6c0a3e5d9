"""The service dies, and comes again: nothing is lost, and what was measured is listed with its numbers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import psutil
import pytest

from loadgen.record import open_run
from loadgen.service.registry import Registry
from server_adapters.rehearsal.config import RehearsalConfig
from tests.service.conftest import Served, begin, end, plain_config, scenario
from tests.service.test_runs import LONG

RUNS = Path(__file__).resolve().parents[1] / "data" / "runs"


@pytest.fixture
def engine(rehearsal: Callable[[RehearsalConfig], AbstractContextManager[str]]) -> Iterator[str]:
    with rehearsal(RehearsalConfig(spec="draft:k=4", model="8b", speed=4.0)) as url:
        yield url


def children(served: Served) -> list[psutil.Process]:
    """Processes of runs."""
    found = psutil.Process(served.process.pid).children(recursive=True)
    return [p for p in found if "loadgen.service.runner.child" in p.cmdline()]


def test_kill_9_loses_nothing(tmp_path: Path, engine: str) -> None:
    """I2: the run's process ends by itself, as interrupted; its records are whole; what waited runs after the restart,
    and not before the run that was left has let go of the target."""
    config = plain_config(tmp_path, targets={"one": {"url": engine, "environment": "disposable"}})
    (tmp_path / "scenarios" / "long.yaml").write_text(scenario(**LONG))
    served = begin(tmp_path, config)
    try:
        running, waiting = served.start("long"), served.start("small")
        served.drives(running)
        (process,) = children(served)
        assert not any(word in " ".join(process.cmdline()) for word in (engine, "scenario", running))
        service = psutil.Process(served.process.pid)
        assert process.nice() == os.nice(0) < service.nice() <= 19  # runs go before the service
    finally:
        served.kill()
    served = begin(tmp_path, config)
    try:
        row = served.run(running)
        assert (row["state"], row["reason"], row["exit_code"]) == ("interrupted", "the service ended while it ran", 130)
        second = served.over(waiting)
        assert second["state"] == "finished"
        left = open_run(tmp_path / "runs" / running)
        assert (left.manifest.state, left.manifest.stop_reason) == (
            "interrupted", "interrupted by the end of the service",
        )  # fmt: skip
        assert left.problems == ()
        assert left.manifest.finished is not None
        begun = open_run(tmp_path / "runs" / waiting).manifest.started
        assert left.manifest.finished < begun
        assert not process.is_running()
        measured = served.until(lambda: served.run(running)["validity"] and served.run(running), "its summary is made")
        assert measured["state"] == "interrupted"
        summary = served.ask("GET", f"/api/v1/runs/{running}/summary").json()
        assert summary["arms"]["base"]["overall"]["requests"]["sent"] == left.requests.num_rows > 0
        assert served.ask("GET", "/api/v1/audit").json()["broken_at"] is None
    finally:
        assert end(served) == 0


def test_what_died_with_its_service_is_read_from_its_records(tmp_path: Path, engine: str) -> None:
    """The run's process is killed, too: at most its last second is missing. And run directories that nobody told the
    service of are listed."""
    config = plain_config(tmp_path, targets={"one": {"url": engine, "environment": "disposable"}})
    (tmp_path / "scenarios" / "long.yaml").write_text(scenario(**LONG))
    served = begin(tmp_path, config)
    running = served.start("long")
    served.drives(running)
    for process in children(served):
        process.kill()
    served.kill()
    found = next(p for p in sorted(RUNS.iterdir()) if (p / "manifest.json").exists())
    shutil.copytree(found, tmp_path / "runs" / found.name)
    served = begin(tmp_path, config)
    try:
        row = served.until(lambda: served.run(running)["validity"] and served.run(running), "its summary is made")
        assert row["state"] == "interrupted"
        assert open_run(tmp_path / "runs" / running).manifest.state == "killed"
        assert served.ask("GET", f"/api/v1/runs/{running}/report.html").status_code == 200
        adopted = served.run(found.name)
        assert (adopted["started_by"], adopted["state"]) == (None, open_run(found).manifest.state)
    finally:
        assert end(served) == 0


def test_sigterm_drains_what_runs_and_keeps_what_waits(tmp_path: Path, engine: str) -> None:
    config = plain_config(tmp_path, targets={"one": {"url": engine, "environment": "disposable"}})
    (tmp_path / "scenarios" / "long.yaml").write_text(scenario(**LONG))
    served = begin(tmp_path, config)
    running, waiting = served.start("long"), served.start("small")
    served.drives(running)
    assert end(served) == 0
    manifest = open_run(tmp_path / "runs" / running).manifest
    assert (manifest.state, manifest.stop_reason) == ("interrupted", "interrupted by the end of the service")
    registry = Registry(tmp_path / "specload.db")
    row = registry.runs.one(running)
    assert (row.state, row.reason, row.exit_code) == ("interrupted", "interrupted by the end of the service", 130)
    assert registry.runs.one(waiting).state == "queued"
    registry.close()
