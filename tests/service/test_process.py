"""Stops of a run's process: none is lost, none is doubled. A small program stands for the run; it says
what it is told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from loadgen.service.runner import process
from loadgen.service.runner.messages import Said, Start
from loadgen.service.runner.process import RunProcess
from loadgen.service.runner.spawner import Spawner

#: Says each line it is told, until there are no more.
EAR = """
import json, sys
for line in sys.stdin:
    told = json.loads(line)
    print(json.dumps({"kind": "said", "text": told.get("stop") or told["run_id"]}), flush=True)
"""
START = Start(run_id="r", name="small", text="", base=Path(), out=Path(), arms={}, environment="disposable")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "ear_of_a_run.py").write_text(EAR)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(process, "MODULE", "ear_of_a_run")
    heard: list[str] = []
    spawner = Spawner()
    made = RunProcess(START, str, lambda up: heard.append(up.text) if isinstance(up, Said) else None, spawner)
    yield made, heard
    made.kill()
    spawner.close()


async def hears(run: RunProcess, heard: list[str], expected: list[str]) -> None:
    waiting = asyncio.create_task(run.wait())
    async with asyncio.timeout(60):
        while len(heard) < len(expected):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        assert run._stdin is not None
        run._stdin.close()
        await waiting
    assert heard == expected


async def test_a_stop_before_it_can_be_told_is_told_later(run: Any) -> None:
    """Also a second one, while its process is being started."""
    told, heard = run
    assert told.stop("the user ops") == "drain"
    starting = asyncio.create_task(told.start())
    await asyncio.sleep(0)
    assert told.stop("the user ops") == "cut"
    await starting
    await hears(told, heard, ["r", "drain", "cut"])


@pytest.mark.parametrize(
    ("users", "expected"), [(0, ["drain", "cut"]), (1, ["drain", "cut"]), (2, ["drain", "cut", "cut"])]
)
async def test_the_end_of_the_service_does_not_cut_what_drains(run: Any, users: int, expected: list[str]) -> None:
    """Only what has not ended after its time is cut."""
    told, heard = run
    await told.start()
    for _ in range(users):
        told.stop("the user ops")
    told.drain("the end of the service")
    told.drain("the end of the service")
    assert told.stop("the end of the service") == "cut"
    await hears(told, heard, ["r", *expected])
