"""The circuit breaker in a run: a dead engine is detected, not hammered, and its failures are no measurements."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest

from loadgen.control import Live
from loadgen.experiment import RunOptions, RunResult, run_scenario
from loadgen.plan import Plan, Segment
from loadgen.record import open_run
from loadgen.scenario import LoadedScenario, Scenario
from server_adapters.rehearsal.config import RehearsalConfig

Start = Callable[[RehearsalConfig], AbstractContextManager[str]]
pytestmark = pytest.mark.usefixtures("forked_children")
FAST = RehearsalConfig(model="8b", speed=4.0)


class Spoiling:
    """A progress display that sets a fault once the measured part has begun."""

    def __init__(self, url: str, fault: dict[str, Any]) -> None:
        self._url, self._fault = url, fault
        self.said: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    def started(self, plan: Plan, path: Path, notes: tuple[str, ...]) -> None: ...

    def segment(self, segment: Segment, number: int, total: int) -> None:
        if segment.phase == "measure":
            self.tasks.append(asyncio.create_task(self._set()))

    async def _set(self) -> None:
        async with httpx.AsyncClient(base_url=self._url) as client:
            assert (await client.post("/rehearsal/faults", json=self._fault)).status_code == 200

    def ended(self, requests: int, failed: int) -> None: ...

    def live(self, segment: Segment, live: Live) -> None: ...

    def say(self, text: str) -> None:
        self.said.append(text)


def task(input_len: int, **more: Any) -> dict[str, Any]:
    lengths = {"input_len": {"kind": "fixed", "value": input_len}, "output_len": {"kind": "fixed", "value": 16}}
    return {"task_type": "code", **lengths, **more}


async def ran(
    tmp_path: Path,
    url: str,
    fault: dict[str, Any],
    load: dict[str, Any],
    experiment: str = "run",
    tasks: tuple[dict[str, Any], ...] = (),
    **safety: Any,
) -> tuple[RunResult, list[str], Spoiling]:
    """The result, the breaker's events, and who watched."""
    document = {
        "version": 1, "name": "breaking", "environment": "disposable", "arms": {"base": {"url": url}},
        "experiment": experiment, "workload": {"endpoint": "completions", "tasks": [*tasks] or [task(32)]},
        "load": [load], "warmup": {"warmup_requests": 2}, "scrape": {"interval_s": 0.5, "idle_wait_s": 1},
        "safety": safety,
    }  # fmt: skip
    watch = Spoiling(url, fault)
    loaded = LoadedScenario(Scenario.model_validate(document), None, "0" * 64)
    result = await run_scenario(loaded, RunOptions(tmp_path), watch)
    await asyncio.gather(*watch.tasks)
    return result, [e.name for e in open_run(result.path).events], watch


async def test_an_engine_that_dies_and_comes_back(rehearsal: Start, tmp_path: Path) -> None:
    """J2: held while it is away, and on with it afterwards. What failed is an outcome, in no latency and no
    throughput."""
    load = {"kind": "concurrency", "concurrency": 4, "cases": 300}
    with rehearsal(FAST) as url:
        fault = {"name": "engine_dead", "after": 0.4, "for": 1.5}
        result, events, watch = await ran(tmp_path, url, fault, load, breaker_failures=6)
    assert result.state == "finished", result.reason
    assert events == ["breaker_open", "engine_dead", "engine_back"]
    assert any("is back after" in said for said in watch.said)
    overall = result.summary.arms["base"].overall
    outcomes = overall.requests.outcomes
    failed = overall.requests.sent - outcomes["ok"]
    assert 6 <= failed <= 6 + 4 + 4, "the trip, what was in flight then, and what failed when it died"
    (outage,) = [f for f in result.summary.findings if f.id == "engine_away"]
    assert outage.numbers["failed"] == failed
    assert outage.numbers["detected_s"] is not None
    assert outage.numbers["away_s"] is not None
    assert outage.numbers["detected_s"] < outage.numbers["away_s"]
    assert overall.stream.ttft_s.n == outcomes["ok"]
    assert overall.tpot_s.n <= outcomes["ok"], "one whose tokens all came at once has none"
    (phase,) = [p for p in open_run(result.path).phases if p.phase == "measure" and p.ended_ns]
    run_s = ((phase.ended_ns or 0) - phase.started_ns) / 1e9
    assert overall.throughput.net_tokens_per_s_run.value == pytest.approx(16 * outcomes["ok"] / run_s, rel=1e-6)


async def test_one_that_stays_away_ends_the_run(rehearsal: Start, tmp_path: Path) -> None:
    """J2: time to detect, and how many failed, in the reason. Arrivals are dropped meanwhile, and counted."""
    load = {"kind": "arrival_rate", "rate_per_s": 60, "duration_s": 30}
    with rehearsal(FAST) as url:
        fault = {"name": "engine_dead", "after": 0.5}
        result, events, _ = await ran(tmp_path, url, fault, load, breaker_failures=5, breaker_wait_s=1)
    assert result.state == "failed"
    assert re.fullmatch(
        r"engine of base dead: detected after \d[\d.e-]* s, \d+ requests failed meanwhile; not back within 1 s "
        r"\(safety.breaker_wait_s\)",
        result.reason or "",
    )
    assert events == ["breaker_open", "engine_dead", "engine_gone"]
    requests = result.summary.arms["base"].overall.requests
    assert requests.dropped
    assert requests.scheduled == requests.sent + requests.dropped + (requests.unsent or 0)
    (outage,) = [f for f in result.summary.findings if f.id == "engine_away"]
    assert outage.numbers["away_s"] is None
    assert "not back when the run ended" in outage.text


@pytest.mark.parametrize("failures", [5, 0])
async def test_a_server_that_is_alive_and_refuses_all(rehearsal: Start, tmp_path: Path, failures: int) -> None:
    """Its health is good: the load goes on, and it is looked at less and less; with 0 it is never looked at."""
    load = {"kind": "concurrency", "concurrency": 2, "cases": 60}
    with rehearsal(FAST) as url:
        result, events, _ = await ran(tmp_path, url, {"name": "storm_503"}, load, breaker_failures=failures)
    assert result.state == "finished"
    assert set(events) == ({"breaker_open", "breaker_closed"} if failures else set())
    assert len(events) <= 2 * 4, "5, 10, 20, 40 in a row"
    overall = result.summary.arms["base"].overall
    assert overall.requests.sent == 60
    assert overall.stream.ttft_s.n == overall.requests.outcomes["ok"]
    assert "engine_away" not in {f.id for f in result.summary.findings}


async def test_a_soak_whose_engine_dies_of_a_long_context(rehearsal: Start, tmp_path: Path) -> None:
    """J3: long contexts are answered for a while, then one kills the engine. The soak ends instead of hammering it,
    says so with the moment, and every request until then is kept with its time."""
    load = {"kind": "concurrency", "concurrency": 4, "duration_s": 200}
    tasks = (task(32, weight=3), task(900, weight=1, task_type="long_form"))
    with rehearsal(FAST) as url:
        fault = {"name": "crash_on", "tokens": 500, "after": 2.0}
        result, events, _ = await ran(
            tmp_path, url, fault, load, "soak", tasks, breaker_failures=5, breaker_wait_s=1
        )  # fmt: skip
    assert result.state == "failed"
    assert (result.reason or "").startswith("engine of base dead: detected after ")
    assert events == ["breaker_open", "engine_dead", "engine_gone"]
    run = open_run(result.path)
    rows = [row for row in run.requests.to_pylist() if row["phase"] == "measure"]
    answered = [row for row in rows if row["outcome"] == "ok"]
    assert any(row["task_type"] == "long_form" for row in answered), "before the fault"
    died_ns = next(event.at_ns for event in run.events if event.name == "engine_dead")
    last_ns, failed_ns = (max(r["end_ns"] for r in answered), min(r["end_ns"] for r in rows if r["outcome"] != "ok"))
    assert last_ns <= died_ns
    (outage,) = [f for f in result.summary.findings if f.id == "engine_away"]
    assert outage.numbers["detected_s"] == pytest.approx((died_ns - failed_ns) / 1e9, abs=1.0)
    assert outage.numbers["away_s"] is None
    (phase,) = [p for p in run.phases if p.phase == "measure" and p.ended_ns]
    assert ((phase.ended_ns or 0) - phase.started_ns) / 1e9 < 200, "it did not go on to its end"
    assert isinstance(result.summary.stability, list)
    assert result.summary.stability[0].failure_rate.value
