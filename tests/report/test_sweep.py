"""The terminal report of a sweep: everything it prints stands in the summary."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from loadgen.analyze import PointRun, Summary, SweepSummary, analyze, analyze_sweep
from loadgen.plan import SweepPlan, SweepPoint
from loadgen.record import open_run
from loadgen.report import render_sweep_terminal, sparkline

SMALL = Path(__file__).resolve().parents[1] / "data" / "runs" / "small"
LEVELS = (1, 4)


@pytest.fixture(scope="module")
def summary() -> SweepSummary:
    """Two levels of a recorded run of two arms, one at each, and one that failed."""
    recorded: Summary = analyze(open_run(SMALL))
    points = tuple(SweepPoint(i, {"concurrency": n}, i == 0, 0, 0) for i, n in enumerate((*LEVELS, 9)))
    plan = SweepPlan({"concurrency": [*LEVELS, 9]}, {"concurrency": 1}, points, (0, 1, 2), "h")
    made = [PointRun(i, points[i], "candidate", "done", None, f"points/{i}", "r", 1.0, 9.0, recorded) for i in (0, 1)]
    made.append(PointRun(2, points[2], "candidate", "failed", "server [red]gone[/red]", None, None, 3.0, 1.0))
    return analyze_sweep(plan, made, sweep_id="sw", name="n", objective="latency", seconds=60.0, no_search="no search")


def shown(summary: SweepSummary) -> str:
    out = StringIO()
    render_sweep_terminal(summary, Console(file=out, width=160))
    return out.getvalue()


def test_curves_stand_with_their_levels_and_sparklines(summary: SweepSummary) -> None:
    text = shown(summary)
    (curve,) = [c for c in summary.curves if c.metric == "net_tokens_per_s" and c.arm == "candidate"]
    line = next(row for row in text.splitlines() if row.strip().startswith("net tokens/s") and "candidate" in row)
    assert sparkline([p.value.value for p in curve.points]).strip() in line
    assert f"{curve.points[0].value.value:,.0f}" in line
    assert "baseline point: concurrency 1" in text


def test_failures_and_reasons_are_said_as_they_are(summary: SweepSummary) -> None:
    text = shown(summary)
    assert "1 of 3 visits failed" in text
    assert "server [red]gone[/red]" in text, "what a server said is no markup"
    assert "max_rate: no search" in text
    assert "best_k: k is no axis" in text


def test_a_grid_of_many_settings_is_cut_and_says_so(summary: SweepSummary) -> None:
    many = summary.model_copy(update={"curves": summary.curves * 9, "findings": summary.findings * 30})
    text = shown(many)
    assert "more in sweep_summary.json" in text
    assert "more findings in sweep_summary.json" in text
