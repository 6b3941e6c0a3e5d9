"""The kill-switch drill between two real vLLM servers behind a real nginx: nobody is lost, and it is seen when."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from loadgen.analyze import DrillResult
from loadgen.experiment import RunOptions, run_experiment
from loadgen.report import RunProgress, render_experiment
from loadgen.scenario import load_scenario
from server_adapters.launch import LaunchedServer
from tests.nginx import gateway

pytestmark = pytest.mark.vllm


async def test_between_two_servers(
    vllm_draft: LaunchedServer, vllm_off: LaunchedServer, program: Callable[[str], str], free_port: Callable[[], int],
    tmp_path: Path,
) -> None:  # fmt: skip
    (tmp_path / "nginx").mkdir()
    with gateway(tmp_path / "nginx", program("nginx"), free_port(), vllm_draft.url, vllm_off.url) as front:
        lengths = {"input_len": {"kind": "fixed", "value": 48}, "output_len": {"kind": "fixed", "value": 24}}
        document = {
            "version": 1,
            "name": "real-drill",
            "environment": "disposable",
            "experiment": "drill",
            "arms": {"gateway": front.arm()},
            "workload": {"endpoint": "completions", "tasks": [{"task_type": "code", **lengths}]},
            "sampling": {"ignore_eos": True},
            "load": [{"kind": "arrival_rate", "rate_per_s": 4, "arrivals": "uniform", "duration_s": 13}],
            "warmup": {"warmup_requests": 2},
            "scrape": {"idle_wait_s": 5},
            "drill": front.drill(before_s=2, after_s=6, back_s=4, window_requests=5),
        }
        file = tmp_path / "drill.yaml"
        file.write_text(yaml.safe_dump(document, sort_keys=False))
        said = Console(width=200)
        result = await run_experiment(
            load_scenario(file), RunOptions(tmp_path / "runs", workers=1), RunProgress(Console(quiet=True))
        )
    found = result.found
    assert isinstance(found, DrillResult)
    render_experiment(found, said)
    off, on = found.pulls
    assert (off.losses.lost, on.losses.lost) == (0, 0), found.reasons
    assert found.state != "fail", found.reasons
    assert (off.ok, on.ok, found.known_by) == (True, True, "header")
    assert off.routed.fallback_after_last >= 5
    assert off.last_routed_s is not None
    assert off.last_routed_s.value is not None
    assert off.last_round_s is not None
    assert off.last_round_s.high is not None, "real counters of rounds stood still"
    assert on.acceptance_s is not None
    assert on.acceptance_s.high is not None
    assert on.acceptance_s.source == "statistics", "the real server's own per-request statistics"
