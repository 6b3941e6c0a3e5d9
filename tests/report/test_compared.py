"""Two runs on a page: the model of specload compare as figures and tables, with nothing computed on the way."""

from __future__ import annotations

from pathlib import Path

from loadgen.analyze import RunsCompared, compare_runs
from loadgen.record import open_run
from loadgen.report import compared_figures, compared_tables

RUN = Path(__file__).resolve().parents[1] / "data" / "runs" / "small"
INTERVAL = {"n": 9, "source": "client", "unit": "s", "method": "Mann-Whitney"}


def test_paired_runs_have_the_figures_and_tables_of_a_comparison() -> None:
    run = open_run(RUN)
    found = compare_runs(run, run)
    tables = compared_tables(found)
    assert [t.caption.split(",")[0] for t in tables] == [
        "Each load beside the baseline", "By task type and length (above 1: faster)", "Both arms",
    ]  # fmt: skip
    whole = [r for r in found.rows if (r.task_type, r.input_segment, r.output_segment) == (None, None, None)]
    assert len(tables[0].rows) == len(whole)
    speedup, parts = compared_figures(found)
    assert (speedup.id, parts.id) == ("speedup", "decomposition")
    drawn = [p.y for series in speedup.panels[0].series for p in series.points if p is not None]
    assert drawn == [r.speedup.value.value for r in whole if r.speedup.value.value is not None]


def test_unpaired_runs_have_one_table_with_units_and_reasons() -> None:
    row = {
        "stage": "c4", "arm": "base", "name": "ttft_s", "unit": "s", "first_median": 0.2, "second_median": 0.1,
        "first_n": 9, "second_n": 8, "p": 0.001, "p_adjusted": 0.0042, "word": "lower",
        "shift": {**INTERVAL, "value": -0.1, "low": -0.2, "high": -0.05, "level": 0.95},
        "larger_share": {**INTERVAL, "value": 0.125},
    }  # fmt: skip
    few = {**row, "name": "output_len", "unit": "tokens", "p": None, "p_adjusted": None, "word": "not enough data",
           "shift": {**INTERVAL, "value": None, "reason": "too few windows"},
           "larger_share": {**INTERVAL, "value": None, "reason": "too few windows"}}  # fmt: skip
    found = RunsCompared.model_validate(
        {"first": "a", "second": "b", "paired": False, "why": "their plans differ", "unpaired": [row, few]}
    )
    assert compared_figures(found) == []
    (table,) = compared_tables(found)
    first, second = ([c if isinstance(c, str) else c.text.replace("\u00a0", " ") for c in r.cells] for r in table.rows)
    assert [cell.replace("\u00a0", " ") for cell in first] == [
        "c4", "base", "ttft_s", "lower", "200 ms", "9", "100 ms", "8", "-100 ms [-200 ms, -50.0 ms]", "12.5 %",
        "0.0042",
    ]  # fmt: skip
    assert second[2:4] == ["output_len (tokens)", "not enough data"]
    assert (second[8], table.rows[1].cells[8][1], table.rows[1].tone) == ("–", "too few windows", "warning")
    assert "Holm" in (table.note or "")


def test_runs_with_nothing_in_common_have_neither() -> None:
    found = RunsCompared(first="a", second="b", paired=False, why="no arm in common")
    assert (compared_figures(found), compared_tables(found)) == ([], [])
