"""What is shown of a plan before and while it is driven: whole stages, and where in them we are."""

import io
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from loadgen.plan import Plan, build_plan
from loadgen.report import RunProgress, planned_load, render_plan
from loadgen.scenario import LoadedScenario, limits_of, load_scenario

LENGTHS = {"input_len": {"kind": "fixed", "value": 40}, "output_len": {"kind": "fixed", "value": 12}}


def loaded(folder: Path, **keys: Any) -> LoadedScenario:
    content = {
        "version": 1,
        "name": "planned",
        "environment": "disposable",
        "arms": {"baseline": {"url": "http://h:1"}, "candidate": {"url": "http://h:2"}},
        "workload": {"tasks": [{"task_type": "code", **LENGTHS}]},
        "load": [
            {"kind": "concurrency", "concurrency": 2, "cases": 41},
            {"kind": "arrival_rate", "rate_per_s": 6, "arrivals": "uniform", "duration_s": 20},
        ],
        "repeats": 3,
        **keys,
    }
    file = folder / "planned.yaml"
    file.write_text(yaml.safe_dump(content))
    return load_scenario(file)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return build_plan(loaded(tmp_path))


def test_stages_are_drawn_whole_though_they_are_cut(plan: Plan) -> None:
    closed, rate = planned_load(plan)
    assert (closed.name, closed.requests, closed.seconds, set(closed.values)) == ("c2", 41, None, {2.0})
    assert (rate.name, rate.requests, rate.seconds) == ("r6", 120, 20.0)
    assert sum(rate.values) * 20 / len(rate.values) == pytest.approx(120)


def test_the_design_and_its_blocks_are_shown(tmp_path: Path) -> None:
    scenario = loaded(tmp_path)
    console = Console(file=io.StringIO(), width=120, highlight=False)
    render_plan(build_plan(scenario), scenario.scenario.load, limits_of(scenario.scenario), console)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "design: interleaved, baseline and candidate, 3 repeats." in text
    (line,) = [line for line in text.splitlines() if line.split()[:1] == ["c2"]]
    assert line.split()[-2:] == ["41", "7"]


def test_progress_says_which_block_it_is(plan: Plan) -> None:
    console = Console(file=io.StringIO(), width=120)
    progress = RunProgress(console)
    progress.started(plan, Path("runs/x"), ())
    measured = [s for s in plan.segments if (s.phase, s.stage_index) == ("measure", 0)]
    for number, segment in enumerate((plan.segments[0], plan.segments[1], measured[0], measured[-1])):
        progress.segment(segment, number, 4)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    first, last = measured[0].arm, measured[-1].arm
    assert lines[1].startswith(f"asked in all: {plan.totals.requests:,} requests, at most ")
    assert lines[2:] == [
        f"[1/4] c2 {first} warm-up",
        f"[2/4] c2 {first} warm-up window 2",
        f"[3/4] c2 {first} block 1/21",
        f"[4/4] c2 {last} block 21/21",
    ]
