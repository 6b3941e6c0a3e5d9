"""Speculation off, prompt look-up and a draft model beside each other on real vLLM, from the command line."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from loadgen.analyze import ComparisonRow, Estimates, Query, Summary
from loadgen.record import RunData, open_run
from server_adapters.launch import LaunchedServer

pytestmark = pytest.mark.vllm

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "recompute.py"
BLOCKS, CASES, K = 6, 48, 4


def python(*args: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *map(str, args)], capture_output=True, text=True, timeout=200)


@dataclass(frozen=True)
class Ran:
    done: subprocess.CompletedProcess[str]
    path: Path
    run: RunData
    summary: Summary
    verdict: dict[str, Any]

    def rows(self) -> list[ComparisonRow]:
        """Of the whole stage, one a candidate."""
        assert isinstance(self.summary.comparison, list)
        return [r for r in self.summary.comparison if (r.task_type, r.input_segment, r.output_segment) == (None,) * 3]


@pytest.fixture(scope="module")
def three(
    vllm_off: LaunchedServer,
    vllm_ngram: LaunchedServer,
    vllm_draft: LaunchedServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Ran:
    lengths = {"input_len": {"kind": "uniform", "low": 24, "high": 64}, "output_len": {"kind": "fixed", "value": 24}}
    content = {
        "version": 1,
        "name": "three",
        "environment": "disposable",
        "seed": 11,
        "arms": {
            "baseline": {"url": vllm_off.url, "speculation": "off"},
            "ngram": {"url": vllm_ngram.url, "speculation": "on"},
            "draft_model": {"url": vllm_draft.url, "speculation": "on"},
        },
        "workload": {"endpoint": "completions", "tasks": [{"task_type": "code", **lengths}]},
        "load": [{"kind": "concurrency", "concurrency": 2, "cases": CASES}],
        "repeats": 1,
        "comparison": {"blocks": BLOCKS},
        "warmup": {"warmup_requests": 4},
        "scrape": {"interval_s": 0.5},
    }
    folder = tmp_path_factory.mktemp("three")
    (folder / "three.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    done = python("-m", "loadgen", "run", folder / "three.yaml", "--out", folder / "runs")
    assert done.returncode in (0, 98, 99), done.stderr
    (path,) = [p for p in (folder / "runs").iterdir() if p.is_dir()]
    summary = Summary.model_validate_json((path / "summary.json").read_bytes())
    return Ran(done, path, open_run(path), summary, json.loads((path / "verdict.json").read_bytes()))


def test_it_ends_with_a_verdict_on_both_candidates(three: Ran) -> None:
    """Six blocks are few: no percentile can be told, so nothing passes; the exit code is the verdict's."""
    assert three.summary.finished
    assert three.done.returncode == {"pass": 0, "fail": 99, "inconclusive": 98}[three.verdict["verdict"]]
    assert three.verdict["verdict"] != "pass"
    assert (three.verdict["design"], three.verdict["paired"]) == ("interleaved", True)
    judged = [(t["metric"], t["arm"]) for t in three.verdict["thresholds"]]
    assert judged == [(m, a) for m in ("speedup", "ttft_s", "tpot_s", "total_time_s") for a in ("ngram", "draft_model")]
    assert [o for o in three.verdict["obstacles"] if o.startswith("environment")] == [], "one vLLM, three speculations"
    assert f"VERDICT: {three.verdict['verdict'].upper()}" in three.done.stdout
    page = (three.path / "report.html").read_text(encoding="utf-8")
    assert all(name in page for name in ("ngram", "draft_model", "Verdict"))


def test_all_arms_take_turns_over_the_same_cases(three: Ran) -> None:
    """One interleaved window: in every block each arm has the same cases; within three blocks it has every place."""
    phases = sorted((p for p in three.run.phases if p.phase == "measure"), key=lambda p: p.started_ns)
    turns = [tuple(p.arm for p in phases[i : i + 3]) for i in range(0, 3 * BLOCKS, 3)]
    assert all(set(turn) == {"baseline", "ngram", "draft_model"} for turn in turns)
    for place in range(3):
        for group in (turns[:3], turns[3:]):
            assert len({turn[place] for turn in group}) == 3
    asked: dict[tuple[int, str], set[str]] = {}
    for row in three.run.requests.to_pylist():
        if row["phase"] == "measure":
            assert row["outcome"] == "ok"
            asked.setdefault((row["block"], row["arm"]), set()).add(row["case_id"])
    assert len(asked) == 3 * BLOCKS
    for block in range(BLOCKS):
        assert asked[block, "baseline"] == asked[block, "ngram"] == asked[block, "draft_model"]
        assert len(asked[block, "baseline"]) == CASES // BLOCKS


def test_rows_of_both_candidates_are_plausible(three: Ran) -> None:
    """C17: E of at most k + 1 tokens a step; E ÷ c is the decode speedup; every interval holds its value."""
    rows = three.rows()
    assert [(r.candidate, r.baseline, r.blocks) for r in rows] == [
        ("ngram", "baseline", BLOCKS), ("draft_model", "baseline", BLOCKS)
    ]  # fmt: skip
    for row in rows:
        e, c, decode, speedup = row.e_decode, row.c, row.speedup_decode, row.speedup.value
        for found in (e, c, decode, speedup):
            assert found.value is not None
            assert found.low is not None
            assert found.high is not None
            assert 0 < found.low <= found.value <= found.high
        assert e.value is not None
        assert c.value is not None
        assert 1 < e.value <= K + 1, "both draft, and some of it is accepted"
        assert e.reason == c.reason, "both are of the same cases"
        whole = e.reason is None or "left out" not in e.reason
        assert decode.value == pytest.approx(e.value / c.value, rel=1e-9 if whole else 0.1), e.reason
        assert speedup.value is not None
        assert speedup.value < 2 * (K + 1)
        assert row.acceptance_rate.value is not None
        assert 0 <= row.acceptance_rate.value <= 1
        assert row.rollback_rate.value is None or 0 <= row.rollback_rate.value <= 1
        assert row.requests == CASES


def test_a_page_of_python_gives_the_same_numbers(three: Ran) -> None:
    """H19: auditable from the run directory alone."""
    done = python(SCRIPT, three.path)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout).values()
    assert set(found) == {"baseline", "ngram", "draft_model"}
    estimates = Estimates(three.run)
    for arm, numbers in found.items():
        (group,) = [g for g in three.summary.arms[arm].by if g.stage is not None and g.task_type is None]
        assert group.stream.ttft_s.all_sent is not None
        assert numbers["ttft_p95_s"] == pytest.approx(group.stream.ttft_s.all_sent.p95, rel=1e-9)
        if arm == "baseline":
            assert (numbers["acceptance_rate"], numbers["net_throughput"]) == (None, None)
            continue
        assert numbers["acceptance_rate"] == pytest.approx(group.speculation.acceptance_rate.value, rel=1e-9)
        told = estimates.estimate(Query("speedup_net", "value", (("arm", arm),)))
        assert numbers["net_throughput"] == pytest.approx([told.value, told.low, told.high], rel=1e-9)
    for row in three.rows():
        assert row.speedup.value.value is not None
        assert math.isclose(row.speedup.value.value, found[row.candidate]["net_throughput"][0], rel_tol=1e-9)
