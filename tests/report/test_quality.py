"""A quality result as people read it: differences side by side, tests with what they can find, nothing unescaped."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from loadgen.analyze import DifferenceShown, QualityResult, analyze, without_texts
from loadgen.record import open_run
from loadgen.report import render_experiment, render_html

RUN = Path(__file__).resolve().parents[1] / "data" / "runs" / "small"
DIFFERENCE: dict[str, Any] = {
    "arm": "candidate", "case_id": "fact-1", "load": "greedy", "standing": "shown", "kind": "divergent", "also": [],
    "pairs": 2, "differing": 2, "token_index": 7, "char_index": 52, "margin_nat": 3.25, "margin_at_least": True,
    "why": "different from token 7", "before": "The capital of the country is, as everybody ",
    "baseline": "knows, Paris", "candidate": "\x1b[31m<script>alert(1)</script>\nZwijndrecht, more than fits",
}  # fmt: skip
TEST: dict[str, Any] = {
    "arm": "candidate", "name": "next_token", "p": 0.0001, "adjusted_p": 0.0011, "alarm": True, "value": 0.0971,
    "unit": "distance", "n_baseline": 2400, "n_candidate": 2400, "groups": 12, "detectable": 0.049,
}  # fmt: skip
NUMERICS: list[dict[str, Any]] = [
    {"arm": "candidate", "positions": 230, "p99_nat": 0.1175, "near_tie_nat": 0.1, "sure_nat": 0.235},
    {"arm": "close", "positions": 100, "p99_nat": 0.04, "near_tie_nat": 0.1, "sure_nat": 0.1},
    {"arm": "few", "positions": 3, "p99_nat": None, "near_tie_nat": 0.1, "sure_nat": 1.0,
     "reason": "too few positions"},
]  # fmt: skip


@pytest.fixture(scope="module")
def found() -> QualityResult:
    return QualityResult.model_validate({
        "schema": 1, "kind": "quality", "run_id": "r", "state": "fail", "reasons": ["1 of 20 cases differ"],
        "findings": [{"id": "divergent", "text": "candidate: 1 of 20 cases differ", "numbers": {"cases": 1.0},
                      "conditions": {"arm": "candidate"}, "severity": "bad"}],
        "conditions": {}, "baseline": "plain", "level": 0.002, "near_tie_nat": 0.1, "near_tie_n": 4, "text_kept": True,
        "numerics": NUMERICS,
        "asked_again": {"questions": 9, "asked": 5, "answered": 4, "unanswered": {"answered 400: no": 1}},
        "arms": [{"arm": "candidate", "state": "fail", "reasons": ["1 of 20 cases differ"]}],
        "passes": [{"stage": "greedy", "kind": "greedy", "arm": "candidate", "passes": 2, "concurrency": 8,
                    "requests": 40, "failed": {"timeout": 3}}],
        "loads": [{"arm": "candidate", "load": "greedy", "cases": 20, "without": 0,
                   "kinds": {"identical": 38, "divergent": 2}, "floor_kinds": {"identical": 40},
                   "floor_share": {"value": 0.0, "low": 0.0, "high": 0.17, "n": 40},
                   "share": {"value": 0.05, "low": None, "high": None, "n": 40}, "excess_p": 0.5}],
        "differences": [DIFFERENCE], "tests": [TEST, {**TEST, "name": "formats", "p": None, "adjusted_p": None,
                        "alarm": False, "value": None, "n_baseline": 0, "n_candidate": 0, "reason": "no case"}],
        "known": [{"arm": "candidate", "cases": 4, "both": 0, "baseline_only": [], "candidate_only": [], "neither": 4,
                   "reason": "no case was right in either arm: says nothing"}],
        "acceptance": [{"arm": "candidate", "reference_run": None, "reference": 0.7, "now": 0.71, "direction": "high",
                        "p": 0.8, "cases": 20}],
        "same_seed": [], "determinism": {},
    })  # fmt: skip


@pytest.fixture(scope="module")
def text(found: QualityResult) -> str:
    out = io.StringIO()
    render_experiment(found, Console(file=out, width=220, no_color=True))
    return out.getvalue()


def test_both_answers_stand_side_by_side_with_the_place_marked(text: str) -> None:
    (row,) = [line for line in text.splitlines() if "fact-1" in line]
    cells = [cell.strip() for cell in row.split("  ") if cell.strip()]
    assert cells == [
        "fact-1", "divergent", "repeatable (2/2)", "under load", "token 7", "≥ 3.2 nat", "…ountry is, as everybody",
        "▸knows, Paris", cells[-1],
    ]  # fmt: skip
    assert cells[-1].startswith("▸")
    assert "<script>alert(1)</script>⏎" in cells[-1]
    assert "\x1b" not in text, "no control character of a server reaches the terminal"


def test_every_standing_has_a_word(found: QualityResult) -> None:
    """What is no near tie and may be numerics stands apart from what nobody could say."""
    words = {
        "between": "repeatable, no near tie; its numerics? (2/2)", "wrong_end": "wrong end, not twice (2/2)",
        "unknown": "repeatable, near tie? (2/2)",
    }  # fmt: skip
    for standing, word in words.items():
        one = DifferenceShown.model_validate({**DIFFERENCE, "standing": standing})
        out = io.StringIO()
        render_experiment(found.model_copy(update={"differences": [one]}), Console(file=out, width=260, no_color=True))
        assert word in out.getvalue()


def test_a_test_says_what_it_can_find_and_what_was_not_made_is_named(text: str) -> None:
    (row,) = [line for line in text.splitlines() if line.strip().startswith("next_token")]
    assert [cell.strip() for cell in row.split("  ") if cell.strip()] == [
        "next_token", "candidate", "0.0001", "0.0011", "+0.0971", "2400 / 2400", "12", "0.049 distance with power 0.9",
    ]  # fmt: skip
    assert "Not made: formats (no case)." in text
    assert "corrected p of 0.002 or less" in text


def test_failures_what_was_asked_again_and_empty_known_answers_are_told(text: str) -> None:
    flat = " ".join(text.split())
    assert "timeout 3" in text
    assert "Near ties: margins up to 0.1 nat, from 4 of the baseline's own." in text
    assert (
        "candidate: where both say the same its log probabilities are 0.12 nat apart (P99 of 230 positions), so a "
        "margin from 0.1 to 0.235 nat is no near tie and proves nothing. close: where both say the same its log "
        "probabilities are 0.04 nat apart (P99 of 100 positions): its numerics makes no more than a near tie. few: "
        "numerics not known (too few positions), so a margin from 0.1 to 1 nat is no near tie and proves nothing."
    ) in flat
    assert "Asked again at 5 of 9 divergences, 4 answered. Not answered 1: answered 400: no." in flat
    assert "no case was right in either arm: says nothing" in text
    assert "their speeds are no performance result" in text


def test_the_page_escapes_what_servers_said(found: QualityResult) -> None:
    run = open_run(RUN)
    page = render_html(analyze(run), run.manifest, found)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script>alert(1)" not in page
    assert "Where answers differ, parts of them are in this file" in page
    bare = render_html(analyze(run), run.manifest, without_texts(found))
    assert "Zwijndrecht" not in bare
    assert "No prompt and no answer is in this file" in bare
