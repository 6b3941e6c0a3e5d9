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
LENGTHS = {"input_len": {"kind": "uniform", "low": 24, "high": 60}, "output_len": {"kind": "fixed", "value": 20}}


@dataclass(frozen=True)
class Ran:
    done: subprocess.CompletedProcess[str]
    found: QualityResult

    def faults(self, arm: str) -> set[str]:
        return {f.id for f in self.found.findings if f.severity == "bad" and f.conditions["arm"] == arm}


def written(folder: Path, urls: dict[str, str], **more: Any) -> Path:
    some = {"prompts_per_task": 3, "samples": 4}
    content: dict[str, Any] = {
        "version": 1,
        "name": "quality",
        "environment": "disposable",
        "seed": 7,
        "arms": {arm: {"url": url} for arm, url in urls.items()},
        "workload": {"tasks": [{"task_type": task, **LENGTHS} for task in ("code", "short_qa")]},
        # a random model's tokens are almost alike: a few of them are enough to tell distributions apart
        "sampling": {"top_k": 8},
        "load": [{"kind": "concurrency", "concurrency": 4, "cases": 40}],
        "comparison": {"blocks": 1},
        "scrape": {"interval_s": 1},
        "quality": {
            "cases_per_task": 8,
            "known_answers": {"built_in": False},
            "sampled": some,
            "second_tokens": {"prompts": 2, "samples": 150},
        },
    }
    file = folder / "quality.yaml"
    file.write_text(yaml.safe_dump({**content, **more}, sort_keys=False))
    return file


def quality(file: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "loadgen", "quality", str(file), "--out", str(file.parent / "runs")]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


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
