"""The page of a sweep: figures hold exactly the summary's numbers, what is absent is a sentence, nothing comes from
outside."""

from __future__ import annotations

import json
import re
from types import ModuleType
from typing import Any

import pytest

from loadgen.analyze import Interval, SweepSummary
from loadgen.report import render_sweep_html
from loadgen.report.page import Figure, Panel
from loadgen.report.sweep_figures import sweep_figures
from loadgen.report.sweep_panels import CATEGORIES, PANELS, SERIES, places
from loadgen.report.sweep_tables import sweep_tables, visits

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u2028\u202e\"'&{{7*7}}"
FIGURES = ["along-k", "along-concurrency", "along-input_len", "decomposition", "positions", "map", "best-k", "cost",
           "advice", "context", "search", "drift"]  # fmt: skip


@pytest.fixture(scope="module")
def summary(by_hand: ModuleType) -> SweepSummary:
    made: SweepSummary = by_hand.summary()
    return made


@pytest.fixture(scope="module")
def drawn(summary: SweepSummary) -> dict[str, Figure]:
    return {figure.id: figure for figure in sweep_figures(summary)[0]}


def numbers(panel: Panel, series: int = 0) -> list[tuple[float | None, float | None, float | None] | None]:
    return [None if p is None else (p.y, p.low, p.high) for p in panel.series[series].points]


def bounds(one: Interval) -> tuple[float | None, float | None, float | None]:
    return one.value, one.low, one.high


def text_of(html: str) -> str:
    body = re.sub(r"<(script|style).*?</\1>", " ", html, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", body).replace("\u00a0", " ").split())


def test_every_part_is_a_figure(summary: SweepSummary, drawn: dict[str, Figure]) -> None:
    assert list(drawn) == FIGURES
    assert sweep_figures(summary)[1] == []


def test_curves_hold_the_numbers_and_their_intervals(summary: SweepSummary, drawn: dict[str, Figure]) -> None:
    figure = drawn["along-concurrency"]
    assert [p.title for p in figure.panels] == [
        "Net throughput, output tokens/s", "Speedup", "Time to first token (TTFT) P50",
        "Time per output token (TPOT) P95", "Total time of a response P50",
    ]  # fmt: skip
    net = figure.panels[0]
    assert (net.kind, list(net.categories), net.unit) == ("lines", ["1", "8", "64"], "number")
    assert [s.name for s in net.series] == ["k 0", "k 2", "k 4"], "one arm needs no name"
    for i, k in enumerate((0, 2, 4)):
        (curve,) = [c for c in summary.curves if (c.metric, c.where) == ("net_tokens_per_s", {"k": k})]
        assert numbers(net, i) == [bounds(at.value) for at in curve.points]
    assert figure.panels[1].reference == 1.0
    total = figure.panels[4]
    assert numbers(total)[1:] == [(2.0, None, None), (None, None, None)]
    assert total.series[0].points[2].cell.why == "cut"  # type: ignore[union-attr]


def test_a_metric_without_numbers_is_a_sentence_with_its_reason(drawn: dict[str, Figure]) -> None:
    note = drawn["along-concurrency"].note
    assert note == "No Acceptance: speculation is off: no draft tokens."
    assert "No Speedup: not measured at any point." in (drawn["along-k"].note or "")


def test_series_keep_their_colour_in_every_panel(drawn: dict[str, Figure]) -> None:
    colours = [{s.name: s.colour for s in panel.series} for panel in drawn["along-concurrency"].panels]
    assert all(found == colours[0] for found in colours)
    assert sorted(colours[0].values()) == [0, 1, 2]


def test_the_parts_of_the_speed_stand_along_k(drawn: dict[str, Figure]) -> None:
    figure = drawn["decomposition"]
    assert [p.title for p in figure.panels] == ["E, tokens per step", "c, cost of a step", "E ÷ c, speed of decoding"]
    assert [y for y, *_ in filter(None, numbers(figure.panels[1]))] == [1.0, 1.3, 1.6]
    assert figure.panels[0].places == [0.0, 2.0, 4.0]


def test_positions_show_each_visit_of_the_settings_near_the_baseline(drawn: dict[str, Figure]) -> None:
    panels = drawn["positions"].panels
    assert [p.title for p in panels] == ["k 4, concurrency 1", "k 2, concurrency 1"]
    first = panels[0]
    assert [s.name for s in first.series] == ["visit 1", "visit 2"]
    assert [y for y, *_ in filter(None, numbers(first, 1))] == pytest.approx([0.89, 0.79, 0.69, 0.59])


def test_the_map_has_a_row_a_task_and_a_field_a_level(drawn: dict[str, Figure]) -> None:
    figure = drawn["map"]
    assert figure.title == "Speedup by task type and concurrency"
    (panel,) = figure.panels
    assert (panel.kind, panel.title, panel.reference) == ("heat", "k 4", 1.0)
    assert {s.name: [p.y for p in s.points if p] for s in panel.series} == {
        "code": [2.4, 1.9, 0.9], "short_qa": [1.8, 1.4, 0.8]
    }  # fmt: skip


def test_best_k_reaches_over_those_that_are_not_worse(drawn: dict[str, Figure]) -> None:
    (panel,) = drawn["best-k"].panels
    assert list(panel.categories) == ["1", "8", "64"]
    assert numbers(panel) == [(4.0, 4.0, 4.0), (4.0, 2.0, 4.0), None]
    assert panel.series[0].points[1].cell.text == "4 (not told from 2)"  # type: ignore[union-attr]


def test_the_cost_line_is_that_of_its_coefficients(drawn: dict[str, Figure]) -> None:
    (panel,) = drawn["cost"].panels
    assert [s.dashed for s in panel.series] == [False, True]
    assert [y for y, *_ in filter(None, numbers(panel, 1))] == pytest.approx([1.33, 1.61])


def test_the_advisor_stands_beside_what_was_measured(drawn: dict[str, Figure]) -> None:
    e, speedup = drawn["advice"].panels
    assert [s.name for s in e.series] == ["predicted (replay)", "measured"]
    assert [p and p.y for p in e.series[1].points] == [None, 2.2, 2.9]
    assert [p and p.y for p in speedup.series[1].points] == [None, 1.6, None]


def test_the_search_shows_each_run_by_its_outcome(drawn: dict[str, Figure]) -> None:
    (panel,) = drawn["search"].panels
    assert panel.reference == 5.0
    assert {s.name: [p and p.y for p in s.points] for s in panel.series} == {
        "pass": [1.0, None, None, 4.0], "fail": [None, 8.0, None, None], "inconclusive": [None, None, 4.0, None]
    }  # fmt: skip


def test_drift_stands_over_time(drawn: dict[str, Figure]) -> None:
    (panel,) = drawn["drift"].panels
    assert (list(panel.categories), panel.places) == (["0.0", "240.5"], [0.0, 240.5])
    assert [y for y, *_ in filter(None, numbers(panel))] == [50.0, 49.5]


@pytest.mark.parametrize(
    ("axis", "levels", "wanted"),
    [
        ("k", [0, 1, 4], [0.0, 1.0, 4.0]),
        ("concurrency", [1, 2, 4], [1.0, 2.0, 4.0]),
        ("concurrency", [1, 4, 16], None),
        ("concurrency", [1, 2, 16], [0.0, 1.0, 4.0]),
        ("task_type", ["code", "chat"], None),
    ],
)
def test_levels_stand_as_numbers_or_by_their_factors(axis: str, levels: list[Any], wanted: list[float] | None) -> None:
    """Evenly spaced factors need no places of their own."""
    assert places(axis, levels) == wanted


def test_what_was_not_measured_is_a_sentence(by_hand: ModuleType) -> None:
    empty = by_hand.empty()
    figures, absent = sweep_figures(empty)
    assert figures == []
    assert len(absent) == len(FIGURES)
    text = text_of(render_sweep_html(empty))
    for words in (
        "No figure «Best draft length»: no best_k yet.",
        "No max rate: no max_rate yet.",
        "is not finished: 0 of 1",
        "No figure «Along concurrency»: no visit has been measured.",
    ):
        assert words in text
    assert "None" not in text


def test_a_large_grid_is_bounded_and_says_so(by_hand: ModuleType, summary: SweepSummary) -> None:
    levels = list(range(1, 60))
    many = [
        by_hand.curve("concurrency", {"k": k}, "net_tokens_per_s", levels, [by_hand.known(1.0)] * 59) for k in range(12)
    ]
    points = [by_hand.visit(i, 4, 1, 0, values={"k": 4, "concurrency": i}) for i in range(500)]
    large = summary.model_copy(update={"curves": many, "points": points, "findings": summary.findings * 99})
    html = render_sweep_html(large)
    text = text_of(html)
    assert (
        f"The first {CATEGORIES} of 59 places of «concurrency» are shown; all of them stand in sweep_summary.json"
        in text
    )
    assert f"The first {SERIES} of 12 series are shown" in text
    assert f"The first {PANELS} of 500 panels are shown" in text
    assert "The first 400 of 500 visits are shown" in text
    assert "The first 60 of 99 findings are shown" in text
    assert len(html.encode()) < 5_000_000


def test_the_page_says_first_what_the_sweep_says(summary: SweepSummary) -> None:
    html = render_sweep_html(summary)
    assert re.findall(r"<h2[^>]*>([^<]+)", html) == [
        "What the sweep says", "1 of 5 visits failed: they are in no curve", "Figures", "Results", "Visits", "Findings",
        "Conditions", "How to reproduce",
    ]  # fmt: skip
    text = text_of(html)
    answers = text.split("What the sweep says")[1].split("Objective")[0]
    assert answers.index("best draft length") < answers.index("bends at concurrency 20"), "by the objective"
    assert "specload sweep hand.yaml --set seed=2 # plan" in text
    assert "--resume 20260101T000000Z-sweep-hand" in text
    assert len(html.encode()) < 5_000_000
    assert render_sweep_html(summary) == html


def test_tables_hold_what_no_figure_shows(summary: SweepSummary) -> None:
    captions = [table.caption for table in sweep_tables(summary)]
    assert captions == [
        "Knee: where more load stops giving more", "Where speculation stops paying", "Best draft length",
        "Cost of a step: 1 + a + b × k (estimates)", "Advice from k = 4 at concurrency 8 (replay)",
        "Change with the length of the input", "Search for the highest rate", "The baseline point, last to first",
    ]  # fmt: skip
    rows = visits(summary).rows
    assert len(rows) == 5
    assert (rows[4].tone, rows[4].cells[3]) == ("bad", ("failed", "the server did not start"))


def test_hostile_names_are_text_everywhere(summary: SweepSummary) -> None:
    told = json.loads(json.dumps(summary.model_dump(mode="json")).replace("server", json.dumps(HOSTILE)[1:-1]))
    html = render_sweep_html(SweepSummary.model_validate(told))
    assert "<script>alert" not in html
    assert "<img" not in html
    assert "{{7*7}}" in text_of(html)
    assert html.count("</script>") == 3


def test_it_asks_nobody_for_anything(summary: SweepSummary) -> None:
    html = render_sweep_html(summary)
    assert re.findall(r"""(?:src|href)=["']?(?!data:|#)[^"'\s>]+""", html.split('id="data"')[0]) == []
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', html)
    assert "default-src &#39;none&#39;" in policy or "default-src 'none'" in policy
    assert "connect-src" not in policy
