"""A sweep over k = 0 and 2 on real vLLM servers that it starts and stops, from the command line."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from loadgen.analyze import SweepSummary
from loadgen.record import open_run
from server_adapters.launch import VllmCpu

pytestmark = pytest.mark.vllm


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
    return port


def test_two_servers_are_started_measured_and_stopped(vllm_cpu: VllmCpu, tmp_path: Path) -> None:
    port = free_port()
    lengths = {"input_len": {"kind": "uniform", "low": 24, "high": 64}, "output_len": {"kind": "fixed", "value": 24}}
    content = {
        "version": 1,
        "name": "k-vllm",
        "environment": "disposable",
        "seed": 5,
        "arms": {"server": {"url": f"http://127.0.0.1:{port}"}},
        "workload": {"endpoint": "completions", "tasks": [{"task_type": "code", **lengths}]},
        "load": [{"kind": "concurrency", "concurrency": 1, "cases": 24}],
        "warmup": {"warmup_requests": 4},
        "scrape": {"interval_s": 0.5},
        "sweep": {"over": {"k": [0, 2]}, "repeats": 1, "launch": {"kind": "vllm", "cpu": True}},
    }
    (tmp_path / "k.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    command = [sys.executable, "-m", "loadgen", "sweep", str(tmp_path / "k.yaml"), "--out", str(tmp_path / "runs")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    (folder,) = (tmp_path / "runs").glob("*-sweep-k-vllm-*")
    visits = json.loads((folder / "sweep.json").read_bytes())["visits"]
    assert [len(v["attempts"]) for v in visits] == [1, 1], done.stderr
    with socket.socket() as s:
        assert s.connect_ex(("127.0.0.1", port)) != 0, "no server is left"
    last = [v["attempts"][0] for v in visits]
    for visit, attempt in zip(visits, last, strict=True):
        facts = open_run(folder / attempt["directory"]).manifest.arms["server"]
        k = visit["values"]["k"]
        assert (facts.speculation, facts.k or 0) == (k > 0, k), "each server ran as its point says"
        (log,) = (folder / attempt["directory"]).glob("servers/*.log")
        assert "speculative" in log.read_text() or k == 0
    starved = [a for a in last if a["state"] == "failed"]
    assert all(a["reason"].startswith("invalid: ") for a in starved), starved
    assert done.returncode == (98 if starved else 0), done.stderr
    if not starved:
        _found(SweepSummary.model_validate_json((folder / "sweep_summary.json").read_bytes()), done.stdout)


def _found(summary: SweepSummary, told: str) -> None:
    """C17: E of at most k + 1; with k = 0 for comparison there is a best k, and the numbers stand on stdout."""
    at2 = next(p for p in summary.points if p.values["k"] == 2)
    assert at2.e_decode is not None
    assert at2.speedup is not None
    assert 1 < (at2.e_decode.value or 0) <= 3
    assert (at2.speedup.value or 0) > 0
    (best,) = summary.best_k
    assert best.k in (0, 2)
    assert best.sentence in told.replace("\n", " ")
