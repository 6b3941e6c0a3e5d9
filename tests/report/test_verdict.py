"""A verdict for CI systems, pull requests and terminals: three values, no markup from outside, no contradiction."""

from __future__ import annotations

import io
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from loadgen.report import render_junit, render_markdown, render_verdict
from loadgen.verdict import Result, Verdict


def result(ok: bool | None, **more: Any) -> Result:
    word = {True: "pass", False: "fail", None: "inconclusive"}[ok]
    fields: dict[str, Any] = {
        "name": "ttft_s{arm:candidate}: p(95)<=1.05 * baseline", "metric": "ttft_s", "aggregate": "p95",
        "arm": "candidate", "where": {"arm": "candidate"}, "op": "<=", "limit": 1.05, "relative": "ratio", "unit": "×",
        "ok": ok, "value": 0.98, "interval": (0.95, 1.02), "level": 0.95, "fail_level": 0.9875, "n": 480,
        "n_unit": "requests", "needs_n": None, "min_samples": None, "method": "by hand", "source": "test",
        "reason": None if ok is not None else "too few", "sentence": f"a threshold: {word}: 0.98 × baseline",
    }  # fmt: skip
    return Result(**{**fields, **more})


def verdict(*results: Result, **more: Any) -> Verdict:
    oks = [r.ok for r in results]
    word = "fail" if False in oks else "pass" if all(oks) and not more.get("obstacles") else "inconclusive"
    fields: dict[str, Any] = {
        "run_id": "r-1", "verdict": word, "reasons": ["all thresholds are met"], "thresholds": list(results),
        "thresholds_from": "scenario", "obstacles": [], "notes": [], "baseline": "baseline", "design": "interleaved",
        "paired": True, "validity": "valid", "reproduce": ["specload run s.yaml", "specload report r-1"],
    }  # fmt: skip
    return Verdict(**{**fields, **more})


def cases(found: Verdict) -> dict[str, list[str]]:
    """Test case to what it holds."""
    (suite,) = ElementTree.fromstring(render_junit(found).encode())
    return {str(case.get("name")): [child.tag for child in case if child.tag != "system-out"] for case in suite}


@pytest.mark.parametrize(("ok", "holds"), [(True, []), (False, ["failure"]), (None, ["skipped"])])
def test_junit_has_one_case_a_threshold(ok: bool | None, holds: list[str]) -> None:
    found = verdict(result(ok))
    assert cases(found) == {result(ok).name: holds, "measurement": []}
    (suite,) = ElementTree.fromstring(render_junit(found).encode())
    counted = {key: int(str(suite.get(key))) for key in ("tests", "failures", "errors", "skipped")}
    assert counted == {"tests": 2, "failures": int(ok is False), "errors": 0, "skipped": int(ok is None)}
    if ok is not True:
        (case, _) = suite
        assert case[0].get("message") == found.thresholds[0].sentence


def test_junit_of_good_numbers_under_an_obstacle_is_not_green() -> None:
    """F11, F16: the suite says inconclusive where the verdict does."""
    found = verdict(result(True), obstacles=["the measurement is invalid: lag"], reasons=["lag"])
    assert found.verdict == "inconclusive"
    assert cases(found)["measurement"] == ["skipped"]


def test_junit_is_xml_whatever_a_server_says() -> None:
    found = verdict(result(False, sentence="a\x00b\x1b[31m <&> \ufffe \"'"), notes=["]]> <x/>"])
    text = render_junit(found)
    (suite,) = ElementTree.fromstring(text.encode())
    assert "<&>" in str(suite[0][0].get("message"))
    assert "\x1b" not in text
    assert "]]> <x/>" in str(suite[1].findtext("system-out"))


def test_markdown_has_the_verdict_first_and_one_row_a_threshold() -> None:
    found = verdict(result(True), result(False), result(None), reasons=["one failed", "two"])
    lines = render_markdown(found).split("\n")
    assert lines[0] == "## specload: ❌ fail"
    assert lines[2:4] == ["- one failed", "- two"]
    rows = [line for line in lines if line.startswith("| `")]
    assert [row.split(" | ")[1] for row in rows] == ["✅ pass", "❌ fail", "❔ inconclusive"]
    assert rows[0] == (
        "| `ttft_s{arm:candidate}: p(95)<=1.05 * baseline` | ✅ pass | 0.98× | [0.95, 1.02] | <= 1.05 × baseline "
        "| 480 requests |"
    )
    assert lines[-4:] == ["specload run s.yaml", "specload report r-1", "```", ""]


def test_markdown_shows_units_and_what_is_absent() -> None:
    absolute = result(None, relative=None, unit="s", limit=0.5, value=0.4, interval=None)
    infinite = result(False, relative="difference", unit="s", limit=0.1, value=None, interval=(3.0, None))
    rows = [line for line in render_markdown(verdict(absolute, infinite)).split("\n") if line.startswith("| `")]
    assert rows[0].split(" | ")[2:5] == ["0.4 s", "–", "<= 0.5 s"]
    assert rows[1].split(" | ")[2:5] == ["–", "[3, ∞]", "<= 0.1 s above baseline"]


def test_markdown_of_hostile_names_is_no_markup() -> None:
    """I5: what a scenario or a server is called must not become a link, an image or a table cell."""
    name = "a|b`c`\n# x <img src=y>"
    text = render_markdown(verdict(result(False, name=name), reasons=["[click](http://x) <b> *x*\n# no"]))
    assert "\\[click\\](http://x) \\<b\\> \\*x\\* \\# no" in text
    assert "| `a\\|b'c' # x <img src=y>` |" in text


def shown(found: Verdict, width: int = 400) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    render_verdict(found, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_terminal_lines_begin_with_the_word() -> None:
    lines = shown(verdict(result(True), result(None), obstacles=["lag"], notes=["a note"])).splitlines()
    assert lines[0] == (
        "Verdict: inconclusive · r-1 · thresholds of the scenario · against baseline, interleaved, paired"
    )
    assert [line.strip()[0] for line in lines[1:4]] == ["!", "✓", "?"]
    assert lines[-1] == "  a note"


def test_terminal_lines_of_one_arm_and_of_defaults() -> None:
    one = shown(verdict(result(True), baseline=None, design=None, paired=None))
    assert one.splitlines()[0] == "Verdict: pass · r-1 · thresholds of the scenario"
    apart = shown(verdict(result(True), thresholds_from="defaults", design="apart", paired=False))
    assert "default thresholds · against baseline, apart, unpaired" in apart


def test_many_thresholds_share_lines() -> None:
    """What failed is said of each, then what is undecided, reason by reason; the page must fit a terminal."""
    few = [result(None, name=f"t{i}", reason="too few blocks") for i in range(3)]
    found = verdict(*[result(True)] * 8, *few, result(None, reason="the interval holds the limit"), result(False))
    lines = shown(found).splitlines()
    assert lines[1:] == [
        "  ✗ a threshold: fail: 0.98 × baseline",
        "  ? t0 and 2 more: inconclusive: too few blocks",
        "  ? a threshold: inconclusive: 0.98 × baseline",
        "  ✓ 8 of 13 thresholds are met (all: --json)",
    ]
    assert len(shown(verdict(*[result(True)] * 8)).splitlines()) == 9


def test_a_terminal_is_not_steered() -> None:
    assert "\x1b" not in shown(verdict(result(True, sentence="a\x1b[2Jb"), run_id="\x1b[2J", notes=["[red]x\x1b"]))
