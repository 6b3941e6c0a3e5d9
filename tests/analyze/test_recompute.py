"""The numbers of summary.json, recomputed by docs/recompute.py, which knows nothing of this code."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from loadgen.analyze import Estimates, Query, analyze
from loadgen.record import open_run

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "docs" / "recompute.py"
RUN = ROOT / "tests" / "data" / "runs" / "small"


def recomputed(path: Path) -> dict:
    done = subprocess.run([sys.executable, SCRIPT, path], capture_output=True, text=True, timeout=60, check=True)

    def refuse(text: str) -> float:
        raise AssertionError(text)

    return json.loads(done.stdout, parse_constant=refuse)


def approx(value):
    return value if value is None else pytest.approx(value, rel=1e-9)


def agree(path: Path) -> int:
    """Every number of every arm and stage; returns how many intervals were among them."""
    run = open_run(path)
    summary, estimates, intervals = analyze(run), Estimates(run), 0
    found = recomputed(path)
    assert set(found) == set(estimates.stages())
    for stage, arms in found.items():
        assert set(arms) == set(summary.arms)
        for arm, numbers in arms.items():
            (group,) = [g for g in summary.arms[arm].by if g.stage == stage and g.task_type is None]
            sent = group.stream.ttft_s.all_sent
            assert sent is not None
            if sent.n >= 20:
                assert numbers["ttft_p95_s"] == approx(sent.p95)
            assert numbers["acceptance_rate"] == approx(group.speculation.acceptance_rate.value)
            if arm == "baseline":
                assert numbers["net_throughput"] is None
                continue
            told = estimates.estimate(Query("speedup_net", "value", (("arm", arm), ("stage", stage))))
            assert told.value is not None
            assert numbers["net_throughput"] == [approx(told.value), approx(told.low), approx(told.high)]
            intervals += told.low is not None
    return intervals


def test_a_recorded_run_with_failures_and_whole_answers() -> None:
    """H19: auditable."""
    assert agree(RUN) == 0, "one block: no interval"


def test_a_simulated_comparison_at_five_levels(five_levels, saved) -> None:
    assert agree(saved(five_levels(1.25))) == 5


def test_a_speculating_arm_whose_blocks_drift_together(run, filled, saved) -> None:
    """The interval is wider where blocks are correlated; acceptance is Σ accepted ÷ Σ drafted."""
    run.arm("baseline", speculation=False, k=0)
    run.arm("candidate")
    for b in range(20):
        filled(run, 2 * b, "baseline", b, [0.01] * 2)
        stats = run.speculated([(b % 5, 4), (3, 4)])
        filled(run, 2 * b + 1, "candidate", b, [0.005 * (1 + (b // 5) / 10)] * 2, **stats)
    path = saved(run.data())
    assert agree(path) == 1
    told = Estimates(open_run(path)).estimate(Query("speedup_net", "value", (("arm", "candidate"),)))
    assert "widened" in told.method


def test_it_is_short_and_uses_nothing_of_specload() -> None:
    """H19: what can be read in a minute can be checked."""
    tree = ast.parse(SCRIPT.read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    assert names == {"json", "math", "sys", "pathlib", "numpy", "pyarrow.parquet"}
