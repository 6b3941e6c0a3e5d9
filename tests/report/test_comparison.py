"""The comparison on one terminal page: verdict first, loss as plain as gain, nothing cut."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from loadgen.analyze import (
    ComparisonRow,
    Finding,
    Interval,
    Metric,
    RunsCompared,
    Speedup,
    Summary,
    Unpaired,
    analyze,
)
from loadgen.analyze.values import absent
from loadgen.record import open_run
from loadgen.report import render_runs_compared, render_terminal
from loadgen.report.attention import attention
from loadgen.report.page import told

RUN = Path(__file__).resolve().parents[1] / "data" / "runs" / "small"
PAGE = 50


def interval(value: float | None, half: float = 0.1, **more: object) -> Interval:
    low, high = (None, None) if value is None or not half else (value - half, value + half)
    base = {"value": value, "low": low, "high": high, "n": 24, "source": "chunk", "unit": "blocks", "method": "t"}
    return Interval.model_validate({**base, **more})


def row(level: int, factor: float, word: str, **more: object) -> ComparisonRow:
    metrics = [
        Metric(name=name, aggregate=aggregate, unit="s", lower_is_better=True, baseline=interval(1.0),
               candidate=interval(1.2), ratio=interval(1.2))
        for name, aggregate in (("ttft_s", "p95"), ("tpot_s", "p95"), ("total_time_s", "p99"), ("error_share", "value"))
    ]  # fmt: skip
    base = {
        "stage": f"c{level}", "concurrency": level, "rate_per_s": None, "candidate": "candidate",
        "baseline": "baseline", "design": "interleaved", "paired": True, "blocks": 24, "requests": 480,
        "speedup": Speedup(kind="net_throughput", why="closed loop", value=interval(factor),
                           tpot=interval(factor), total_time=interval(factor)),
        "e_decode": interval(2.9), "c": interval(1.2), "speedup_decode": interval(2.4),
        "baseline_running": absent("none"), "candidate_running": absent("none"), "like_for_like": None,
        "acceptance_rate": interval(0.71),
        "rollback_rate": {"value": 0.5, "low": 0.5, "high": 0.5, "exact": True, "n": 9, "source": "per_request"},
        "cache_hit_share": {}, "repeat_variation": {}, "metrics": metrics, "verdict_word": word, "family": 5,
        "sentence": "said",
    }  # fmt: skip
    return ComparisonRow.model_validate({**base, **more})


@pytest.fixture(scope="module")
def recorded() -> Summary:
    return analyze(open_run(RUN))


@pytest.fixture
def summary(recorded: Summary) -> Summary:
    rows = [row(n, s, "faster") for n, s in ((1, 2.31), (4, 2.2), (16, 1.9), (64, 1.4))]
    rows.append(row(192, 0.81, "slower"))
    rows.append(row(1, 2.0, "faster", task_type="code"))
    findings = [
        Finding(id=f"f{i}", text=f"finding {i} holds", numbers={}, conditions={}, severity="info") for i in range(9)
    ]
    verdict = {
        "verdict": "fail",
        "reasons": ["speedup at c192 is below its limit"],
        "thresholds": [{"name": "speedup{stage:c192} >= 1.00", "value": 0.81, "limit": 1.0, "ok": False, "n": 24,
                        "n_unit": "blocks", "unit": "×", "interval": [0.7, 0.9]}],
    }  # fmt: skip
    update = {"comparison": rows, "findings": findings, "verdict": verdict}
    return recorded.model_copy(update=update)


def shown(summary: Summary, details: bool | None = None, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    render_terminal(summary, console, details)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().replace("\u00a0", " ")


def test_it_is_one_page_with_the_verdict_first(summary: Summary) -> None:
    lines = shown(summary).splitlines()
    assert len(lines) <= PAGE
    assert max(map(len, lines)) <= 120
    assert lines[1] == "VERDICT: FAIL"
    assert lines[2] == "   speedup at c192 is below its limit"
    line = "   FAIL  speedup{stage:c192} >= 1.00: 0.810 [0.700, 0.900], limit 1.00 ×, n = 24 blocks"
    assert lines[3].startswith(line)


@pytest.mark.parametrize(
    ("ratio", "mark"),
    [
        ({"low": 2.0, "infinite": ["value", "high"]}, "∞ ▲"),
        ({"infinite": ["value", "low", "high"]}, "∞ ▲"),
        ({"low": 0.9, "infinite": ["value", "high"]}, "∞ ?"),
        ({"infinite": ["value"]}, "∞ ?"),
        ({}, "–"),
    ],
)
def test_a_percentile_among_failed_requests_is_shown_as_infinite(summary: Summary, ratio, mark) -> None:
    """F10: worse than any number, not unknown."""
    lost = interval(None, reason="value among failed requests", **{"low": None, **ratio})
    metric = Metric(name="ttft_s", aggregate="p95", unit="s", lower_is_better=True, baseline=interval(1.0),
                    candidate=lost, ratio=lost)  # fmt: skip
    text = shown(summary.model_copy(update={"comparison": [row(4, 2.2, "faster", metrics=[metric])]}))
    (line,) = [line for line in text.splitlines() if "2.20 [" in line]
    assert mark in line
    assert told(lost, "times").text == mark.split()[0]


def test_three_arms_at_four_levels_are_one_page_too(recorded: Summary) -> None:
    """Both candidates in one table, each load with its line; the verdict on each of them first."""
    rows = [
        row(level, speedup * factor, "faster", candidate=candidate, family=8)
        for candidate, factor in (("ngram", 0.8), ("draft_model", 1.0))
        for level, speedup in ((1, 2.31), (4, 2.2), (16, 1.9), (64, 1.4))
    ]
    findings = [
        Finding(id=f"f{i}", text=f"finding {i} holds of a candidate at a load", numbers={}, conditions={},
                severity="info") for i in range(12)
    ]  # fmt: skip
    ruled = {"speedup{}: value>=1": True, "ttft_s{}: p(95)<=1.05 * baseline": True,
             "tpot_s{}: p(95)<=1.05 * baseline": None, "total_time_s{}: p(99)<=1.05 * baseline": False}  # fmt: skip
    thresholds = [
        {"name": name, "value": 1.2, "limit": 1.0, "ok": ok, "n": 24, "interval": [1.1, 1.3],
         "sentence": f"{name}: {ok}: 1.200 × baseline [1.100 × baseline, 1.300 × baseline], limit 1.05 × baseline, "
                     "n = 24 blocks: the interval holds the limit: more blocks or repeats would narrow it"}
        for limit, ok in ruled.items() for arm in ("ngram", "draft_model")
        for name in [limit.replace("{}", f"{{arm:{arm}}}")]
    ]  # fmt: skip
    reasons = [t["sentence"] for ok in (False, None) for t in thresholds if t["ok"] is ok]
    verdict = {"verdict": "fail", "reasons": reasons, "thresholds": thresholds}
    summary = recorded.model_copy(update={"comparison": rows, "findings": findings, "verdict": verdict})
    text = shown(summary)
    lines = text.splitlines()
    assert len(lines) <= PAGE
    assert max(map(len, lines)) <= 120
    assert lines[1] == "VERDICT: FAIL"
    for r in rows:
        assert r.speedup.value.value is not None
        assert sum(r.candidate in line and f"{r.speedup.value.value:.2f} [" in line for line in lines) == 1, r.candidate
    assert "colours hold for all 8 rows together (Bonferroni)" in text
    told = [next(i for i, line in enumerate(lines) if str(t["name"]) in line) for t in thresholds]
    assert sorted(told) == [told[i] for i in (6, 7, 4, 5, 0, 1, 2, 3)], "failed first, passed last, each once"
    assert sum(str(t["name"]) in line for t in thresholds for line in lines) == len(thresholds)


def test_every_load_has_its_line_and_the_loss_is_there(summary: Summary) -> None:
    text = shown(summary)
    for words in ("2.31 [2.21, 2.41]", "0.81 [0.71, 0.91]", "c192", "71 %", "1.20 ▲"):
        assert words in text
    assert "colours hold for all 5 rows together (Bonferroni)" in text
    assert "2.00 [1.90, 2.10]" not in text, "parts are details"


def test_what_does_not_fit_is_counted(summary: Summary) -> None:
    text = shown(summary)
    assert "finding 5 holds" in text
    assert "3 more findings in summary.json" in text
    assert "--details" in text


def test_failures_stay_on_the_page(summary: Summary) -> None:
    """F10, F11."""
    assert attention(summary)[0] in " ".join(shown(summary, width=400).split("! "))
    assert "This measurement is doubtful" in shown(summary)


def test_details_hold_every_table(summary: Summary) -> None:
    text = shown(summary, details=True)
    assert "By task type and length" in text
    assert "2.00 [1.90, 2.10]" in text
    assert "Both arms" in text
    assert "By load" in text
    assert text.index("VERDICT") < text.index("By task type and length") < text.index("By load")


def test_too_little_data_and_open_loops_are_marked(summary: Summary) -> None:
    speedup = Speedup(kind="tpot", why="the load is set by arrivals", value=interval(1.3, 0), tpot=interval(1.3, 0),
                      total_time=interval(None))  # fmt: skip
    few = row(8, 1.3, "not enough data", speedup=speedup, like_for_like=False)
    text = shown(summary.model_copy(update={"comparison": [few]}))
    assert "1.30 ?ᵗ" in text
    assert "ᵗ speedup is of time per token: the load is set by arrivals" in text
    assert "? too few data" in text
    assert "≠ the servers ran different batches" in text


def test_without_a_verdict_it_says_why(recorded: Summary) -> None:
    assert shown(recorded).splitlines()[1].startswith("No verdict: ")


def test_a_run_without_common_stages(summary: Summary) -> None:
    assert "nothing is compared" in shown(summary.model_copy(update={"comparison": []}))


def test_unknown_sizes_of_a_verdict_are_dashes(summary: Summary) -> None:
    verdict = {"verdict": "inconclusive", "reasons": [], "thresholds": [
        {"name": "ttft_s: p(99) < 1", "value": None, "limit": 1, "ok": None, "n": 0, "interval": None}]}  # fmt: skip
    text = shown(summary.model_copy(update={"verdict": verdict}))
    assert "VERDICT: INCONCLUSIVE" in text
    assert "inconclusive  ttft_s: p(99) < 1: –, limit 1.00" in text


def test_what_failed_comes_first_and_what_passed_last(summary: Summary) -> None:
    found = [{"name": f"t{i}", "value": 1.0, "limit": 1, "ok": ok, "n": 9, "interval": None}
             for i, ok in enumerate((None, True, None, True, False, None, None))]  # fmt: skip
    verdict = {"verdict": "fail", "reasons": [], "thresholds": found}
    lines = shown(summary.model_copy(update={"verdict": verdict})).splitlines()[2:9]
    assert [line.split()[1].rstrip(":") for line in lines[:6]] == ["t4", "t0", "t2", "t5", "t6", "t1"]
    assert lines[6] == "   … 1 more thresholds in summary.json"


def test_runs_made_apart(summary: Summary) -> None:
    rows = [
        Unpaired(stage="c4", arm="a", name="tpot_s", unit="s", first_median=0.01, second_median=0.012, first_n=80,
                 second_n=90, p=0.001, p_adjusted=0.004, shift=interval(0.002, 0.0005, unit="requests"),
                 larger_share=interval(0.97, 0.01), word="higher")
    ]  # fmt: skip
    found = RunsCompared(
        first="r1", second="r2", paired=False, why="their plans differ", unpaired=rows, notes=["apart"]
    )
    console = Console(file=io.StringIO(), width=140, highlight=False)
    render_runs_compared(found, console)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue().replace("\u00a0", " ")
    assert "unpaired: their plans differ." in text
    for words in ("! apart", "0.00200 [0.00150, 0.00250]", "97.0 %", "0.004", "higher"):
        assert words in text
