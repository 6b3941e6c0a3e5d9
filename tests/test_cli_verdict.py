"""gate, compare, report --format junit|markdown: exit codes and contracts, on recorded runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from jsonschema import Draft202012Validator

ROOT = Path(__file__).resolve().parents[1]
RUN = ROOT / "tests" / "data" / "runs" / "small"
Specload = Callable[..., subprocess.CompletedProcess[str]]
PASS, FAIL = "ttft_s{arm:baseline}: max<100", "ttft_s{arm:baseline}: max<0.000001"


def process(*args: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command as users start it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    command = [sys.executable, "-m", "loadgen", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=cwd, env=environment)


def thresholds(*texts: str) -> list[str]:
    return [part for text in texts for part in ("--threshold", text)]


def change(folder: Path, **manifest: Any) -> Path:
    """A copy of the recorded run with another manifest."""
    shutil.copytree(RUN, folder)
    file = folder / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_bytes()), **manifest}))
    return folder


@pytest.mark.parametrize(
    ("texts", "code"),
    [((PASS,), 0), ((FAIL,), 99), ((PASS, FAIL), 99), ((PASS, "ttft_s{arm:baseline}: p(99)<1"), 98), ((), 98)],
)
def test_gate_ends_with_the_verdicts_code(specload: Specload, texts: tuple[str, ...], code: int) -> None:
    done = specload("gate", RUN, *thresholds(*texts), "--json")
    assert done.returncode == code, done.stderr
    (found,) = json.loads(done.stdout)
    assert found["verdict"] == {0: "pass", 98: "inconclusive", 99: "fail"}[code]
    assert found["thresholds_from"] == ("command_line" if texts else "defaults")
    schema = json.loads(specload("schema", "verdict").stdout)
    Draft202012Validator(schema).validate(found)


def test_the_process_ends_with_it(specload: Specload) -> None:
    """As CI sees it: the exit code, and nothing but JSON on stdout."""
    asked = ("gate", RUN, *thresholds(FAIL), "--json")
    done = process(*asked)
    assert (done.returncode, json.loads(done.stdout)) == (99, json.loads(specload(*asked).stdout))


def test_gate_of_several_runs_is_the_worst_of_them(specload: Specload, tmp_path: Path) -> None:
    broken = change(tmp_path / "other", run_id="other", state="failed", stop_reason="for a test")
    assert specload("gate", RUN, RUN, *thresholds(PASS)).returncode == 0
    done = specload("gate", RUN, broken, *thresholds(PASS))
    assert done.returncode == 98
    assert "the run did not finish: for a test" in done.stdout
    assert specload("gate", RUN, broken, *thresholds(FAIL)).returncode == 99


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ({"state": "interrupted", "stop_reason": "interrupted by the user"}, "did not finish: interrupted by the user"),
        ({"state": "failed", "stop_reason": "a disk was full"}, "the run did not finish: a disk was full"),
        ({"state": "inconclusive", "stop_reason": "worker 1 died"}, "the run did not finish: worker 1 died"),
        ({"state": "stopped", "stop_reason": "a threshold failed"}, "the run did not finish: a threshold failed"),
        ({"state": "running"}, "the run did not finish"),
        ({"workers": 2, "lost_workers": [1]}, "the measurement is invalid: 1 of 2 worker processes died"),
        ({"shard": "0/2"}, "only share 0/2 of the plan was driven by this run"),
    ],
    ids=["interrupted", "failed", "inconclusive", "stopped", "killed", "worker-lost", "shard"],
)
def test_a_run_that_is_not_whole_never_passes_the_gate(
    specload: Specload, tmp_path: Path, manifest: dict[str, Any], words: str
) -> None:
    """F11, F16: whatever its numbers, 98, and it says why."""
    broken = change(tmp_path / "broken", run_id="broken", **manifest)
    done = specload("gate", broken, *thresholds(PASS))
    assert done.returncode == 98, done.stderr
    assert done.stdout.startswith("Verdict: inconclusive · broken")
    assert words in done.stdout


def test_thresholds_that_cannot_be_read_are_usage_errors(specload: Specload) -> None:
    done = specload("gate", RUN, *thresholds("ttft: p(95)<1", "ttft_s: p95<1"))
    assert done.returncode == 2
    assert "did you mean ttft_s?" in done.stderr
    assert "write p(95)" in done.stderr


def test_a_threshold_of_the_command_line_about_no_arm_of_the_run_is_a_usage_error(specload: Specload) -> None:
    done = specload("gate", RUN, *thresholds(PASS, "ttft_s{arm:candidat}: max<1"))
    assert done.returncode == 2, done.stdout
    assert "candidat is no arm of " in done.stderr
    assert "these are: baseline, candidate" in done.stderr
    assert "thresholds of the command line" in specload("gate", RUN, *thresholds(PASS)).stdout


def test_a_run_compared_with_itself_is_said(specload: Specload) -> None:
    done = specload("compare", RUN, RUN, *thresholds(PASS), "--json")
    notes = json.loads(done.stdout)["verdict"]["notes"]
    assert any("compared with itself" in note for note in notes)
    assert not any("one window" in note for note in notes)


def test_what_was_asked_is_asked_again(specload: Specload, tmp_path: Path) -> None:
    client = {**json.loads((RUN / "manifest.json").read_bytes())["client"], "transport": "kernel"}
    urls = {"baseline": "http://127.0.0.1:9001"}
    run = change(tmp_path / "again", overrides=["repeats=3"], arm_urls=urls, client=client)
    (found,) = json.loads(specload("gate", run, *thresholds(PASS), "--json").stdout)
    assert "--set repeats=3 --arm baseline=http://127.0.0.1:9001 --transport kernel  #" in found["reproduce"][0]


def test_one_arm_without_thresholds_has_nothing_to_judge(specload: Specload, tmp_path: Path) -> None:
    manifest = json.loads((RUN / "manifest.json").read_bytes())
    alone = change(tmp_path / "alone", arms={"baseline": manifest["arms"]["baseline"]})
    for arguments in (("gate", alone), ("report", alone, "--format", "junit")):
        done = specload(*arguments)
        assert done.returncode == 2
        assert "nothing to judge" in done.stderr
    assert specload("report", alone).returncode == 0
    assert specload("gate", alone, *thresholds("ttft_s: max<100")).returncode == 0


def test_report_formats_hold_the_same_verdict(specload: Specload) -> None:
    summary = json.loads(specload("report", RUN, "--format", "json").stdout)
    names = [t["name"] for t in summary["verdict"]["thresholds"]]
    assert len(names) == 8
    (suite,) = ElementTree.fromstring(specload("report", RUN, "--format", "junit").stdout.encode())
    assert [case.get("name") for case in suite] == [*names, "measurement"]
    text = specload("report", RUN, "--format", "markdown").stdout
    assert text.startswith("## specload: ❔ inconclusive")
    assert all(f"`{name}`" in text for name in names)
    assert specload("report", RUN).stdout.count("inconclusive") >= 4


def test_compare_of_equal_plans_is_paired_and_of_others_is_not(specload: Specload, tmp_path: Path) -> None:
    for plan, paired in (("same", True), ("another", False)):
        changes = {"run_id": plan} if paired else {"run_id": plan, "plan_hash": "0" * 64}
        other = change(tmp_path / plan, **changes)
        done = specload("compare", RUN, other, *thresholds("ttft_s{arm:baseline}: p(95)<=1.05 * baseline"), "--json")
        assert done.returncode == 98, done.stderr
        found = json.loads(done.stdout)
        assert found["verdict"]["paired"] is paired
        assert found["comparison"]["paired"] is paired
        assert found["verdict"]["design"] == "apart"
        assert (found["verdict"]["run_id"], found["verdict"]["baseline"]) == (plan, found["comparison"]["first"])
        assert found["verdict"]["thresholds"][0]["value"] == pytest.approx(1.0)
        assert any("one window" in note for note in found["verdict"]["notes"])


def test_compare_of_a_changed_server_names_the_change(specload: Specload, tmp_path: Path) -> None:
    """H15: what differs between the runs is in the verdict."""
    arms = json.loads((RUN / "manifest.json").read_bytes())["arms"]
    runs = []
    for name, dtype in (("old", "bfloat16"), ("new", "float16")):
        arms["candidate"]["environment"] = {"model.dtype": dtype}
        runs.append(change(tmp_path / name, run_id=name, arms=arms))
    done = specload("compare", *runs, *thresholds("ttft_s{arm:baseline}: max<100"))
    assert done.returncode == 98, done.stderr
    assert "environment: model.dtype (old: bfloat16, new: float16)" in done.stdout


def test_compare_with_the_last_pass(specload: Specload, tmp_path: Path) -> None:
    old = change(tmp_path / "runs" / "old", run_id="old", started="2026-01-01T00:00:00.000+00:00")
    new = change(tmp_path / "runs" / "new", run_id="new", started="2026-01-02T00:00:00.000+00:00")
    latest = change(tmp_path / "runs" / "latest", run_id="latest", started="2026-01-03T00:00:00.000+00:00")
    asked = ("compare", "latest", "last-pass", "--out", tmp_path / "runs", *thresholds(PASS), "--json")
    done = specload(*asked)
    assert done.returncode == 2
    assert "last-pass: no run of small" in done.stderr
    for path, word in ((old, "pass"), (new, "fail"), (latest, "pass")):
        (path / "verdict.json").write_text(json.dumps({"verdict": word}))
    found = json.loads(specload(*asked).stdout)
    assert (found["verdict"]["baseline"], found["verdict"]["run_id"]) == ("old", "latest")


def test_compare_needs_an_arm_in_common(specload: Specload, tmp_path: Path) -> None:
    manifest = json.loads((RUN / "manifest.json").read_bytes())
    arms = {"one": manifest["arms"]["baseline"], "two": manifest["arms"]["candidate"]}
    other = change(tmp_path / "others", run_id="others", arms=arms)
    done = specload("compare", RUN, other)
    assert done.returncode == 2
    assert "no arm in common" in done.stderr
