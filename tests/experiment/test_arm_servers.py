"""What the arms' own commands say and leave: masked logs in the run directory, and nothing that runs."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

SECRET = "planted-sesame-4711"
Cli = Callable[..., Awaitable[Any]]
MakeScenario = Callable[..., Path]


def unmasked(folder: Path) -> list[str]:
    files = (file for file in folder.rglob("*") if file.is_file() and file.suffix != ".yaml")
    return [str(file) for file in files if SECRET.encode() in file.read_bytes()]


async def appeared(find: Callable[[], list[Path]]) -> Path:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if found := find():
            return found[0]
        await asyncio.sleep(0.05)
    raise AssertionError("it never appeared")


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def logs_with(tmp_path: Path, text: str) -> Callable[[], list[Path]]:
    return lambda: [log for log in tmp_path.glob("runs/*/servers/0-base.log") if text in log.read_text()]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 130), (signal.SIGKILL, -9)])
async def test_ended_while_a_server_starts(
    cli: Cli, scenario: MakeScenario, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """I1: from the first word on the log is masked, whatever ends the run; the server is stopped."""
    (tmp_path / "tmp").mkdir()
    start = (
        f"printf 'key {SECRET}\\n{SECRET[:9]}'; sleep 0.3; printf '{SECRET[9:]} whole\\n'; echo $$ >{tmp_path}/pid; "
    )
    arm = {"url": "http://127.0.0.1:9", "start": f"{start} exec sleep 600", "headers": {"X-Pass": SECRET}}
    file = scenario(arm)

    async def end_it() -> int:
        await appeared(logs_with(tmp_path, "*** whole"))
        assert unmasked(tmp_path) == []
        pid = int((await appeared(lambda: list(tmp_path.glob("specload.pid")))).read_text())
        os.kill(pid, number)
        return pid

    wrap = {"TMPDIR": str(tmp_path / "tmp")}
    ender = asyncio.create_task(end_it())
    ended = await cli("run", file, env=wrap, before=partial(_write_pid, tmp_path))
    await ender
    assert ended.code == code, ended.said
    assert gone(int((tmp_path / "pid").read_text()))
    assert unmasked(tmp_path) == []


def _write_pid(tmp_path: Path) -> None:
    (tmp_path / "specload.pid").write_text(str(os.getpid()))


async def test_a_start_that_fails_says_why_and_so_does_its_stop(
    cli: Cli, scenario: MakeScenario, tmp_path: Path
) -> None:
    arm = {
        "url": "http://127.0.0.1:9",
        "start": "echo up",
        "stop": "echo cannot; exit 5",
        "start_timeout_s": 1,
    }
    ended = await cli("run", scenario(arm))
    assert ended.code == 3, ended.said
    assert "was not healthy within 1 s; and then the server could not be stopped (status 5)" in ended.err
    (log,) = logs_with(tmp_path, "up")()
    assert str(log.relative_to(tmp_path)) in ended.err.replace("\n", "")
    assert log.read_text() == "up\ncannot\n"
    assert [file.name for file in log.parents[1].iterdir()] == ["servers"], "no run was made"
