"""scripts/gpu_check.sh without a GPU: its arguments, the commands of a dry run, its scenarios, and its report on
recorded runs. That it runs on a GPU is not tested."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from loadgen.experiment import check, judge_run, planned_sweep
from loadgen.record import open_run
from loadgen.scenario import load_scenario

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "gpu_check.sh"
SMALL = ROOT / "tests" / "data" / "runs" / "small"
MODELS = ("--model", "org/target", "--draft", "org/draft")
#: of the recorded run, by position
RECORDED = [0.988, 0.922, 0.814, 0.814]
TOOLS = ("bash", "dirname", "tr", "awk", "date", "sed", "mkdir", "mv", "tee", "env")


def ran(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(SCRIPT), *args], env={**os.environ, **env}, text=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gpu_check", ROOT / "scripts" / "gpu_check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gpu_check"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A PATH with what the script needs, and nothing of a GPU."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return folder


def program(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(f"#!/usr/bin/env bash\n{text}\n")
    file.chmod(0o755)
    return file


def test_it_is_a_script_that_shells_can_read() -> None:
    subprocess.run(["bash", "-n", str(SCRIPT)], check=True)
    shellcheck = shutil.which("shellcheck")
    if shellcheck is not None:
        subprocess.run([shellcheck, str(SCRIPT)], check=True)


def test_it_says_that_it_has_not_run_on_a_gpu() -> None:
    assert "has not run on a GPU yet" in SCRIPT.read_text(encoding="utf-8")
    assert "has not run on a GPU yet" in (ROOT / "docs" / "real-vllm.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "--model is missing"),
        (("--model", "m"), "--draft is missing"),
        (("--model",), "--model needs a value"),
        ((*MODELS, "--what"), "unknown argument --what"),
        ((*MODELS, "--port", "http"), "not a number"),
        ((*MODELS, "--rates", "0.8,high"), "numbers from 0 to 1"),
        ((*MODELS, "--rates", "0.5,0.6"), "must not rise"),
    ],
)
def test_wrong_arguments_end_with_2_and_say_what(args: tuple[str, ...], said: str) -> None:
    found = ran(*args)
    assert found.returncode == 2
    assert said in found.stderr


def test_a_dry_run_prints_every_command_and_does_nothing(tmp_path: Path, tools: Path) -> None:
    out = tmp_path / "out"
    found = ran(*MODELS, "--out", str(out), "--rates", "0.7,0.5", "--gpu", "3", "--dry-run", PATH=str(tools))
    assert found.returncode == 0, found.stderr
    assert not out.exists()
    steps = ("# node", "# synthetic", "# same", "# pair", "# draft_length")
    for words in (*steps, "scenarios", "loadgen sweep", "--gpu 3", "report", "0.7\\,0.5"):
        assert words in found.stdout


def test_without_a_gpu_it_ends_with_3_and_leaves_nothing(tmp_path: Path, tools: Path) -> None:
    found = ran(*MODELS, "--out", str(tmp_path / "out"), PATH=str(tools))
    assert found.returncode == 3
    assert "no node with an NVIDIA GPU" in found.stderr
    assert not (tmp_path / "out").exists()


def test_steps_that_fail_do_not_end_it_and_the_report_confirms_nothing(tmp_path: Path, tools: Path) -> None:
    """A node on which nothing works: stand-ins for nvidia-smi and vLLM, and runs that end with 98."""
    program(tools, "nvidia-smi", "echo 'index, name'")
    vllm = program(tools, "vllm-python", "exit 0")
    own = program(tools, "own", f'case $1 in *gpu_check.py) exec {sys.executable} "$@" ;; *) exit 98 ;; esac')
    out = tmp_path / "out"
    found = ran(*MODELS, "--out", str(out), "--python", str(vllm), PATH=str(tools), SPECLOAD_PYTHON=str(own))
    assert found.returncode == 1, found.stderr
    assert (out / "steps.txt").read_text().splitlines()[1:] == [
        f"{name}: exit code 98" for name in ("synthetic", "same", "pair", "draft_length")
    ]
    report = (out / "report.md").read_text(encoding="utf-8")
    assert "0 confirmed, 0 NOT confirmed, 13 not shown" in report
    assert "index, name" in report


async def test_its_scenarios_are_ones(tmp_path: Path, script: ModuleType) -> None:
    script.main(["scenarios", str(tmp_path), "--model", "org/target", "--draft", "org/draft", "--gpu", "1"])
    for name in ("synthetic", "same", "pair"):
        report = await check(load_scenario(tmp_path / f"{name}.yaml"), targets=False)
        assert report.estimate.requests > 0
    planned = planned_sweep(load_scenario(tmp_path / "draft_length.yaml"), None)
    assert planned.plan.axes == {"k": [0, 1, 2, 4]}
    start = load_scenario(tmp_path / "synthetic.yaml").scenario.arms["candidate"].start
    assert isinstance(start, list)
    config = json.loads(start[start.index("--speculative-config") + 1])
    assert config["rejection_sample_method"] == "synthetic"
    assert config["synthetic_acceptance_rates"] == [0.8, 0.6, 0.4, 0.2]
    assert config["num_speculative_tokens"] == 4
    assert start[start.index("--per-request-spec-decode-metrics") + 1] == "detailed"
    assert "CUDA_VISIBLE_DEVICES=1" in start


@pytest.fixture(scope="module")
def recorded() -> tuple[dict[str, Any], dict[str, Any]]:
    run = open_run(SMALL)
    return judge_run(run).summary.model_dump(mode="json"), run.manifest.model_dump(mode="json")


def test_acceptance_is_confirmed_only_where_it_is_the_known_one(script: ModuleType, recorded: Any) -> None:
    summary, _ = recorded
    states = [found.state for found in script.truth(summary, RECORDED)]
    assert states == ["confirmed"] * 5
    states = [found.state for found in script.truth(summary, [0.988, 0.6, 0.4, 0.2])]
    assert states == ["confirmed", *["NOT confirmed"] * 4]
    assert [found.state for found in script.truth({}, [0.5])] == ["not shown"] * 2


def test_what_a_run_does_not_show_is_not_confirmed(script: ModuleType, recorded: Any) -> None:
    summary, manifest = recorded
    assert script.asynchronous(manifest).state == "not shown"
    assert script.nvml(summary).state == "not shown"
    assert "telemetry" in script.nvml(summary).detail
    assert script.same(summary).state == "not shown", "one block has no interval"
    full, agree, valid = script.told(summary)
    assert full.state == "confirmed", "668 drafted in 167 rounds of 4"
    assert agree.state == ("NOT confirmed" if any(r["ok"] is False for r in summary["reconciliation"]) else "confirmed")
    assert valid.state == "NOT confirmed", "the recorded measurement is doubtful"
    assert script.identity(summary).state == "confirmed"


@pytest.mark.parametrize(("value", "state"), [(True, "confirmed"), (False, "NOT confirmed"), (None, "not shown")])
def test_async_scheduling_is_what_the_server_tells(script: ModuleType, value: bool | None, state: str) -> None:
    fact = {"value": value, "source": "the server", "reason": None}
    found = script.asynchronous({"arms": {"candidate": {"environment": {"scheduling.async": fact}}}})
    assert found.state == state


@pytest.mark.parametrize(("low", "high", "state"), [(0.97, 1.02, "confirmed"), (1.01, 1.05, "NOT confirmed")])
def test_equal_arms_must_be_found_equal(script: ModuleType, low: float, high: float, state: str) -> None:
    speedup = {"value": {"value": (low + high) / 2, "low": low, "high": high}}
    assert script.same({"comparison": [{"speedup": speedup}]}).state == state


def test_the_report_is_made_from_the_newest_runs(tmp_path: Path, script: ModuleType, recorded: Any) -> None:
    for name, content in zip(("summary.json", "manifest.json"), recorded, strict=True):
        folder = tmp_path / "synthetic" / "20260101T000000Z-x"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(content))
    code = script.main(["report", str(tmp_path), "--rates", ",".join(map(str, RECORDED))])
    assert code == 1, "what is not shown is no success"
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "| synthetic acceptance, position 1: 0.988 | confirmed |" in text
    assert "| the advisor's E lies within what the sweep measured | not shown |" in text
