"""The pure parts of scripts/dashboard_pictures: what Grafana would ask Prometheus, and where it puts panels."""

import json
from pathlib import Path

import pytest

from scripts.dashboard_pictures.layout import box, overlaps
from scripts.dashboard_pictures.queries import (
    Variable,
    Window,
    built_in,
    chosen,
    interval_ms,
    options,
    requests,
    rounded_ms,
    substituted,
    variable_query,
)

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "scripts" / "dashboard_pictures"
#: Ten minutes, not on a step's edge.
WINDOW = Window(1_700_000_003_000, 1_700_000_603_000)


def test_intervals_are_grafanas() -> None:
    assert [rounded_ms(ms) for ms in (9, 12, 1_499, 1_500, 7_499, 7_500, 5_400_000)] == [
        1, 10, 1_000, 2_000, 5_000, 10_000, 7_200_000,
    ]  # fmt: skip
    assert interval_ms(WINDOW, 300, 1_000) == 2_000
    assert interval_ms(WINDOW, 300, 5_000) == 5_000, "not below the scrape interval"
    words = built_in(WINDOW, 5_000, 5_000)
    assert (words["__interval"], words["__rate_interval"], words["__range"]) == ("5s", "20s", "600s")
    assert built_in(WINDOW, 30_000, 5_000)["__rate_interval"] == "35s"


def test_variables_are_written_as_the_data_source_writes_them() -> None:
    variables = {
        "run_id": Variable("run_id", "Run", ("r.1",)),
        "arm": Variable("arm", "Arm", ("a+b", "k4"), pattern=True),
        "one": Variable("one", "One", ("a.b",), pattern=True),
        "all": Variable("all", "All", ("x", "y"), pattern=True, verbatim=".+"),
    }
    text = '{r="$run_id", a=~"$arm", o=~"${one}", l=~"[[all]]"} $unknown ${arm:csv} $__range'
    assert substituted(text, variables, {"__range": "60s"}) == (
        r'{r="r.1", a=~"(a\\+b|k4)", o=~"a\\.b", l=~".+"} $unknown a+b,k4 60s'
    )


def test_a_choice_is_the_one_asked_for_else_the_current_one_else_all_else_the_first() -> None:
    plain, many = {"name": "run_id"}, {"name": "arm", "multi": True, "includeAll": True, "allValue": ".+"}
    assert chosen(plain, ["r2", "r1"]).values == ("r2",)
    assert chosen(plain, ["r2", "r1"], "r1").values == ("r1",)
    assert chosen({**plain, "current": {"value": "gone"}}, ["r2", "r1"]).values == ("r2",)
    every = chosen(many, ["a", "b"])
    assert (every.text(), every.shown) == (".+", "All")
    assert chosen({**many, "allValue": None}, ["a", "b"]).text() == "(a|b)"
    assert chosen({**many, "current": {"value": ["b"]}}, ["a", "b"]).text() == "b"


def test_options_of_query_variables() -> None:
    assert variable_query('label_values(m{a=~"x|y"}, arm)') == ("labels", 'm{a=~"x|y"}', "arm")
    assert variable_query("label_values(job)") == ("labels", None, "job")
    assert variable_query("query_result(topk(1, m))") == ("result", "topk(1, m)", "")
    with pytest.raises(ValueError, match="metrics"):
        variable_query("metrics(.*)")
    assert options(["k10", "k2", "k2"], "", 3) == ["k2", "k10"]
    assert options(['m{run="b"} 1 0', 'm{run="a"} 1 0'], '/run="(?<value>[^"]+)"/', 2) == ["b", "a"]


def test_requests_of_a_panel() -> None:
    panel = {
        "targets": [
            {"refId": "A", "expr": "rate(m[$__rate_interval])", "legendFormat": "{{arm}}", "range": True},
            {"refId": "B", "expr": "n[$__range]", "instant": True, "format": "table"},
            {"refId": "C", "expr": "hidden", "hide": True},
        ]
    }
    graph, table = requests(panel, 360, WINDOW, {}, 5_000)
    assert (graph.expr, graph.step_s, graph.start_s, graph.end_s) == ("rate(m[20s])", 5.0, 1_700_000_000, 1_700_000_600)
    assert (table.expr, table.step_s, table.end_s, table.table) == ("n[600s]", None, 1_700_000_603, True)
    (coarse,) = requests({"interval": "1m", "targets": panel["targets"][:1]}, 360, WINDOW, {}, 5_000)
    assert (coarse.step_s, coarse.expr) == (60.0, "rate(m[65s])")


def test_the_grid_is_full_and_nothing_overlaps() -> None:
    left, right = (box({"x": x, "y": 1, "w": 12, "h": 8}, 1_468) for x in (0, 12))
    assert (left.left, left.top, left.height) == (0, 38, 296)
    assert right.left + right.width == 1_468
    assert right.left - (left.left + left.width) == 8
    assert overlaps([left, right]) == []
    assert overlaps([left, box({"x": 11, "y": 8, "w": 2, "h": 2}, 1_468)]) == [(0, 1)]


def test_packages_have_exact_versions_and_no_address() -> None:
    package = json.loads((PICTURES / "package.json").read_text())
    versions = {**package["dependencies"], **package["devDependencies"]}.values()
    assert versions
    assert all(version.replace(".", "").isdigit() for version in versions), versions
    assert "://" not in (PICTURES / "package.json").read_text()
    assert {file.suffix for file in PICTURES.iterdir() if file.is_file()} == {".json", ".py", ".ts", ".tsx"}
