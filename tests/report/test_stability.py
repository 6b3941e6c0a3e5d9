"""The section "Stability": what drifts comes first, with its numbers, and what cannot be judged says why."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from loadgen.analyze import DriftFound, N, SeriesTrend, Stability, Summary, analyze
from loadgen.record import open_run
from loadgen.report import render_html, render_terminal
from loadgen.report.stability import sentences

RUN = Path(__file__).resolve().parents[1] / "data" / "runs" / "small"
TEXT = "acceptance_rate fell by 5.00 % (4.00 % to 6.00 %) from 70.00 %, at once, beginning at minute 10.0 (9.8 to 10.3)"


def _series(name: str, unit: str, drift: DriftFound | None = None, reason: str | None = None) -> SeriesTrend:
    slope = N(value=-0.1, low=-0.12, high=-0.08, n=4, source="per_request") if reason is None else None
    return SeriesTrend(
        name=name,
        unit=unit,
        source="per_request",
        n=4 if reason is None else 0,
        mean=0.675 if reason is None else None,
        slope_per_h=slope or N(value=None, n=0, source="none", reason=reason),
        p=0.0001 if drift else None if reason else 0.4,
        correlation=0.1,
        drift=drift,
        reason=reason,
        times_s=[7.5, 22.5, 37.5, 52.5] if reason is None else [],
        values=[0.7, 0.7, 0.65, 0.65] if reason is None else [],
    )


@pytest.fixture(scope="module")
def summary() -> Summary:
    drift = DriftFound(
        shape="jump", start_s=600, start_interval_s=(590, 615), end_s=600, before=0.7, size=-0.05,
        size_interval=(-0.06, -0.04), share=-0.071, worse=True, matters=True, text=TEXT,
    )  # fmt: skip
    small = drift.model_copy(update={"matters": False, "text": "tpot_s rose by 0.01 ms"})
    one = N(value=1.2, low=1.2, high=1.2, n=4, source="client")
    stability = Stability(
        arm="candidate", stage="c4", state="drifting", seconds=1800, windows=120, window_s=15,
        false_alarms_at_most=0.01, failure_rate=one.model_copy(update={"value": 0.001}), jitter=one,
        jitter_between_minutes=one.model_copy(update={"value": 0.02}),
        series=[
            _series("acceptance_rate", "share", drift), _series("tpot_s", "s", small), _series("jitter", "ratio"),
            _series("gpu_memory_bytes", "bytes", reason="no telemetry source"),
        ],
    )  # fmt: skip
    return analyze(open_run(RUN)).model_copy(update={"stability": [stability]})


def test_a_drift_that_matters_is_among_the_first_lines(summary: Summary) -> None:
    assert sentences(summary) == [f"candidate, c4: {TEXT}"]
    console = Console(file=io.StringIO(), width=200, highlight=False)
    render_terminal(summary, console, details=True)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue().replace("\u00a0", " ")
    assert text.index(f"! candidate, c4: {TEXT}") < text.index("This measurement is")
    title = (
        "Stability of candidate in c4: drifting (30.0 min in 120 windows; failure rate 0.1 %, jitter 1.20, between "
        "minutes 2.0 %)"
    )
    assert title in text
    rows = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert "██▁▁" in rows["acceptance_rate"]
    assert "−10.0 %" in rows["acceptance_rate"]
    assert "< 0.001" in rows["acceptance_rate"]
    assert "tpot_s rose by 0.01 ms (too small to matter)" in rows["tpot_s"]
    assert "none shown" in rows["jitter"]
    assert "no telemetry source" in rows["gpu_memory_bytes"]


def test_the_page_has_the_section_only_of_a_soak(summary: Summary) -> None:
    manifest = open_run(RUN).manifest
    page = render_html(summary, manifest)
    assert '<section id="stability"' in page
    assert TEXT in page
    assert '<section id="stability"' not in render_html(analyze(open_run(RUN)), manifest)
