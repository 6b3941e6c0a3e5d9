"""The ready scenarios: each can be run as it stands, says what it is for, and stands in docs/scenarios.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from loadgen.experiment import check, planned_sweep
from loadgen.plan import plan_sweep
from loadgen.scenario import load_scenario
from loadgen.scenario.yaml_text import parse

ROOT = Path(__file__).resolve().parents[2]
ALL = sorted((ROOT / "scenarios").glob("*.yaml"))
EXPERIMENTS = ("baseline", "concurrency", "context", "draft_length", "acceptance_by_task", "cost")
USES = ("chat", "batch", "high_concurrency", "code")
READY = [ROOT / "scenarios" / f"{name}.yaml" for name in (*EXPERIMENTS, *USES)]
SWEEPS = [path for path in READY if path.stem in EXPERIMENTS and path.stem != "cost"]
DOCS = (ROOT / "docs" / "scenarios.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
async def test_each_is_within_its_caps(path: Path) -> None:
    report = await check(load_scenario(path), targets=False)
    assert report.estimate.requests > 0
    assert report.estimate.seconds < 2 * 3600


@pytest.mark.parametrize("path", READY, ids=lambda path: path.stem)
def test_each_says_what_it_is_for_and_how_it_is_run(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    told = parse(text, path.name).value
    assert {"objective", "description", "environment", "slos"} <= told.keys()
    assert ("sweep" in told) != ("thresholds" in told), "points of a sweep have no thresholds, a run is judged by them"
    comment = " ".join(line.removeprefix("# ") for line in text.split("\nversion:")[0].splitlines())
    assert "?" in comment, "which question it answers"
    command = "sweep" if "sweep" in told else "run"
    assert f"specload {command} scenarios/{path.name}" in comment
    assert max(map(len, text.splitlines())) <= 130


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_each_sweep_has_passes_enough_for_intervals(path: Path) -> None:
    loaded = load_scenario(path)
    planned = planned_sweep(loaded, None).as_dict(None)
    assert len(planned["visits"]) == len(plan_sweep(loaded).visits)
    assert loaded.scenario.sweep is not None
    assert loaded.scenario.sweep.repeats >= 3


def test_one_without_a_gpu_starts_its_own_servers() -> None:
    sweep = load_scenario(ROOT / "scenarios" / "draft_length.yaml").scenario.sweep
    assert sweep is not None
    assert sweep.launch is not None
    assert sweep.launch.kind == "rehearsal"


def test_the_command_for_a_gpu_node_is_one() -> None:
    """What its comment says to write stands, joined to one line, as one --set."""
    text = (ROOT / "scenarios" / "draft_length.yaml").read_text(encoding="utf-8")
    said = " ".join(line.removeprefix("#").strip() for line in text.splitlines()[:12])
    (setting,) = re.findall(r"--set (sweep\.launch)='([^']+)'", said)
    swept = load_scenario(ROOT / "scenarios" / "draft_length.yaml", ["=".join(setting)]).scenario.sweep
    assert swept is not None
    assert swept.launch is not None
    assert swept.launch.kind == "vllm"


def test_all_stand_in_the_docs_with_their_axes() -> None:
    rows = dict(re.findall(r"^\| \[(\w+)\.yaml\]\(\.\./scenarios/\w+\.yaml\) \| (.+) \|$", DOCS, re.MULTILINE))
    assert set(rows) == {path.stem for path in ALL}
    for path in SWEEPS:
        for axis in plan_sweep(load_scenario(path)).axes:
            assert f"`{axis}`" in rows[path.stem], (path.stem, axis)
