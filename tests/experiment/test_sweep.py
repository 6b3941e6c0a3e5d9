"""A sweep on rehearsal engines that it starts and stops, from the command line: interrupted, killed, resumed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from loadgen.control import Ask
from loadgen.errors import ScenarioError
from loadgen.experiment import list_sweeps, planned_sweep, run_sweep, sweep_report
from loadgen.experiment.sweep import SweepOptions
from loadgen.experiment.sweep_search import max_rates, next_step, vote_of
from loadgen.experiment.sweep_state import Attempt, SearchVisit, SweepState, close_attempts, read_state
from loadgen.plan import plan_sweep
from loadgen.record import REQUESTS
from loadgen.scenario import MaxRate, load_scenario
from loadgen.verdict import Result

ROOT = Path(__file__).resolve().parents[2]
MakeScenario = Callable[..., Path]
StartCommand = Callable[..., Awaitable[Any]]


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
    return port


@dataclass
class Session:
    code: int
    out: str
    err: str


async def session(
    command: StartCommand, *args: str | Path, until: Callable[[], bool] | None = None, sent: int = 0
) -> Session:
    """Run `specload sweep`; once `until` holds, send the signal to its whole group, as a terminal would."""
    process = await command("sweep", *args)
    whole = asyncio.gather(process.stdout.read(), process.stderr.read())
    deadline = time.monotonic() + 300
    while until is not None and not whole.done():
        assert time.monotonic() < deadline
        if until():
            process.signal_group(sent)
            break
        await asyncio.sleep(0.02)
    out, err = await asyncio.wait_for(whole, 300)
    return Session(await process.wait(), out.decode(), err.decode())


def measuring(folder: Path, number: str, runs_before: int = 0) -> Callable[[], bool]:
    """The visit's newest run has written requests."""

    def seen() -> bool:
        runs = sorted(f.parent for f in folder.glob(f"runs/*-sweep-*/points/{number}-*/*/manifest.json"))
        files = runs[-1].glob("requests*.arrow") if len(runs) > runs_before else ()
        return any(file.stat().st_size > REQUESTS.serialize().size for file in files)

    return seen


def contents(run: Path) -> dict[str, str]:
    files = (file for file in run.rglob("*") if file.is_file())
    return {str(f.relative_to(run)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def visits(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "sweep.json").read_bytes())["visits"]
    return found


def valid_or_starved(visit: dict[str, Any]) -> bool:
    """Done; a machine that has no time for the client makes a run invalid, which is then said."""
    last = visit["attempts"][-1]
    return bool(last["state"] == "done" or (last["state"] == "failed" and last["reason"].startswith("invalid: ")))


async def test_a_k_sweep_is_interrupted_killed_and_resumed(
    command: StartCommand, scenario: MakeScenario, tmp_path: Path
) -> None:
    """k = 0, 2 and 17, which the engine refuses: a failed point, recorded with its reason, does not end the sweep. What
    was measured before Ctrl-C and before SIGKILL stays as it is; what was cut is kept, marked and made again."""
    port = free_port()
    file = scenario(
        {"url": f"http://127.0.0.1:{port}"},
        load=[{"kind": "concurrency", "concurrency": 1, "cases": 30}],
        sweep={
            "over": {"k": [0, 2, 17]},
            "repeats": 1,
            "launch": {"kind": "rehearsal", "options": {"model": "8b", "speed": 0.5}},
        },
    )
    order = {p.values["k"]: f"{number:03d}" for number, p in enumerate(plan_sweep(load_scenario(file)).visits)}
    first = await session(command, file, until=measuring(tmp_path, order[2]), sent=signal.SIGINT)
    assert first.code == 130, first.err
    assert "--resume" in first.err
    (folder,) = (tmp_path / "runs").glob("*-sweep-*")
    (listed,) = list_sweeps(tmp_path / "runs")
    assert (Path(listed.path), listed.state) == (folder, "sweep")
    assert str(listed.problem).startswith("sweep over k: ")
    assert [a["state"] for a in visits(folder)[int(order[2])]["attempts"]] == ["interrupted"]

    second = await session(
        command, file, "--resume", folder, until=measuring(tmp_path, order[2], 1), sent=signal.SIGKILL
    )
    assert second.code == -signal.SIGKILL, second.err
    before = visits(folder)
    assert valid_or_starved(before[0])
    assert [a["state"] for a in before[int(order[2])]["attempts"]] == ["interrupted", "running"]
    finished = {a["directory"]: contents(folder / a["directory"])
                for v in before for a in v["attempts"] if a["directory"] and a["state"] == "done"}  # fmt: skip
    cuts = sorted(f.parent for f in (folder / before[int(order[2])]["attempts"][-1]["folder"]).glob("*/manifest.json"))

    third = await session(command, file, "--resume", folder, "--textfile", tmp_path / "sweep.prom")
    assert third.code == 98, third.err
    after = visits(folder)
    for was, now in zip(before, after, strict=True):
        if was["attempts"] and was["attempts"][-1]["state"] == "done":
            assert now["attempts"] == was["attempts"], "what is done is not made again"
    assert {where: contents(folder / where) for where in finished} == finished
    marked = after[int(order[2])]["attempts"]
    assert [a["state"] for a in marked[:2]] == ["interrupted"] * 2
    assert [folder / a["directory"] for a in marked[:2]] == cuts
    assert "by the user" in marked[0]["reason"]
    assert "killed while it ran" in marked[1]["reason"]
    assert valid_or_starved(after[int(order[2])]), marked
    _refused(folder, after[int(order[17])])
    _reported(folder, third, tmp_path / "sweep.prom")
    with socket.socket() as s:
        assert s.connect_ex(("127.0.0.1", port)) != 0, "no server is left"


def _refused(folder: Path, visit: dict[str, Any]) -> None:
    last = visit["attempts"][-1]
    assert (last["state"], last["kind"]) == ("failed", "target")
    assert "k=17: a whole number from 1 to 16 is needed" in last["reason"]
    logs = list((folder / last["folder"]).glob("*/servers/*.log"))
    assert any("k=17" in log.read_text() for log in logs)


def _reported(folder: Path, ended: Session, textfile: Path) -> None:
    """The summary is what a later look at the directory gives, and what stdout and the metrics say."""
    kept, again = json.loads((folder / "sweep_summary.json").read_bytes()), sweep_report(folder)
    assert again.model_dump(mode="json") == kept
    assert again.totals["failed"] >= 1
    assert "k 17" in ended.out
    assert any(f.id == "sweep_points_failed" for f in again.findings)
    assert "visits failed" in (folder / "sweep.html").read_text(encoding="utf-8")
    done = [p for p in again.points if p.state == "done"]
    assert all(p.numbers["net_tokens_per_s"]["base"].value for p in done)
    assert again.finished
    text = textfile.read_text()
    assert f'specload_sweep_visits{{state="failed",sweep_id="{folder.name}"}} {again.totals["failed"]}.0' in text


def searched(limit: float, visits: int) -> SweepState:
    """A search in which every rate below `limit` passes, after so many visits."""
    keys = {"low": 1.0, "high": 64.0, "slo": ["ttft_s: p(95)<0.5"], "repeats": 3}
    state = SweepState.model_construct(scenario={"sweep": {"max_rate": keys}}, search=[])
    for _ in range(visits):
        step = next_step(MaxRate.model_validate(keys), state, "base", None)
        if not isinstance(step, Ask):
            break
        outcome: Any = "pass" if step.rate < limit else "fail"
        state.search.append(
            SearchVisit(arm="base", rate_per_s=step.rate, outcome=outcome, why="p95", folder="search/0")
        )
    return state


def test_the_search_goes_on_from_what_is_noted_and_ends_within_its_resolution() -> None:
    (found,) = max_rates(searched(23.0, 60))
    assert (found.state, found.reason) == ("resolved", None)
    assert found.rate_per_s.value == pytest.approx(23.0, rel=0.05)
    assert found.rate_per_s.low is not None
    assert found.rate_per_s.high is not None
    assert found.rate_per_s.low < 23.0 <= found.rate_per_s.high
    (half,) = max_rates(searched(23.0, 3))
    assert (half.state, half.rate_per_s.value) == ("unresolved", None)
    assert "not over" in half.sentence
    (never,) = max_rates(searched(0.5, 60))
    assert never.state == "unresolved"
    assert "not met at the lowest rate" in (never.reason or "")


async def test_a_search_beyond_the_caps_is_refused_before_any_load(scenario: MakeScenario, tmp_path: Path) -> None:
    search = {"low": 1.0, "high": 64.0, "slo": ["ttft_s: p(95)<0.5"]}
    keys = {"environment": "production", "sweep": {**SWEEP, "max_rate": search}}
    loaded = load_scenario(scenario({"url": "http://127.0.0.1:9"}, **keys))
    with pytest.raises(ScenarioError, match=r"sweep\.max_rate: at 64 requests/s: load\.0\.rate_per_s: 64 is above"):
        await run_sweep(loaded, SweepOptions(tmp_path / "runs"), Quiet())
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("ok", "value", "op", "vote"),
    [(True, 9.0, "<", True), (False, 0.1, "<", False), (None, 0.4, "<", True), (None, 0.6, "<", False),
     (None, None, "<", None), (None, 0.5, "<=", True), (None, 0.6, ">", True), (None, 0.4, ">=", False)],
)  # fmt: skip
def test_a_vote_is_the_intervals_else_the_values(ok: bool | None, value: float | None, op: str, vote: bool) -> None:
    assert vote_of(Result.model_construct(ok=ok, value=value, op=op, limit=0.5)) is vote


class Quiet:
    """Nobody watches."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def begun(self, folder: Path) -> None:
        self.folder = folder

    def say(self, text: str) -> None:
        self.said.append(text)

    def point(self) -> Any:
        raise AssertionError("no run was to be begun")

    def point_over(self) -> None:
        pass


SWEEP = {"over": {"concurrency": [1, 2, 4]}, "repeats": 2}


async def test_a_budget_that_is_spent_skips_with_its_reason(scenario: MakeScenario, tmp_path: Path) -> None:
    file = scenario({"url": "http://127.0.0.1:9"}, sweep=SWEEP)
    loaded, watch = load_scenario(file), Quiet()
    result = await run_sweep(loaded, SweepOptions(tmp_path / "runs", time_budget_s=0.5), watch)
    assert result.summary.totals == {"skipped": 6}
    assert (result.state, result.unreachable) == ("finished", False)
    assert all("time budget" in (p.reason or "") for p in result.summary.points)
    assert result.summary.reasons["curves"] == "no visit has been measured"
    assert planned_sweep(loaded, result.path).within(1e6) == 6, "they are made by a session with more time"


async def test_another_scenario_is_not_resumed(scenario: MakeScenario, tmp_path: Path) -> None:
    """Points of different scenarios are not comparable."""
    file = scenario({"url": "http://127.0.0.1:9"}, sweep=SWEEP)
    result = await run_sweep(load_scenario(file), SweepOptions(tmp_path / "runs", time_budget_s=0.5), Quiet())
    moved = load_scenario(file, arms={"base": "http://127.0.0.1:10"})
    assert planned_sweep(moved).plan.hash == result.summary.plan_hash, "where the arms are does not matter"
    other = load_scenario(file, ["load.0.cases=7"])
    with pytest.raises(ScenarioError, match="another scenario"):
        await run_sweep(other, SweepOptions(tmp_path / "runs", resume=result.path), Quiet())


async def test_a_finished_run_that_was_not_noted_is_taken_over(scenario: MakeScenario, tmp_path: Path) -> None:
    """Killed between the end of a run and its note: nothing that was measured is asked again."""
    file = scenario({"url": "http://127.0.0.1:9"}, sweep=SWEEP)
    result = await run_sweep(load_scenario(file), SweepOptions(tmp_path / "runs", time_budget_s=0.5), Quiet())
    state = read_state(result.path)
    recorded = ROOT / "tests" / "data" / "runs"
    (source, *_) = sorted(path.parent for path in recorded.rglob("manifest.json"))
    visit = state.visits[0]
    visit.attempts.append(_running(visit.folder))
    _copy(source, result.path / visit.folder / "20260101T000000Z-old-000000")
    close_attempts(result.path, state)
    finished = json.loads((source / "manifest.json").read_bytes())["state"] == "finished"
    assert visit.attempts[-1].state == ("done" if finished else "interrupted")
    assert visit.attempts[-1].run_id == "20260101T000000Z-old-000000"


def _running(folder: str) -> Attempt:
    return Attempt(state="running", folder=folder, started="2026-01-01T00:00:00Z", at_s=0.0)


def _copy(source: Path, target: Path) -> None:
    target.mkdir(parents=True)
    for file in source.iterdir():
        if file.is_file():
            (target / file.name).write_bytes(file.read_bytes())
