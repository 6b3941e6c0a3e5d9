"""A slow candidate on the rehearsal engine: the run ends early, keeps what it measured, and is judged by it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from loadgen.control import live
from loadgen.record import open_run
from server_adapters.rehearsal.config import RehearsalConfig

TheRun = Callable[[], tuple[Path, dict[str, Any]]]


def write(folder: Path, threshold: dict[str, Any], arms: dict[str, str]) -> Path:
    content = {
        "version": 1,
        "name": "slow-candidate",
        "environment": "disposable",
        "arms": {name: {"url": url} for name, url in arms.items()},
        "workload": {
            "tasks": [
                {
                    "task_type": "short_qa",
                    "input_len": {"kind": "fixed", "value": 32},
                    "output_len": {"kind": "fixed", "value": 12},
                }
            ]
        },
        "load": [{"kind": "concurrency", "concurrency": 4, "cases": 2400}],
        "repeats": 1,
        "comparison": {"blocks": 100},
        "warmup": {"warmup_requests": 4},
        "scrape": {"idle_wait_s": 2},
        "thresholds": [threshold],
    }
    file = folder / "slow.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file


def test_a_slow_candidate_ends_the_run(
    the_run: TheRun,
    tmp_path: Path,
    rehearsal: Callable[[RehearsalConfig], Any],
    specload: Callable[..., Any],
    forked_children: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """F14, F16: three failing windows; the records are whole, the verdict says fail or that it is not shown. How long a
    window is stands in tests/control/test_live.py: here it is a second."""
    monkeypatch.setattr(live, "WINDOW_S", 1.0)
    threshold = {"threshold": "tpot_s: p(50)<=1.3 * baseline", "abort_on_fail": True, "delay_abort_eval_s": 0.5}
    with (
        rehearsal(RehearsalConfig(hardware="h100", speed=12.0)) as fast,
        rehearsal(RehearsalConfig(hardware="h100", speed=3.0)) as slow,
    ):
        file = write(tmp_path, threshold, {"baseline": fast, "candidate": slow})
        done = specload("run", file, "--out", "runs", cwd=tmp_path)
    said = " ".join(done.stderr.split())
    assert "stopping: the threshold tpot_s{arm:candidate}: p(50)<=1.3 * baseline failed in 3 live windows" in said
    path, manifest = the_run()
    assert manifest["state"] == "stopped"
    run = open_run(path)
    rows = run.requests.to_pylist()
    assert 60 < len(rows) < 2400
    assert {row["arm"] for row in rows} == {"baseline", "candidate"}
    assert run.problems == ()
    verdict = json.loads((path / "verdict.json").read_bytes())
    summary = json.loads((path / "summary.json").read_bytes())
    assert summary["verdict"] == verdict
    assert done.returncode == {"fail": 99, "inconclusive": 98}[verdict["verdict"]], said
    assert any(o.startswith("the run did not finish: the threshold tpot_s") for o in verdict["obstacles"])
    (result,) = verdict["thresholds"]
    assert result["value"] > 1.3
    assert specload("gate", path).returncode == done.returncode
