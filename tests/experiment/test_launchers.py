"""What a sweep's launcher makes of a point: the arm's own start command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loadgen.errors import TargetUnusable
from loadgen.experiment.launchers import with_launcher
from loadgen.scenario import Scenario

FIXED = {"input_len": {"kind": "fixed", "value": 64}, "output_len": {"kind": "fixed", "value": 8}}


def started(launch: dict[str, Any], values: dict[str, Any]) -> Any:
    swept = Scenario.model_validate(
        {
            "version": 1, "name": "s", "arms": {"server": {"url": "http://127.0.0.1:8123"}},
            "workload": {"tasks": [{"task_type": "code", **FIXED}]},
            "load": [{"kind": "concurrency", "concurrency": 1, "cases": 4}],
            "sweep": {"over": {name: [value] for name, value in values.items()}, "launch": launch},
        }
    )  # fmt: skip
    return with_launcher(swept, swept, values).arms["server"]


@pytest.mark.parametrize(("k", "spec"), [(0, "off"), (4, "ngram:k=4")])
def test_a_rehearsal_engine_listens_at_the_arms_url(k: int, spec: str) -> None:
    arm = started({"kind": "rehearsal", "method": "ngram", "options": {"max_num_seqs": 4}}, {"k": k})
    assert arm.start[1:] == ["-m", "server_adapters.rehearsal", "--host", "127.0.0.1", "--port", "8123",
                             "--spec", spec, "--max-num-seqs", "4"]  # fmt: skip
    assert (arm.stop, arm.start_timeout_s) == (None, 60.0)


def test_a_gpu_vllm_gets_its_config_with_this_k() -> None:
    config = {"method": "eagle3", "model": "org/draft"}
    launch = {"kind": "vllm", "model": "org/name", "python": "/opt/vllm/bin/python", "speculative_config": config,
              "args": ["--tensor-parallel-size", "2"], "env": {"A": "b"}}  # fmt: skip
    arm = started(launch, {"k": 3})
    assert arm.start[:3] == ["env", "A=b", "/opt/vllm/bin/python"]
    assert arm.start[arm.start.index("--port") + 1] == "8123"
    told = arm.start[arm.start.index("--speculative-config") + 1]
    assert told == '{"method": "eagle3", "model": "org/draft", "num_speculative_tokens": 3}'
    assert arm.start[-2:] == ["--tensor-parallel-size", "2"]
    assert "--speculative-config" not in started(launch, {"k": 0}).start


def test_commands_know_their_point() -> None:
    """A text stays a text and a list a list; nothing of the point is put into the command itself."""
    launch = {
        "kind": "command",
        "start": "serve --k $SPECLOAD_K",
        "stop": ["kill-it", "now"],
        "health_url": "http://h/ok",
    }
    arm = started(launch, {"k": 2, "task_type": "code"})
    assert arm.start == "export SPECLOAD_K=2 SPECLOAD_TASK_TYPE=code; serve --k $SPECLOAD_K"
    assert arm.stop == ["env", "SPECLOAD_K=2", "SPECLOAD_TASK_TYPE=code", "kill-it", "now"]
    assert arm.health_url == "http://h/ok"


def test_without_k_on_an_axis_the_launchers_own_holds() -> None:
    arm = started({"kind": "rehearsal", "k": 5}, {"temperature": 0.5})
    assert "draft:k=5" in arm.start


def test_a_cpu_vllm_that_is_not_set_up_is_an_unusable_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECLOAD_CACHE", str(tmp_path))
    with pytest.raises(TargetUnusable, match=r"scripts/setup_vllm_cpu\.sh"):
        started({"kind": "vllm", "cpu": True}, {"k": 0})
