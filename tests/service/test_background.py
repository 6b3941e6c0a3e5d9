"""The process of low priority: what it returns, what it raises, what becomes of it."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from typing import Any

import psutil
import pytest

from loadgen.errors import ScenarioError, StorageError
from loadgen.service.background import NICE, Background, Busy, JobFailed


@pytest.fixture
async def background() -> AsyncIterator[Background]:
    found = Background()
    yield found
    found.close()


def priority() -> tuple[int, int]:
    return os.getpid(), os.nice(0)


def refuse(problems: list[str]) -> None:
    raise ScenarioError(problems)


def lose() -> None:
    raise StorageError("gone")


def fail() -> None:
    raise ZeroDivisionError("a fault")


def end() -> None:
    os._exit(3)


async def test_jobs_share_one_process_of_low_priority_and_a_bad_one_costs_no_other(background: Background) -> None:
    pid, nice = await background.run(priority)
    assert nice == min(os.nice(0) + NICE, 19)
    with pytest.raises(ScenarioError) as refused:
        await background.run(refuse, ["a", "b"])
    assert refused.value.problems == ["a", "b"]
    with pytest.raises(StorageError, match="gone"):
        await background.run(lose)
    with pytest.raises(JobFailed, match="a fault"):
        await background.run(fail)
    assert (await background.run(priority))[0] == pid
    with pytest.raises(JobFailed, match="died"):
        await background.run(end)
    second = (await background.run(priority))[0]
    assert second != pid
    with pytest.raises(JobFailed, match="took longer than"):
        await background.run(time.sleep, 3600, timeout_s=0.2)
    assert not psutil.pid_exists(second)


async def test_too_many_are_told_to_come_again(background: Background, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loadgen.service.background.MOST_WAITING", 0)
    with pytest.raises(Busy):
        await background.run(priority)


async def test_it_ends_with_whoever_started_it(background: Background) -> None:
    pid: Any = (await background.run(priority))[0]
    background.close()
    assert not psutil.pid_exists(pid)
