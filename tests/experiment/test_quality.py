"""`specload quality` on rehearsal engines: every fault is found and named, a healthy arm passes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from loadgen.analyze import QualityResult
from server_adapters.rehearsal.config import RehearsalConfig

ROOT = Path(__file__).resolve().parents[2]
SPEC, NOISE = "draft:k=4", 0.02
#: Arm -> its fault; every arm has numerics that flip near ties from run to run.
ARMS: dict[str, tuple[str, ...]] = {
    "baseline": (),
    "healthy": (),
    "junk": ("junk_after_stop",),
    "early": ("early_stop:at_tokens=6",),
    "looping": ("loop",),
    "garbled": ("garble",),
    "talking": ("cross_talk:share=0.7",),
    "template": ("wrong_template",),
}
NAMED = {
    "junk": "text_after_stop",
    "early": "early_stop",
    "looping": "looping",
    "garbled": "garbled",
    "talking": "differs_more_than_noise",
    "template": "wrong_template",
}


@dataclass(frozen=True)
class Ran:
    done: subprocess.CompletedProcess[str]
    path: Path
    found: QualityResult

    def faults(self, arm: str) -> set[str]:
        return {f.id for f in self.found.findings if f.severity == "bad" and f.conditions["arm"] == arm}

    def state(self, arm: str) -> str:
        return next(a.state for a in self.found.arms if a.arm == arm)


def asked(file: Path, *options: str) -> Ran:
    command = [sys.executable, "-m", "loadgen", "quality", str(file), "--out", str(file.parent / file.stem), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.returncode in (0, 98, 99), done.stderr
    (path,) = (file.parent / file.stem).iterdir()
    return Ran(done, path, QualityResult.model_validate_json((path / "quality.json").read_bytes()))


def written(folder: Path, name: str, urls: dict[str, str], **quality: Any) -> Path:
    lengths = {"input_len": {"kind": "uniform", "low": 30, "high": 80}, "output_len": {"kind": "fixed", "value": 64}}
    content = {
        "version": 1,
        "name": name,
        "environment": "disposable",
        "seed": 5,
        "arms": {arm: {"url": url} for arm, url in urls.items()},
        "workload": {"tasks": [{"task_type": task, **lengths} for task in ("short_qa", "long_form")]},
        "load": [{"kind": "concurrency", "concurrency": 8, "cases": 160}],
        "comparison": {"blocks": 1},
        "scrape": {"interval_s": 1, "idle_wait_s": 5},
        "quality": {"max_tokens": 64, **quality},
    }
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    return file


Serve = Callable[[RehearsalConfig], AbstractContextManager[str]]


@pytest.fixture(scope="module")
def many(rehearsal: Serve, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """One run over all arms."""
    with ExitStack() as stack:
        urls = {}
        for n, (arm, faults) in enumerate(ARMS.items()):
            spec = "off" if arm == "baseline" else SPEC
            config = RehearsalConfig(spec=spec, speed=500.0, jitter=0.0, numerics=NOISE, seed=n, faults=faults)
            urls[arm] = stack.enter_context(rehearsal(config))
        some = {"prompts": 2, "samples": 120}
        file = written(
            tmp_path_factory.mktemp("many"), "many", urls, cases_per_task=14, sampled=None, second_tokens=some,
            known_answers={"built_in": False}, reasks=2000,
        )  # fmt: skip
        yield asked(file)


@pytest.mark.parametrize(("arm", "fault"), NAMED.items())
def test_each_fault_is_found_and_named(many: Ran, arm: str, fault: str) -> None:
    """H3: each looks like what it is; H11: with a sampled profile."""
    assert many.state(arm) == "fail"
    assert fault in many.faults(arm)


def test_a_healthy_arm_with_numerics_passes(many: Ran) -> None:
    """H1, H5, H8: near ties flip on both arms, at both loads; they are asked again and are numerics."""
    assert many.faults("healthy") == set()
    assert (many.state("healthy"), [a.reasons for a in many.found.arms if a.arm == "healthy"]) == ("pass", [[]])
    own = [one for one in many.found.loads if one.arm == "healthy"]
    assert {one.load for one in own} == {"greedy", "alone"}
    assert sum(one.floor_kinds.get("near_tie", 0) for one in own) > 0, "the noise is real"
    assert many.found.near_tie_n > 0
    again = many.found.asked_again
    assert (again.asked, again.unanswered) == (again.questions, {})
