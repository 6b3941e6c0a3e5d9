"""Runs with anomalies on rehearsal servers, with faults that begin when the quiet time is over."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from loadgen.analyze import AnomaliesResult
from loadgen.control import Live
from loadgen.experiment import RunOptions, RunResult, run_experiment
from loadgen.plan import Plan, Segment
from loadgen.scenario import LoadedScenario, Scenario


class Quiet:
    """A progress display that keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.path: Path | None = None

    def started(self, plan: Plan, path: Path, notes: tuple[str, ...]) -> None:
        self.path = path

    def segment(self, segment: Segment, number: int, total: int) -> None: ...

    def ended(self, requests: int, failed: int) -> None: ...

    def live(self, segment: Segment, live: Live) -> None: ...

    def say(self, text: str) -> None:
        self.said.append(text)


def document(url: str, **changes: Any) -> dict[str, Any]:
    lengths = {"input_len": {"kind": "fixed", "value": 48}, "output_len": {"kind": "fixed", "value": 48}}
    return {
        "version": 1, "name": "anomalies", "environment": "disposable", "experiment": "anomalies",
        "arms": {"base": {"url": url}},
        "workload": {"endpoint": "completions", "tasks": [{"task_type": "code", **lengths}]},
        "load": [{"kind": "concurrency", "concurrency": 3, "duration_s": 120}],
        "warmup": {"warmup_requests": 2},
        "scrape": {"interval_s": 0.5, "idle_wait_s": 1},
        "anomalies": {"before_s": 6, "after_s": 1, "pause_s": 0, "stall_s": 10},
        **changes,
    }  # fmt: skip


async def _begun(progress: Quiet, event: str) -> None:
    """Until the run's events name `event`."""
    while True:
        if progress.path is not None and (file := progress.path / "events.jsonl").exists():
            lines = file.read_bytes().splitlines()
            if any(orjson.loads(line)["name"] == event for line in lines if line.endswith(b"}")):
                return
        await asyncio.sleep(0.1)


Ran = Callable[..., Awaitable[tuple[RunResult, AnomaliesResult, Quiet]]]


@pytest.fixture
def ran(tmp_path: Path) -> Ran:
    """ran(url, faults={name: options}, begin=event, **changes of the scenario): faults begin with that event.
    `before_s`: less than a scenario may say, where no blocks of time are compared."""

    async def run(
        url: str,
        faults: dict[str, dict[str, Any]] | None = None,
        begin: str = "quiet_over",
        before_s: float | None = None,
        **changes: Any,
    ) -> tuple[RunResult, AnomaliesResult, Quiet]:
        scenario = Scenario.model_validate(document(url, **changes))
        if before_s is not None:
            keys = scenario.anomalies.model_copy(update={"before_s": before_s})
            scenario = scenario.model_copy(update={"anomalies": keys})
        progress = Quiet()

        async def spoil() -> None:
            if faults is None:
                return
            await _begun(progress, begin)
            async with httpx.AsyncClient(base_url=url) as client:
                for name, options in faults.items():
                    answer = await client.post("/rehearsal/faults", json={"name": name, **options})
                    assert answer.status_code == 200, answer.text

        spoiling = asyncio.create_task(spoil())
        try:
            result = await run_experiment(LoadedScenario(scenario, None, "0" * 64), RunOptions(tmp_path), progress)
        finally:
            spoiling.cancel()
            await asyncio.gather(spoiling, return_exceptions=True)
            async with httpx.AsyncClient(base_url=url) as client:
                with contextlib.suppress(httpx.HTTPError):
                    await client.post("/rehearsal/faults", json={"clear": True})
        assert isinstance(result.found, AnomaliesResult)
        return result, result.found, progress

    return run
