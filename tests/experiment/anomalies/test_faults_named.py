"""Each fault that an anomaly may bring out, injected into a rehearsal server, is found and named."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from server_adapters.rehearsal.config import RehearsalConfig

Start = Callable[[RehearsalConfig], AbstractContextManager[str]]
FAST: dict[str, Any] = {"spec": "draft:k=4", "model": "8b", "speed": 4.0, "max_model_len": 2048}


def anomalies(*include: str, **more: Any) -> dict[str, Any]:
    return {"before_s": 6, "after_s": 1, "pause_s": 0, "stall_s": 10, "include": list(include), **more}


@pytest.mark.parametrize("comes_back", [False, True])
async def test_a_prompt_beyond_the_drafter_kills_the_engine(rehearsal: Start, ran: Any, comes_back: bool) -> None:
    """J1, J2: the anomaly is named; the run ends where the engine does not come back, and goes on where it does."""
    fault = "crash_on:tokens=500" + (",down_s=1" if comes_back else "")
    with rehearsal(RehearsalConfig(**FAST, faults=(fault,))) as url:
        result, found, _ = await ran(
            url, safety={"breaker_wait_s": 15 if comes_back else 1},
            anomalies=anomalies("long_for_drafter", "prompt_empty", drafter_max_len=600, probe_s=5),
        )  # fmt: skip
    assert (result.state, found.state) == ("finished" if comes_back else "failed", "fail")
    (arm,) = found.arms
    row = next(r for r in arm.rows if r.name == "long_for_drafter")
    assert (row.died, row.ended, row.fits) == (True, not comes_back, False)
    word = "it served again after" if comes_back else "it did not come back"
    assert any(r.startswith(f"base: long_for_drafter ended the server: {word}") for r in found.reasons)
    # the breaker saw it too, from the load alone
    outages = {f.id: f for f in result.summary.findings}
    assert "engine_away" in outages
    assert outages["engine_away"].numbers["failed"] > 0
    assert outages["engine_away"].numbers["detected_s"] < 5
    if comes_back:
        after = next(r for r in arm.rows if r.name == "prompt_empty")
        assert (after.fits, after.probe) == (True, "same")
    else:
        assert "dead" in (result.reason or "") or "ended the server" in (result.reason or "")


async def test_cross_talk(rehearsal: Start, ran: Any) -> None:
    """An answer that goes on like another request's is found by the witnesses."""
    with rehearsal(RehearsalConfig(**FAST)) as url:
        _, found, _ = await ran(url, {"cross_talk": {}}, anomalies=anomalies("empty", "json", witness_concurrency=4))
    assert found.state == "fail"
    assert found.arms[0].witnesses.crossed > 0
    assert any("cross-talk" in reason for reason in found.reasons)


async def test_abandoned_streams_that_go_on(rehearsal: Start, ran: Any) -> None:
    """H20: what was left must not run on: running and waiting are back within `abandon_s`."""
    slow = {**FAST, "speed": 0.5}
    with rehearsal(RehearsalConfig(**slow, faults=("deaf",))) as url:
        _, found, _ = await ran(url, anomalies=anomalies("prompt_empty", "storm_in_stream", abandon_s=2))
    rows = {r.name: r for r in found.arms[0].rows}
    assert (rows["prompt_empty"].abandoned, rows["storm_in_stream"].abandoned) == (False, True)
    assert any("storm_in_stream" in r and "goes on" in r for r in found.reasons)


async def test_memory_that_grows(rehearsal: Start, ran: Any) -> None:
    """A leak shows in the server's own memory, where telemetry reads it."""
    import psutil

    with rehearsal(RehearsalConfig(**FAST)) as url:
        port = int(url.rsplit(":", 1)[1])
        pid = next(c.pid for c in psutil.net_connections("tcp4") if c.laddr and c.laddr.port == port and c.pid)
        _, found, _ = await ran(
            url, {"memory_growth": {"mb_per_s": 100, "max_mb": 300}},
            arms={"base": {"url": url, "telemetry": {"pid": pid, "interval_s": 0.2}}},
            anomalies=anomalies("range", "empty", after_s=4),
        )  # fmt: skip
    memory = found.arms[0].memory
    assert memory.share is not None
    assert memory.share > 0.3
    assert any("the server's memory grew by" in reason for reason in found.reasons)


async def test_errors_of_the_load(rehearsal: Start, ran: Any) -> None:
    """Bystanders that fail since the anomalies began, far from all of them."""
    with rehearsal(RehearsalConfig(**FAST)) as url:
        _, found, _ = await ran(
            url, {"in_stream_error": {"share": 0.5}}, anomalies=anomalies("empty", "json", "types", "range")
        )
    tests = {t.name: t for t in found.arms[0].bystanders}
    assert tests["error_share"].alarm
    assert tests["error_share"].before == 0
    assert any("share of failed requests rose from 0.00%" in reason for reason in found.reasons)


async def test_a_server_that_answers_wrongly(rehearsal: Start, ran: Any) -> None:
    """Everything gets 503: no refusal is right any more, though the server lives."""
    with rehearsal(RehearsalConfig(**FAST)) as url:
        _, found, _ = await ran(
            url, {"storm_503": {"share": 0.3}}, anomalies=anomalies("empty", "types"), safety={"breaker_failures": 0}
        )
    wrong = [r for r in found.arms[0].rows if not r.fits]
    assert wrong
    assert {r.got for r in wrong} == {"503 error"}
    assert all("expected" in reason for reason in found.reasons if wrong[0].name in reason)
