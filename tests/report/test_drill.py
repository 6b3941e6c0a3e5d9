"""A drill on the terminal and on the page: the same numbers, absence with its reason, the pulls marked."""

from __future__ import annotations

import io

from rich.console import Console

from loadgen.analyze import CourseBin, DrillPull, DrillResult, Losses, Settled
from loadgen.analyze.found.drill import Late, Routed
from loadgen.analyze.summary import N
from loadgen.report import render_experiment
from loadgen.report.drill import drill_figures, drill_tables


def made() -> DrillResult:
    losses = Losses(
        ended=32, in_flight=2, ok=29, lost=1, lost_most=3, by_outcome={"truncated": 1}, by_status={}, cut=1, aborted=2,
        client_faults=0, first_s=0.2, last_s=0.2, before=30, lost_before=0, examples=["reset by \x1b[2Jpeer"],
    )  # fmt: skip
    settled = [
        Settled(metric="ttft_s", at_s=N(value=1.5, low=1.5, high=2.5, n=32, source="client"), low=0.04, high=0.05,
                median=0.045, n=16, late=Late(after_s=1.0, median=0.2, n=8, p=0.0001, reason=None)),
        Settled(metric="tpot_s", at_s=N(value=None, n=3, source="client", reason="not enough data"), low=None,
                high=None, median=None, n=3),
    ]  # fmt: skip
    pull = DrillPull(
        number=0, direction="off", at_s=1.0, until_s=1.0, took_s=0.1, ok=True, said="done",
        routed=Routed(speculating=1, fallback=31, unknown=0, fallback_after_last=31, unknown_after_last=0),
        last_routed_s=N(value=0.25, low=0.25, high=0.5, n=32, source="header"),
        last_token_s=N(value=0.6, low=0.6, high=0.6, n=3, source="header"),
        last_round_s=N(value=None, low=0.2, high=0.4, n=50, source="counters", reason="known from one scrape"),
        settled=settled, longest_ttft_s=N(value=0.5, n=31, source="client"), losses=losses,
    )  # fmt: skip
    pieces = [
        CourseBin(from_s=i / 2, to_s=i / 2 + 0.5, speculating=4 if i < 2 else 0, fallback=0 if i < 2 else 4, unknown=0,
                  lost=int(i == 2), ttft_s=0.04, tpot_s=None, accepted_per_s=80.0 if i < 2 else 0.0)
        for i in range(4)
    ]  # fmt: skip
    return DrillResult(
        run_id="r", state="fail", reasons=["1 of 32 requests were lost"], findings=[], conditions={},
        known_by="header", known_note="of all", pulls=[pull], limits={}, course=pieces, served_by={"a": 1},
    )  # fmt: skip


def test_the_terminal_says_what_moved_and_what_was_lost() -> None:
    out = io.StringIO()
    render_experiment(made(), Console(file=out, width=220))
    text = out.getvalue()
    assert "drill: FAIL" in text
    assert "250\u00a0ms [250\u00a0ms,\u00a0500\u00a0ms]" in text
    assert "– [200\u00a0ms,\u00a0400\u00a0ms]" in text
    assert "truncated 1" in text
    marks = next(line for line in text.splitlines() if line.lstrip().startswith("switch  "))
    assert marks.rstrip().endswith("▼"), "the third piece of four"
    assert "██▁▁" in text
    assert "server not known" not in text, "none was"
    assert "\x1b[2J" not in text


def test_tables_keep_why_something_is_missing() -> None:
    away = drill_tables(made())[0]
    cells = away.rows[0].cells
    assert cells[7][1] == "not enough data"  # type: ignore[index]
    assert "median 45.0\u00a0ms" in cells[6][1]  # type: ignore[index]
    assert "above it after 1.00\u00a0s: p = 0.0001, median 200\u00a0ms of the 8 requests" in cells[6][1]  # type: ignore[index]
    lost = drill_tables(made())[2].rows[0]
    assert (lost.tone, lost.cells[5]) == ("bad", "1 to 3"), "two were cut by our own drain"


def test_the_figure_has_the_course_and_the_pulls() -> None:
    (figure,) = drill_figures(made())
    assert "off at 1.0 s" in figure.caption
    assert [panel.title for panel in figure.panels] == [
        "Requests/s by server", "Requests lost", "Latency, medians", "Accepted tokens/s"
    ]  # fmt: skip
    first = figure.panels[0].series[0]
    assert [None if p is None else p.y for p in first.points] == [8.0, 8.0, 0.0, 0.0]
    assert drill_figures(made().model_copy(update={"course": []})) == ()
