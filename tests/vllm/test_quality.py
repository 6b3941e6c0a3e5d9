"""`specload quality` on real vLLM: speculation off, prompt look-up and a draft model, greedy and sampled."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from loadgen.analyze import QualityResult
from server_adapters.launch import LaunchedServer

pytestmark = pytest.mark.vllm

METHODS = ("ngram", "draft_model")
LENGTHS = {"input_len": {"kind": "uniform", "low": 24, "high": 60}, "output_len": {"kind": "fixed", "value": 20}}


@dataclass(frozen=True)
class Ran:
    done: subprocess.CompletedProcess[str]
    found: QualityResult

    def faults(self, arm: str) -> set[str]:
        return {f.id for f in self.found.findings if f.severity == "bad" and f.conditions["arm"] == arm}


def written(folder: Path, urls: dict[str, str], **more: Any) -> Path:
    content: dict[str, Any] = {
        "version": 1,
        "name": "quality",
        "environment": "disposable",
        "seed": 7,
        # a server without development routes does not tell its method
        "arms": {arm: {"url": url} | ({"spec_method": arm} if arm in METHODS else {}) for arm, url in urls.items()},
        "workload": {"tasks": [{"task_type": task, **LENGTHS} for task in ("code", "short_qa")]},
        "load": [{"kind": "concurrency", "concurrency": 8, "cases": 40}],
        "comparison": {"blocks": 1},
        "scrape": {"interval_s": 1},
        "quality": {
            "cases_per_task": 4,
            "known_answers": {"built_in": False},
            # a random model's tokens are almost alike: at a low temperature there are few of them; for its first log
            # probabilities a server compiles, which takes minutes where the processor is busy
            "sampled": {"prompts_per_task": 4, "samples": 8, "temperature": 0.2, "logprobs": False},
            "second_tokens": {"prompts": 2, "samples": 120, "temperature": 0.2},
        },
    }
    file = folder / "quality.yaml"
    file.write_text(yaml.safe_dump({**content, **more}, sort_keys=False))
    return file


def quality(file: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "loadgen", "quality", str(file), "--out", str(file.parent / "runs")]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def three(
    vllm_off: LaunchedServer,
    vllm_ngram: LaunchedServer,
    vllm_draft: LaunchedServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Ran:
    folder = tmp_path_factory.mktemp("quality")
    urls = {"baseline": vllm_off.url, "ngram": vllm_ngram.url, "draft_model": vllm_draft.url}
    done = quality(written(folder, urls))
    assert done.returncode in (0, 98, 99), done.stderr
    (path,) = (folder / "runs").iterdir()
    return Ran(done, QualityResult.model_validate_json((path / "quality.json").read_bytes()))


def test_greedy_answers_are_the_baselines(three: Ran) -> None:
    """H1, H2, H5: at both loads, the known divergence among them; what differs at all is a near tie."""
    assert {(one.arm, one.load) for one in three.found.loads} == {
        (arm, load) for arm in ("ngram", "draft_model") for load in ("greedy", "alone")
    }  # fmt: skip
    for one in three.found.loads:
        assert one.kinds.keys() | one.floor_kinds.keys() <= {"identical", "near_tie"}, one
        assert (one.cases, one.without) == (9, 0)
    again = three.found.asked_again
    assert (again.asked, again.unanswered) == (again.questions, {})


@pytest.mark.parametrize("arm", ["ngram", "draft_model"])
def test_broken_sampling_with_speculation_is_found(three: Ran, arm: str) -> None:
    """H11: vllm-project/vllm issue 55005: on the CPU, temperature and truncation of drafted positions are chance."""
    assert "sampling" in three.faults(arm)
    assert next(a.state for a in three.found.arms if a.arm == arm) == "fail"
    assert three.done.returncode == 99
    (found,) = [f for f in three.found.findings if f.id == "sampling" and f.conditions["arm"] == arm]
    assert "all 9 greedy cases agree" in found.text


def test_acceptance_is_compared_case_by_case(three: Ran) -> None:
    """D29: greedy answers asked again accept as they did."""
    for row in three.found.acceptance:
        assert (row.cases, row.reason) == (9, None)
        assert row.p is not None
        assert row.p > 0.002


def test_parameters_that_speculation_refuses_end_it_before_the_load(
    vllm_off: LaunchedServer, vllm_ngram: LaunchedServer, tmp_path: Path
) -> None:
    """H10: min_p is fine without speculation and refused with it."""
    urls = {"baseline": vllm_off.url, "candidate": vllm_ngram.url}
    done = quality(written(tmp_path, urls, sampling={"temperature": 1.0, "extra": {"min_p": 0.1}}))
    assert done.returncode == 3
    assert "candidate is not comparable: it refuses sampling parameters of the scenario: 400" in done.stderr
    assert "min_p" in done.stderr
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").glob("*/requests*"))
