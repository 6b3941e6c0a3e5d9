"""The section sweep: what it may say, and what it must fit to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loadgen.scenario import Scenario, launched_arm

Build = Callable[[dict[str, Any]], Scenario]
Refused = Callable[[dict[str, Any]], list[str]]
REHEARSAL = {"kind": "rehearsal"}


def test_the_baseline_point_is_off_and_the_smallest_of_everything(build: Build) -> None:
    over = {"concurrency": [8, 2], "k": [4, 2], "temperature": [0.7, 0.0]}
    sweep = build({"sweep": {"over": over, "launch": REHEARSAL}}).sweep
    assert sweep is not None
    assert sweep.axes == {"concurrency": [8, 2], "k": [0, 4, 2], "temperature": [0.7, 0.0]}
    assert sweep.baseline_values == {"concurrency": 2, "k": 0, "temperature": 0.0}


def test_a_baseline_of_its_own(build: Build) -> None:
    sweep = build({"sweep": {"over": {"k": [4, 2]}, "baseline": {"k": 2}, "launch": REHEARSAL}}).sweep
    assert sweep is not None
    assert (sweep.axes, sweep.baseline_values) == ({"k": [4, 2]}, {"k": 2})


@pytest.mark.parametrize(
    ("sweep", "problem"),
    [
        ({"over": {}}, "sweep.over: needs at least one axis"),
        ({"over": {"k": [0, 4]}}, "sweep.over.k: needs launch"),
        ({"over": {"concurrency": [1], "rate": [1.0]}}, "sweep.over.rate: contradicts concurrency"),
        ({"over": {"concurrency": [2, 4, 2]}}, "sweep.over.concurrency.2: 2 is in the list twice"),
        ({"over": {"rate": [1.0]}}, "sweep.over.rate: needs a stage of that kind"),
        ({"over": {"task_type": ["code", "chat"]}}, 'sweep.over.task_type.1: "chat" is no task'),
        ({"over": {"concurrency": [1]}, "baseline": {"concurrency": 3}}, "sweep.baseline.concurrency: 3 is not in"),
        ({"over": {"k": [0, 2]}, "arms_by_k": ["baseline"]}, "sweep.arms_by_k: needs one arm for each of the 2"),
        ({"over": {"k": [0, 2]}, "arms_by_k": ["baseline", "two"]}, 'sweep.arms_by_k.1: "two" is no arm'),
        ({"over": {"k": [2]}, "launch": {**REHEARSAL, "arm": "x"}}, 'sweep.launch.arm: "x" is no arm'),
        ({"over": {"k": [2]}, "launch": {"kind": "vllm"}}, "sweep.launch.model: is missing"),
        ({"over": {"k": [2]}, "launch": {"kind": "vllm", "cpu": True, "model": "m"}}, "contradicts cpu: true"),
        (
            {"over": {"concurrency": [1]}, "max_rate": {"low": 4.0, "high": 2.0, "slo": ["ttft_s: p(95)<0.5"]}},
            "sweep.max_rate.low: must be below high",
        ),
        (
            {"over": {"concurrency": [1]}, "max_rate": {"low": 1.0, "high": 2.0, "slo": ["ttft: fast"]}},
            "sweep.max_rate.slo.0: ",
        ),
        ({"over": {"concurrency": list(range(1, 102))}, "repeats": 100}, "10,100 runs are asked for"),
    ],
)
def test_what_does_not_fit_is_refused(sweep: dict[str, Any], problem: str, refused: Refused) -> None:
    found = refused({"sweep": sweep})
    assert any(problem in one for one in found), found


def test_a_load_of_two_stages_has_no_one_setting(refused: Refused) -> None:
    two = [{"kind": "concurrency", "concurrency": n, "cases": 20} for n in (1, 2)]
    found = refused({"load": two, "sweep": {"over": {"temperature": [0.0]}}})
    assert found == ["sweep.over: needs a load of one stage, whose setting it changes (there are 2)"]


def test_own_prompts_have_their_length(refused: Refused, tmp_path: Any) -> None:
    (tmp_path / "p.jsonl").write_text('{"prompt": "a", "max_tokens": 4}\n')
    changes = {"workload.tasks": [{"task_type": "code", "prompts": "p.jsonl"}], "sweep": {"over": {"input_len": [8]}}}
    assert refused(changes) == ["sweep.over.input_len: cannot replace those of code, which has own prompts"]


def test_levels_stay_below_the_caps(refused: Refused) -> None:
    found = refused({"environment": "production", "sweep": {"over": {"concurrency": [4, 65]}}})
    assert found == ["sweep.over.concurrency.1: 65 is above the cap of safety (64): lower it, or raise the cap"]


def test_a_server_is_started_at_a_port(refused: Refused) -> None:
    found = refused({"arms.baseline.url": "https://host", "sweep": {"over": {"k": [2]}, "launch": REHEARSAL}})
    assert found == ["sweep.launch.arm: baseline: url must be http:// with a port: the server is started there"]


def test_the_only_arm_is_the_one_that_is_started(build: Build) -> None:
    assert launched_arm(build({"sweep": {"over": {"k": [2]}, "launch": REHEARSAL}})) == "baseline"
