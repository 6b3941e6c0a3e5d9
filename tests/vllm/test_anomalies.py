"""The whole catalogue against a real vLLM: it answers as docs/anomalies.md says, and stays healthy."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from loadgen.analyze import AccessResult, AnomaliesResult
from loadgen.experiment import RunOptions, RunResult, run_experiment
from loadgen.scenario import LoadedScenario, Scenario
from server_adapters.launch import LaunchedServer
from tests.experiment.anomalies.conftest import Quiet

pytestmark = pytest.mark.vllm

ANSWERS = Path(__file__).resolve().parents[1] / "data" / "anomalies" / "vllm_0.32.json"


def ran(tmp_path: Path, document: dict[str, Any]) -> RunResult:
    loaded = LoadedScenario(Scenario.model_validate({"version": 1, "name": "real", **document}), None, "0" * 64)
    return asyncio.run(run_experiment(loaded, RunOptions(tmp_path), Quiet()))


@pytest.mark.timeout(900)
def test_the_catalogue_leaves_it_healthy(vllm_draft: LaunchedServer, tmp_path: Path) -> None:
    """J1, J5, A25, H10, H20: right answers, known-good probes, witnesses untouched; the answers of the docs."""
    lengths = {"input_len": {"kind": "fixed", "value": 24}, "output_len": {"kind": "fixed", "value": 8}}
    result = ran(
        tmp_path,
        {
            "environment": "disposable", "experiment": "anomalies", "arms": {"draft": {"url": vllm_draft.url}},
            "workload": {"endpoint": "completions", "tasks": [{"task_type": "code", **lengths}]},
            "load": [{"kind": "concurrency", "concurrency": 1, "duration_s": 800}],
            "warmup": {"warmup_requests": 2}, "scrape": {"interval_s": 2, "idle_wait_s": 2},
            "anomalies": {
                "before_s": 6, "after_s": 1, "pause_s": 0, "witness_tokens": 8, "witness_concurrency": 1,
                "drafter_max_len": 1024, "probe_s": 120, "answer_s": 120, "abandon_s": 60, "stall_s": 60,
                "latency_ratio": 20,
            },
        },
    )  # fmt: skip
    assert isinstance(result.found, AnomaliesResult)
    (arm,) = result.found.arms
    open_ = ("cannot be judged", "the measurement is invalid", "cross-talk cannot be told")
    assert [reason for reason in result.found.reasons if not any(word in reason for word in open_)] == []
    assert result.state == "finished"
    assert {row.name: row.got for row in arm.rows} == json.loads(ANSWERS.read_text())["answers"]
    assert {row.probe for row in arm.rows} == {"same"}
    assert (arm.witnesses.crossed, arm.witnesses.failed, arm.sent) == (0, 0, arm.chosen)
    assert httpx.get(f"{vllm_draft.url}/health", timeout=30).status_code == 200


def test_what_is_open_in_development_mode(vllm_draft: LaunchedServer, tmp_path: Path) -> None:
    """No key, plain HTTP, development routes: all of it is seen, and nothing of it was asked to do anything."""
    result = ran(tmp_path, {"experiment": "access", "arms": {"draft": {"url": vllm_draft.url}}})
    found = result.found
    assert isinstance(found, AccessResult)
    told = {c.seen.split(":")[0]: c.state for c in found.checks if c.check == "route"}
    assert found.state == "fail"
    assert {told[path] for path in ("/server_info", "/reset_prefix_cache", "/collective_rpc", "/sleep")} == {"fail"}
    assert told["/v1/load_lora_adapter"] == "pass"
    assert {c.check: c.state for c in found.checks if c.check in ("key_missing", "cors", "metrics", "transport")} == {
        "key_missing": "fail", "cors": "pass", "metrics": "warning", "transport": "warning"
    }  # fmt: skip
    assert httpx.get(f"{vllm_draft.url}/health", timeout=30).status_code == 200
