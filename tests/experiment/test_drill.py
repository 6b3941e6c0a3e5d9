"""Kill-switch drills on real rehearsal engines behind a real nginx whose upstream a command flips."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from loadgen.analyze import DrillPull, DrillResult
from loadgen.experiment import RunOptions, RunResult, checklist_from, found_in, run_experiment
from loadgen.record import open_run
from loadgen.report import RunProgress, render_html
from loadgen.scenario import load_scenario
from server_adapters.rehearsal.config import RehearsalConfig
from tests.nginx import Gateway, gateway

Rehearsal = Callable[[RehearsalConfig], AbstractContextManager[str]]
Cli = Callable[..., Awaitable[Any]]
CONSOLE = Console(quiet=True)
#: Answers of 96 tokens: about 0.4 s with speculation, 1.3 s without.
ENGINE = {"model": "8b", "draft_model": "0.5b", "speed": 0.5}


@pytest.fixture(scope="module")
def engines(rehearsal: Rehearsal) -> Iterator[tuple[str, str]]:
    with (
        rehearsal(RehearsalConfig(spec="draft:k=4", **ENGINE)) as on,
        rehearsal(RehearsalConfig(spec="off", **ENGINE)) as off,
    ):
        yield on, off


@pytest.fixture(scope="module")
def running(
    engines: tuple[str, str], program: Callable[[str], str], free_port: Callable[[], int],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Gateway]:  # fmt: skip
    with gateway(tmp_path_factory.mktemp("nginx"), program("nginx"), free_port(), *engines) as found:
        yield found


@pytest.fixture
def front(running: Gateway) -> Gateway:
    """On the way to the speculating engine."""
    subprocess.run(["sh", str(running.folder / "switch.sh"), "on"], check=True, capture_output=True)
    return running


def scenario(arm: dict[str, Any], drill: dict[str, Any], duration_s: float) -> dict[str, Any]:
    lengths = {"input_len": {"kind": "fixed", "value": 48}, "output_len": {"kind": "fixed", "value": 96}}
    return {
        "version": 1,
        "name": "drill",
        "environment": "disposable",
        "experiment": "drill",
        "arms": {"gateway": arm},
        "workload": {"tasks": [{"task_type": "code", **lengths}]},
        "sampling": {"ignore_eos": True},
        "load": [{"kind": "arrival_rate", "rate_per_s": 8, "arrivals": "uniform", "duration_s": duration_s}],
        "warmup": {"warmup_requests": 1},
        "scrape": {"idle_wait_s": 1},
        "drill": drill,
    }


@pytest.fixture
def drilled(tmp_path: Path) -> Callable[..., Awaitable[tuple[RunResult, DrillResult]]]:
    async def run(arm: dict[str, Any], drill: dict[str, Any], duration_s: float) -> tuple[RunResult, DrillResult]:
        file = tmp_path / "drill.yaml"
        file.write_text(yaml.safe_dump(scenario(arm, drill, duration_s), sort_keys=False))
        options = RunOptions(tmp_path / "runs", workers=1)
        result = await run_experiment(load_scenario(file), options, RunProgress(CONSOLE))
        assert isinstance(result.found, DrillResult)
        return result, result.found

    return run


def command(text: str) -> dict[str, Any]:
    return {"off": {"kind": "command", "command": text}}


def pull_of(found: DrillResult, direction: str) -> DrillPull:
    return next(p for p in found.pulls if p.direction == direction)


async def test_a_reload_moves_everybody_and_loses_nobody(front: Gateway, drilled: Any) -> None:
    result, found = await drilled(front.arm(), front.drill(before_s=2, after_s=5, back_s=3, window_requests=5), 11)
    off, on = pull_of(found, "off"), pull_of(found, "on")
    assert (off.losses.lost, on.losses.lost) == (0, 0), found.reasons
    assert (off.ok, on.ok, found.known_by) == (True, True, "header")
    assert found.state != "fail", found.reasons
    assert off.routed.fallback_after_last >= 5
    assert off.last_routed_s is not None
    assert off.last_routed_s.value is not None
    assert off.last_round_s is not None
    assert off.last_round_s.high is not None, "the speculating engine's counters stood still in the end"
    assert on.first_routed_s is not None
    assert on.first_routed_s.value is not None
    assert on.acceptance_s is not None
    assert on.acceptance_s.high is not None
    assert set(found.served_by) == {front.speculating.removeprefix("http://"), front.fallback.removeprefix("http://")}
    run = open_run(result.path)
    assert found_in(run) == found, "made again from the directory alone"
    assert json.loads((result.path / "drill.json").read_bytes()) == json.loads(found.model_dump_json())
    shown = next(item for item in checklist_from([result.path]).items if item.name == "kill_switch")
    assert shown.state == {"pass": "pass", "inconclusive": "not_shown"}[found.state], shown
    assert (shown.evidence, shown.numbers["lost"]) == ([run.manifest.run_id], 0.0)
    page = render_html(result.summary, run.manifest, found)
    assert "The load around the pulls of the switch" in page
    assert "Requests around each pull" in page


async def test_a_switch_that_cuts_connections_is_found_with_what_it_lost(front: Gateway, drilled: Any) -> None:
    master = (front.folder / "nginx.pid").read_text().strip()
    cut = (
        f"workers=$(cat /proc/{master}/task/{master}/children); sh {front.folder}/switch.sh off; kill -9 $workers"
    )  # fmt: skip
    result, found = await drilled(front.arm(), front.drill(switch=command(cut), before_s=2, after_s=4), 7)
    off = pull_of(found, "off")
    assert found.state == "fail"
    assert off.losses.lost > 0
    assert off.losses.by_outcome["truncated"] >= off.losses.cut > 0
    assert sum(off.losses.by_outcome.values()) == off.losses.lost
    assert any(f"{off.losses.lost} of {off.losses.ended} requests were lost" in reason for reason in found.reasons)
    failed = {name: n for name, n in result.summary.arms["gateway"].overall.requests.outcomes.items() if n}
    assert failed.pop("ok") == off.losses.ok + off.losses.before
    assert failed == off.losses.by_outcome


async def test_a_slow_switch_is_timed(front: Gateway, drilled: Any) -> None:
    slow = command(f"sleep 1.5; sh {front.folder}/switch.sh off")
    drill = front.drill(switch=slow, before_s=1, after_s=5, limits={"last_routed_s": 1})
    result, found = await drilled(front.arm(), drill, 7)
    off = pull_of(found, "off")
    assert off.took_s > 1.5
    assert off.losses.lost == 0
    assert off.last_routed_s is not None
    assert off.last_routed_s.value is not None
    assert off.last_routed_s.value > 1
    if result.summary.validity.state == "invalid":  # a machine that is too busy judges no time
        assert (found.state, "invalid, so no time is judged" in found.reasons[0]) == ("inconclusive", True)
    else:
        assert (found.state, "is above its limit of 1 s" in " ".join(found.reasons)) == ("fail", True)


async def test_one_engine_with_a_switch_of_its_own(engines: tuple[str, str], drilled: Any) -> None:
    """No gateway: the answers' own statistics tell, and the counters of rounds."""
    switch = {"off": {"kind": "adapter"}, "on": {"kind": "adapter"}}
    page = {"metrics_urls": [f"{engines[0]}/metrics"]}
    drill = {"switch": switch, "speculating": page, "before_s": 2, "after_s": 3, "back_s": 2, "window_requests": 4}
    _, found = await drilled({"url": engines[0]}, drill, 8)
    off, on = pull_of(found, "off"), pull_of(found, "on")
    assert found.known_by == "statistics"
    assert (off.losses.lost, on.losses.lost) == (0, 0)
    assert found.state != "fail", found.reasons
    assert off.last_round_s is not None
    assert off.last_round_s.high is not None
    assert on.acceptance_s is not None
    assert on.acceptance_s.high is not None


async def test_a_switch_that_does_nothing_ends_the_command_with_99(
    front: Gateway, cli: Cli, specload: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    file = tmp_path / "nothing.yaml"
    drill = front.drill(switch=command("echo nothing to do"), before_s=1, after_s=3)
    file.write_text(yaml.safe_dump(scenario(front.arm(), drill, 5), sort_keys=False))
    ended = await cli("run", file, "--workers", "1", env={"COLUMNS": "400"})
    assert ended.code == 99, ended.said
    assert "drill: FAIL" in ended.out
    assert "moved nobody: all" in ended.out
    assert "Course of the load" in ended.out
    gated = specload("gate", *(tmp_path / "runs").iterdir())
    assert (gated.returncode, "moved nobody: all" in gated.stdout) == (99, True)


@pytest.mark.parametrize("options", [("--shard", "0/2"), ("--time-budget", "5s")])
async def test_a_drill_is_driven_whole_and_by_one(
    options: tuple[str, str], specload: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    gate = Gateway(tmp_path, "http://127.0.0.1:1", "http://127.0.0.1:2", "http://127.0.0.1:3")
    file = tmp_path / "drill.yaml"
    file.write_text(yaml.safe_dump(scenario(gate.arm(), gate.drill(before_s=1, after_s=3, back_s=2), 6)))
    ended = await asyncio.to_thread(specload, "run", file, *options)
    assert ended.returncode == 2
    assert f"{options[0]}: " in ended.stderr


def test_a_look_before_says_what_will_be_pulled_and_when(
    specload: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    gate = Gateway(tmp_path, "http://127.0.0.1:1", "http://127.0.0.1:2", "http://127.0.0.1:3")
    file = tmp_path / "drill.yaml"
    file.write_text(yaml.safe_dump(scenario(gate.arm(), gate.drill(before_s=1, after_s=3, back_s=2, pulls=2), 12)))
    said = " ".join(specload("check", file, "--offline").stdout.split())
    assert f"drill: 1 s after the load began, off: run sh {tmp_path}/switch.sh (at most 20 s)" in said
    assert f"drill: 10 s, on: run sh {tmp_path}/switch.sh" in said


async def test_an_interrupted_drill_switches_back(front: Gateway, cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "interrupted.yaml"
    file.write_text(yaml.safe_dump(scenario(front.arm(), front.drill(before_s=1, after_s=60, back_s=1), 62)))
    both = (signal.SIGINT, signal.SIGINT)  # the second cuts what is in flight, not the way back
    ended = await cli("run", file, "--workers", "1", when="switch off pulled", signals=both)
    assert ended.code == 130, ended.said
    assert "switching back: the drill ended while the switch was off" in ended.err
    assert (front.folder / "upstream.conf").read_text() == (front.folder / "speculating.conf").read_text()
    (path,) = (tmp_path / "runs").iterdir()
    run = open_run(path)
    said = [(e.name, e.data.get("direction")) for e in run.events if e.name != "companion_cut"]
    assert said == [("drill_servers", None), ("pulled", "off"), ("restoring", None), ("pulled", "on")]
    found = found_in(run)
    assert found is not None
    assert found.state == "inconclusive"
