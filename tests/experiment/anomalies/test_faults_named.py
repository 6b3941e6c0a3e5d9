"""Each fault that an anomaly may bring out, injected into a rehearsal server, is named; a healthy server passes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest
import yaml

from server_adapters.anomalies import CATALOGUE
from server_adapters.rehearsal.config import RehearsalConfig
from tests.experiment.anomalies.conftest import document

Start = Callable[[RehearsalConfig], AbstractContextManager[str]]
FAST: dict[str, Any] = {"spec": "draft:k=4", "model": "8b", "speed": 4.0, "max_model_len": 2048}


def anomalies(*include: str, **more: Any) -> dict[str, Any]:
    return {"before_s": 6, "after_s": 1, "pause_s": 0, "stall_s": 10, "include": list(include), **more}


@pytest.fixture(scope="module")
def fast(rehearsal: Start) -> Iterator[str]:
    """One server for the tests that leave it as it was."""
    with rehearsal(RehearsalConfig(**FAST)) as url:
        yield url


@pytest.mark.slow
async def test_a_healthy_server_passes(fast: str, ran: Any) -> None:
    """J5, A3, H20: all but the slowest, each answered as it should be, and nobody else is touched. On a machine that is
    busy itself chunks come merged: then no time is judged."""
    result, found, _ = await ran(
        fast,
        load=[{"kind": "concurrency", "concurrency": 3, "duration_s": 300}],
        anomalies={**anomalies(), "exclude": ["slow", "body_16_mb"], "drafter_max_len": 600},
    )
    assert [r for r in found.reasons if "the measurement is invalid" not in r and "cannot be judged" not in r] == []
    assert (result.state, found.state) == ("finished", "inconclusive" if found.reasons else "pass")
    (arm,) = found.arms
    left_out = {"body_16_mb", *(a.name for a in CATALOGUE.values() if a.group == "slow" or not a.default)}
    assert {r.name for r in arm.rows} == CATALOGUE.keys() - left_out
    assert arm.skipped == []
    assert (arm.sent, arm.chosen) == (len(arm.rows), len(arm.rows))
    assert {r.probe for r in arm.rows} == {"same"}
    assert (arm.witnesses.distinct, arm.witnesses.crossed, arm.witnesses.new) == (4, 0, 0)
    assert not any(t.alarm for t in arm.bystanders)


@pytest.mark.slow
@pytest.mark.parametrize("comes_back", [False, True])
async def test_a_prompt_beyond_the_drafter_kills_the_engine(rehearsal: Start, ran: Any, comes_back: bool) -> None:
    """J1, J2: the anomaly is named; the run ends where the engine does not come back, and goes on where it does."""
    fault = "crash_on:tokens=500" + (",down_s=1" if comes_back else "")
    with rehearsal(RehearsalConfig(**FAST, faults=(fault,))) as url:
        result, found, _ = await ran(
            url, before_s=3, safety={"breaker_wait_s": 15 if comes_back else 1},
            anomalies=anomalies("long_for_drafter", "prompt_empty", drafter_max_len=600, probe_s=5),
        )  # fmt: skip
    assert (result.state, found.state) == ("finished" if comes_back else "failed", "fail")
    (arm,) = found.arms
    row = next(r for r in arm.rows if r.name == "long_for_drafter")
    assert (row.died, row.ended, row.fits) == (True, not comes_back, False)
    word = "it served again after" if comes_back else "it did not come back"
    assert any(r.startswith(f"base: long_for_drafter ended the server: {word}") for r in found.reasons)
    outages = [f for f in result.summary.findings if f.id == "engine_away"]
    for outage in outages:  # the breaker saw it too, from the load alone
        assert outage.numbers["failed"]
        assert outage.numbers["detected_s"] is not None
    if comes_back:
        assert len(outages) == 1
        after = next(r for r in arm.rows if r.name == "prompt_empty")
        assert (after.fits, after.probe) == (True, "same")
    else:
        assert "dead" in (result.reason or "") or "ended the server" in (result.reason or "")


@pytest.mark.slow
async def test_cross_talk_a_leak_and_streams_that_go_on(rehearsal: Start, ran: Any) -> None:
    """H20: witnesses see another's text, telemetry the memory, running and waiting what was left and is not let go."""
    slow = {**FAST, "speed": 0.5}
    with rehearsal(RehearsalConfig(**slow, faults=("deaf",))) as url:
        port = int(url.rsplit(":", 1)[1])
        pid = next(c.pid for c in psutil.net_connections("tcp4") if c.laddr and c.laddr.port == port and c.pid)
        _, found, _ = await ran(
            url, {"memory_growth": {"mb_per_s": 150, "max_mb": 300}, "cross_talk": {}}, before_s=4,
            arms={"base": {"url": url, "telemetry": {"pid": pid, "interval_s": 0.2}}},
            anomalies=anomalies(
                "prompt_empty", "storm_in_stream", abandon_s=3, witness_concurrency=4
            ),
        )  # fmt: skip
    (arm,) = found.arms
    rows = {r.name: r for r in arm.rows}
    assert arm.foreign_looks == 0
    assert (rows["prompt_empty"].abandoned, rows["storm_in_stream"].abandoned) == (False, True)
    assert any("storm_in_stream" in r and "goes on" in r for r in found.reasons)
    assert arm.witnesses.crossed > 0
    assert any("cross-talk" in r for r in found.reasons)
    assert arm.memory.share is not None
    assert arm.memory.share > 0.3
    assert any("the server's memory grew by" in r for r in found.reasons)


@pytest.mark.slow
async def test_errors_of_the_load(fast: str, ran: Any) -> None:
    """Half of all requests get 503 since the anomalies began. That anomalies do as well is no fault of each: without
    them it is the same."""
    _, found, _ = await ran(
        fast, {"storm_503": {"share": 0.5}}, anomalies=anomalies("prompt_empty", "prompt_null", pause_s=2.0),
        safety={"breaker_failures": 0},
    )  # fmt: skip
    (arm,) = found.arms
    wrong = [r for r in arm.rows if not r.fits]
    assert {r.got for r in wrong} <= {"503 error"}
    assert {one.state for r in arm.rows for one in r.again} <= {"refuted"}
    assert not any("got 503 error" in r for r in found.reasons)
    errors = next(t for t in arm.bystanders if t.name == "error_share")
    assert (errors.alarm, errors.before) == (True, 0)
    assert any("share of failed requests rose from 0.00%" in r for r in found.reasons)


@pytest.mark.slow
async def test_an_interrupt_leaves_what_was_found(
    fast: str, cli: Any, tmp_path: Path, the_run: Callable[[], tuple[Path, dict[str, Any]]]
) -> None:
    """Ctrl-C among the anomalies: 130, no more of them, and a report of those that were sent."""
    text = document(fast, anomalies=anomalies(pause_s=0.5))
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(text))
    ended = await cli("run", "a.yaml", when=" anomalies …", signals=(signal.SIGINT,))
    assert ended.code == 130, ended.said
    assert "anomalies: " in ended.out
    path, manifest = the_run()
    assert manifest["state"] == "interrupted"
    found = orjson.loads((path / "anomalies.json").read_bytes())
    assert found["state"] == "inconclusive"
    assert found["arms"][0]["sent"] < found["arms"][0]["chosen"] == len(CATALOGUE) - 1
