"""`specload quality` on rehearsal engines: every fault is found and named, a healthy arm passes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest
import yaml

from loadgen.analyze import QualityResult
from server_adapters.rehearsal.config import RehearsalConfig

ROOT = Path(__file__).resolve().parents[2]
#: Noise of every logit, nat: of a gap 0.02, so that what flips is hardly ever beyond METHOD's 0.1 nat.
SPEC, NOISE = "draft:k=4", 0.014
#: Arm -> its own: margins of up to half a nat, that flip far more than the baseline's do.
COARSE = {"coarse": 0.12}
#: Arm -> its fault; every arm has numerics that flip near ties from run to run.
ARMS: dict[str, tuple[str, ...]] = {
    "baseline": (),
    "healthy": (),
    "coarse": (),
    "junk": ("junk_after_stop",),
    "early": ("early_stop:at_tokens=6",),
    "looping": ("loop",),
    "garbled": ("garble",),
    "talking": ("cross_talk:at_tokens=4",),
    "template": ("wrong_template",),
}
#: An arm whose drafter is said to learn from answers.
LEARNING = "junk"
NAMED = {
    "junk": {"text_after_stop"},
    "early": {"early_stop"},
    "looping": {"looping"},
    "garbled": {"garbled"},
    # what it looks like depends on who was served: another's answer may also end at once, or go on where this one ends
    "talking": {"garbled", "divergent", "differs_more_than_noise", "early_stop", "text_after_stop"},
    "template": {"wrong_template"},
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
        "arms": {
            arm: {"url": url, **({"spec_method": "suffix"} if arm == LEARNING else {})} for arm, url in urls.items()
        },
        "workload": {"tasks": [{"task_type": task, **lengths} for task in ("short_qa", "long_form")]},
        "load": [{"kind": "concurrency", "concurrency": 8, "cases": 160}],
        "comparison": {"blocks": 1},
        "scrape": {"interval_s": 1, "idle_wait_s": 5},
        "quality": {"max_tokens": 48, **quality},
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
            # crossed are requests that are there together: at full speed each may be over before the next has come
            speed = 40.0 if arm == "talking" else 500.0
            noise = COARSE.get(arm, NOISE)
            config = RehearsalConfig(spec=spec, speed=speed, jitter=0.0, numerics=noise, seed=n, faults=faults)
            urls[arm] = stack.enter_context(rehearsal(config))
        some = {"prompts": 2, "samples": 250}
        file = written(
            tmp_path_factory.mktemp("many"), "many", urls, cases_per_task=8, sampled=None, second_tokens=some,
            known_answers={"built_in": False}, reasks=2000,
        )  # fmt: skip
        yield asked(file)


@pytest.mark.parametrize(("arm", "faults"), NAMED.items())
def test_each_fault_is_found_and_named(many: Ran, arm: str, faults: set[str]) -> None:
    """H3: each looks like what it is; H11: with a sampled profile."""
    assert many.state(arm) == "fail"
    assert many.faults(arm) & faults
    unlike = [r for a in many.found.arms if a.arm == arm for r in a.reasons if "not alike in template.ids" in r]
    assert len(unlike) == (arm == "template"), "what the arms' environments tell stands beside it"
    others = {name for named in NAMED.values() for name in named} - faults - {"differs_more_than_noise", "divergent"}
    assert not many.faults(arm) & others


def test_a_healthy_arm_with_numerics_passes(many: Ran) -> None:
    """H1, H5, H8: near ties flip on both arms, at both loads; they are asked again and are numerics."""
    assert many.faults("healthy") == set()
    assert (many.state("healthy"), [a.reasons for a in many.found.arms if a.arm == "healthy"]) == ("pass", [[]])
    own = [one for one in many.found.loads if one.arm == "healthy"]
    assert {one.load for one in own} == {"greedy", "alone"}
    assert sum(one.floor_kinds.get("near_tie", 0) for one in own) > 0, "the noise is real"
    assert many.found.near_tie_n > 0
    (numerics,) = [one for one in many.found.numerics if one.arm == "healthy"]
    assert numerics.positions > 100, "compared where both say the same"
    assert numerics.p99_nat is not None
    assert 0.04 < numerics.p99_nat < 0.14, "of differences of four logits with a noise of 0.014 nat: 2.6 x 0.028"
    assert numerics.near_tie_nat == many.found.near_tie_nat
    assert numerics.sure_nat == pytest.approx(max(2 * numerics.p99_nat, numerics.near_tie_nat))
    again = many.found.asked_again
    assert (again.asked, again.unanswered) == (again.questions, {})


def test_what_a_candidates_numerics_may_have_made_is_neither_pass_nor_fail(many: Ran) -> None:
    """H1, H8: repeatable and no near tie by METHOD's limit, and by no more than the arm differs everywhere."""
    assert (many.state("coarse"), many.faults("coarse")) == ("inconclusive", set())
    shown = [d for d in many.found.differences if d.arm == "coarse"]
    assert {"between"} <= {d.standing for d in shown} <= {"between", "passing", "alike"}
    assert all(d.margin_nat is not None and d.margin_nat > 0.1 for d in shown if d.standing == "between")
    reasons = next(a.reasons for a in many.found.arms if a.arm == "coarse")
    assert "of 17 greedy cases differ repeatably by more than a near tie (0.1 nat)" in reasons[0]
    assert reasons[0].endswith("neither pass nor fail")


def test_differences_are_shown_side_by_side(many: Ran) -> None:
    """H2: the known divergence is asked; H8: with margins where both arms were asked again."""
    out = many.done.stdout
    assert "Where greedy answers part" in out
    assert out.count("▸") >= 2 * len({d.arm for d in many.found.differences})
    early = [d for d in many.found.differences if d.arm == "early"]
    assert {d.token_index for d in early} == {6}
    assert sum(d.standing == "shown" for d in early) >= len(early) - 3, "but for near ties before it"
    shown = next(d for d in many.found.differences if d.arm == "garbled" and d.kind == "divergent")
    assert shown.baseline
    assert shown.margin_nat is not None
    assert shown.baseline != shown.candidate
    page = (many.path / "report.html").read_text(encoding="utf-8")
    assert "Where answers differ, parts of them are in this file" in page
    records = pq.read_table(many.path / "requests.parquet", columns=["case_id", "max_tokens", "temperature", "seed"])
    (h2,) = {tuple(r.values()) for r in records.to_pylist() if r["case_id"] == "serving-48"}
    assert h2 == ("serving-48", 32, 0.0, 42)


def test_the_engines_mode_is_told_and_nothing_claimed_from_temperature_0(many: Ran) -> None:
    """H6, H7: the engine's own word, or that it gives none; what counts is the baseline's measured noise."""
    for arm in ARMS:
        assert many.found.determinism[arm]["kernels.batch_invariant"]["value"] is None
        assert many.found.determinism[arm]["scheduling.max_num_seqs"]["value"] == 256
    (told,) = [f for f in many.found.findings if f.id == "determinism_mode"]
    assert told.text.startswith("temperature 0 is no promise of the same answer")
    assert "baseline: batch invariance not shown" in told.text


def test_acceptance_of_a_drafter_that_learns_is_not_compared(many: Ran) -> None:
    """D29: of the others it is."""
    told = {one.arm: one for one in many.found.acceptance}
    tests = {t.arm: t for t in many.found.tests if t.name == "acceptance"}
    assert {arm for arm, one in told.items() if one.p is None} == {LEARNING}
    for one in (told[LEARNING], tests[LEARNING]):
        assert one.p is None
        assert str(one.reason).startswith("the drafter (suffix) drafts from earlier answers")


def test_a_quality_run_publishes_no_speed(many: Ran) -> None:
    summary = json.loads((many.path / "summary.json").read_bytes())
    for part in ("comparison", "findings", "verdict"):
        assert summary[part]["value"] is None
        assert "their speeds are no result" in summary[part]["reason"]
    for arm in summary["arms"].values():
        assert arm["overall"]["requests"]["sent"] > 0
        assert arm["overall"]["stream"]["ttft_s"]["n"] == 0
        assert all(group["stage"] for group in arm["by"])
    assert not (many.path / "verdict.json").exists()


@dataclass(frozen=True)
class Two:
    """Two runs on the same servers: the candidate lacks its correction step, then it is whole."""

    broken: Ran
    whole: Ran


@pytest.fixture(scope="module")
def two(rehearsal: Serve, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    folder = tmp_path_factory.mktemp("two")
    config = RehearsalConfig(spec=SPEC, speed=2000.0, jitter=0.0, seed=1, faults=("no_correction",))
    with rehearsal(RehearsalConfig(speed=2000.0, jitter=0.0)) as plain, rehearsal(config) as speculating:
        urls = {"baseline": plain, "candidate": speculating}
        # 1600 an arm are found with a power of 0.99 (docs/quality.md, "Power")
        some = {"prompts": 2, "samples": 800, "task_type": "long_form"}
        file = written(
            folder, "broken", urls, cases_per_task=2, sampled=None, second_tokens=some,
            known_answers={"built_in": False},
        )  # fmt: skip
        broken = asked(file, "--no-text")
        httpx.post(f"{speculating}/rehearsal/faults", json={"clear": True}).raise_for_status()
        some, few = {"prompts_per_task": 3, "samples": 3}, {"prompts": 2, "samples": 100}
        file = written(folder, "whole", urls, cases_per_task=2, sampled=some, second_tokens=few)
        yield Two(broken, asked(file, "--reference", str(broken.path)))


def test_a_missing_correction_step_is_found(two: Two) -> None:
    """H11: greedy answers do not show it, 1600 second tokens an arm do; it is named as the sampler's."""
    found = two.broken.found
    assert (two.broken.done.returncode, found.state, two.broken.faults("candidate")) == (99, "fail", {"sampling"})
    assert all(one.kinds.keys() == {"identical"} for one in found.loads)
    (test,) = [t for t in found.tests if t.name == "next_token"]
    assert test.alarm
    assert (test.n_baseline, test.n_candidate) > (1500, 1500)
    assert test.value is not None
    assert test.detectable is not None
    assert test.value > test.detectable


def test_a_healthy_pair_passes_and_says_what_it_could_have_found(two: Two, specload: Any) -> None:
    found, done = two.whole.found, two.whole.done
    assert (done.returncode, found.state, found.reasons) == (0, "pass", [])
    assert {t.name for t in found.tests if t.p is not None} >= {
        "noise_floor", "noise_floor_alone", "known_answers", "length", "token_histogram", "next_token", "acceptance",
    }  # fmt: skip
    assert "with power 0.9" in done.stdout
    assert [(s.asked, s.same) for s in found.same_seed] == [(6, 6), (6, 6)]
    (acceptance,) = found.acceptance
    assert acceptance.reference_run == two.broken.found.run_id
    again = specload("report", two.whole.path, "--json")
    assert json.loads(again.stdout)["found"] == json.loads((two.whole.path / "quality.json").read_bytes())


def test_without_texts_the_numbers_stay(two: Two, specload: Any) -> None:
    path = two.broken.path
    records = pq.read_table(path / "requests.parquet", columns=["text", "prompt", "token_ids", "ttft_s"])
    assert [records[name].null_count for name in ("text", "prompt", "token_ids")] == [records.num_rows] * 3
    assert records["ttft_s"].null_count < records.num_rows
    assert not two.broken.found.text_kept
    assert "No prompt and no answer is in this file" in (path / "report.html").read_text(encoding="utf-8")
    again = specload("report", path)
    assert "quality: FAIL" in again.stdout
    assert "corrected" in again.stdout


def test_parameters_that_are_refused_end_it_before_the_load(rehearsal: Serve, tmp_path: Path, specload: Any) -> None:
    """H10: 400 for the scenario's parameters: not comparable."""
    with rehearsal(RehearsalConfig()) as url:
        file = written(tmp_path, "refused", {"baseline": url, "candidate": url})
        done = specload("quality", file, "--set", "sampling.extra={presence_penalty: 0.5}", "--out", tmp_path / "runs")
    assert done.returncode == 3
    assert "baseline is not comparable: it refuses sampling parameters of the scenario: 400" in done.stderr


def test_one_arm_is_nothing_to_compare(tmp_path: Path, specload: Any) -> None:
    file = written(tmp_path, "one", {"baseline": "http://127.0.0.1:9"})
    done = specload("quality", file)
    assert (done.returncode, "a quality run needs two or more" in done.stderr) == (2, True)
