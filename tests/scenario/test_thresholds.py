"""The thresholds' grammar: what it reads, what it refuses, and with which words."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.errors import ScenarioError
from loadgen.scenario import (
    AGGREGATES,
    METRICS,
    SELECTORS,
    Condition,
    Scenario,
    Threshold,
    ThresholdError,
    load_scenario,
    parse_threshold,
    read_thresholds,
)

Build = Callable[..., Scenario]
Refused = Callable[..., list[str]]

TWO_ARMS = {
    "arms.baseline.url": "http://127.0.0.1:8001",
    "arms.candidate": {"url": "http://127.0.0.1:8002"},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "ttft_s{task_type:code,arm:candidate}: p(95)<0.5",
            Threshold("ttft_s", (("task_type", "code"), ("arm", "candidate")), (Condition("p95", "<", 0.5),)),
        ),
        (
            "tpot_s : med<= 1.05*baseline , max < 2",
            Threshold("tpot_s", (), (Condition("p50", "<=", 1.05, "ratio"), Condition("max", "<", 2.0))),
        ),
        ("tpot_s: avg<baseline", Threshold("tpot_s", (), (Condition("avg", "<", 1.0, "ratio"),))),
        ("tpot_s: avg<baseline * 2", Threshold("tpot_s", (), (Condition("avg", "<", 2.0, "ratio"),))),
        (
            "total_time_s: p(99.9) - baseline <= .25",
            Threshold("total_time_s", (), (Condition("p99.9", "<=", 0.25, "difference"),)),
        ),
        (
            "acceptance_rate: rate>=baseline - 0.05",
            Threshold("acceptance_rate", (), (Condition("rate", ">=", -0.05, "difference"),)),
        ),
        ("speedup: value>=1", Threshold("speedup", (), (Condition("value", ">=", 1.0),))),
        (
            "ttft_s{output_segment:512+,concurrency:8}: p( 50 )>1e-3",
            Threshold("ttft_s", (("output_segment", "512+"), ("concurrency", "8")), (Condition("p50", ">", 0.001),)),
        ),
    ],
)
def test_what_is_read(text: str, expected: Threshold) -> None:
    assert parse_threshold(text) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["is no threshold", "like ttft_s{task_type:code}: p(95)<0.5"]),
        ("ttft_s p(95)<1", ["is no threshold"]),
        ("ttft: p(95)<1", ["ttft is no metric", "did you mean ttft_s?", "allowed: ttft_s, ttft_answer_s"]),
        ("ttft_s{arms:x}: p(95)<1", ["arms is no selector", "did you mean arm?", "input_segment"]),
        ("ttft_s{arm}: p(95)<1", ["{arm} is no selector", "{arm:candidate}"]),
        ("ttft_s{}: p(95)<1", ["is no selector"]),
        ("ttft_s{arm:a,arm:b}: p(95)<1", ["arm stands twice"]),
        ("ttft_s: p95<1", ["write p(95)"]),
        ("ttft_s: p(0)<1", ["N between 0 and 100"]),
        ("ttft_s: p(100)<1", ["N between 0 and 100"]),
        ("ttft_s: p(99.99999999)<1", ["p(99.99999999) is no percentile", "at most three decimals, like p(99.9)"]),
        ("ttft_s: med<1, p(50) < 1.0", ["the condition p(50)<1 stands twice"]),
        ("ttft_s: rate<1", ["rate is no aggregate of ttft_s", "p(N), avg, med, max"]),
        ("error_share: p(95)<1", ["no aggregate of error_share", "allowed: rate"]),
        ("ttft_s: p(95)==1", ["write <, <=, > or >="]),
        ("ttft_s: p(95)!=1", ["write <, <=, > or >="]),
        ("ttft_s: p(95)<500ms", ["no unit of their own", "write 0.5"]),
        ("error_share: rate<1%", ["write 0.01"]),
        ("ttft_s: p(95)<nan", ["is no limit"]),
        ("ttft_s: p(95)<1e999", ["finite"]),
        ("ttft_s: p(95)<", ["is no limit"]),
        ("ttft_s: p(95)<1,", ["is no condition"]),
        ("ttft_s: p(95)", ["is no condition"]),
        ("ttft_s: p(95)<0 * baseline", ["must be above 0"]),
        ("ttft_s: p(95) - baseline < 2 * baseline", ["names the baseline twice"]),
        ("speedup: value>=0.9 * baseline", ["compares with the baseline by itself"]),
        ("speedup: p(50)>1", ["allowed: value"]),
        ("ttft_s: max<1.05 * baseline", ["has no interval", "p(99)"]),
    ],
)
def test_what_is_refused(text: str, words: list[str]) -> None:
    with pytest.raises(ThresholdError) as caught:
        parse_threshold(text)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@st.composite
def thresholds(draw: st.DrawFn) -> Threshold:
    metric = draw(st.sampled_from(sorted(METRICS)))
    keys = draw(st.lists(st.sampled_from(SELECTORS), unique=True, max_size=3))
    value = st.from_regex(r"[A-Za-z0-9._+-]{1,20}", fullmatch=True)
    return Threshold(
        metric,
        tuple((key, draw(value)) for key in keys),
        tuple(draw(st.lists(conditions(metric), min_size=1, max_size=4, unique=True))),
    )


def conditions(metric: str) -> st.SearchStrategy[Condition]:
    known = METRICS[metric]
    names = [name for name in AGGREGATES[known.kind] if name != "med"]
    aggregates = st.sampled_from(names)
    if known.kind == "distribution":
        percentiles = st.integers(1, 99_999).map(lambda n: f"p{n / 1000!r}".removesuffix(".0"))
        aggregates = st.one_of(aggregates, percentiles)
    numbers = st.floats(allow_nan=False, allow_infinity=False)
    plain = st.tuples(st.none(), numbers)
    relative = st.one_of(
        st.tuples(st.just("ratio"), st.floats(min_value=1e-300, allow_infinity=False)),
        st.tuples(st.just("difference"), numbers),
    )
    limits = plain if known.versus_baseline else st.one_of(plain, relative)
    return st.builds(
        lambda aggregate, op, limit: Condition(aggregate, op, limit[1], None if aggregate == "max" else limit[0]),
        aggregates,
        st.sampled_from(["<", "<=", ">", ">="]),
        limits,
    )


@given(thresholds())
@settings(deadline=None, max_examples=200)
def test_the_text_of_a_threshold_reads_as_the_same_threshold(threshold: Threshold) -> None:
    assert parse_threshold(str(threshold)) == threshold
    assert parse_threshold(str(threshold).replace(",", " , ").replace("<", " < ").replace("< =", "<=")) == threshold


@given(st.text(max_size=60))
@settings(deadline=None, max_examples=200)
def test_any_text_is_read_or_refused_with_a_sentence(text: str) -> None:
    with contextlib.suppress(ThresholdError):
        assert parse_threshold(text).metric in text


def test_in_a_scenario(build: Build) -> None:
    scenario = build(
        {
            **TWO_ARMS,
            "thresholds": [
                "ttft_s{arm:candidate,task_type:code,stage:c4,concurrency:4}: p(95)<=1.05 * baseline",
                {
                    "threshold": "error_share: rate<0.01",
                    "min_samples": 200,
                    "abort_on_fail": True,
                    "delay_abort_eval_s": 10.0,
                },
            ],
        }
    )
    first, second = scenario.parsed_thresholds
    assert (first.metric, first.min_samples, first.abort_on_fail) == ("ttft_s", None, False)
    assert (second.min_samples, second.abort_on_fail, second.delay_abort_eval_s) == (200, True, 10.0)
    assert read_thresholds(scenario.model_dump(mode="json")["thresholds"]) == (first, second)
    assert build({}).baseline == "baseline"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"thresholds": ["ttft: p(95)<1"]}, "thresholds.0: ttft is no metric; did you mean ttft_s?"),
        (
            {"thresholds": ["ttft_s{arm:candidat}: p(95)<1"], **TWO_ARMS},
            "thresholds.0: arm:candidat is not in this scenario; did you mean candidate? allowed: baseline, candidate",
        ),
        ({"thresholds": ["ttft_s{task_type:coding}: p(95)<1"]}, "did you mean code?"),
        ({"thresholds": ["ttft_s{stage:c5}: p(95)<1"]}, "stage:c5 is not in this scenario; allowed: c4"),
        ({"thresholds": ["ttft_s{concurrency:5}: p(95)<1"]}, "allowed: 4"),
        ({"thresholds": ["ttft_s{input_segment:long}: p(95)<1"]}, "input_segment:128-511"),
        ({"thresholds": ["ttft_s: p(95)<baseline"]}, "this scenario has one arm"),
        ({"thresholds": ["speedup: value>=1"]}, "this scenario has one arm"),
        ({"thresholds": ["ttft_s{arm:baseline}: p(95)<baseline"], **TWO_ARMS}, "it is the baseline"),
        ({"thresholds": ["goodput_requests_per_s: value>1"]}, "needs slos"),
        ({"thresholds": [{"threshold": "ttft_s: p95<1"}]}, "thresholds.0.threshold: p95 is no aggregate"),
        ({"thresholds": [{"threshold": "ttft_s: p(95)<1", "min_sample": 3}]}, "did you mean min_samples?"),
        ({"thresholds": [{"ttft_s": "p(95)<1"}]}, 'put the threshold in quotes: "ttft_s: p(95)<1"'),
        (
            {"thresholds": [{"threshold": "speedup: value>=1", "abort_on_fail": True}], **TWO_ARMS},
            "speedup is not known while the run goes on; allowed: ttft_s",
        ),
        (
            {"thresholds": [{"threshold": "ttft_s{input_segment:0-127}: p(95)<1", "abort_on_fail": True}]},
            "input_segment is not known while the run goes on",
        ),
        (
            {"thresholds": [{"threshold": "ttft_s: p(95)<1", "delay_abort_eval_s": 5}]},
            "delay_abort_eval_s: has no meaning without abort_on_fail",
        ),
        ({"thresholds": [{"threshold": "ttft_s: p(95)<1", "min_samples": 0}]}, "min_samples: must be at least 1"),
        ({"thresholds": "ttft_s: p(95)<1"}, "thresholds: must be a list"),
    ],
)
def test_what_a_scenario_refuses(refused: Refused, changes: dict[str, Any], problem: str) -> None:
    problems = refused(changes)
    assert len(problems) == 1, problems
    assert problem in problems[0]


def test_a_wrong_threshold_is_named_with_its_line(write: Callable[[str], Any]) -> None:
    """F16: a limit that is not understood is never ignored."""
    path = write(
        "version: 1\nname: x\nenvironment: disposable\narms: {baseline: {url: 'http://127.0.0.1:1'}}\n"
        "workload:\n  tasks:\n    - task_type: code\n      input_len: {kind: fixed, value: 64}\n"
        "      output_len: {kind: fixed, value: 32}\nload:\n  - {kind: concurrency, concurrency: 4, cases: 20}\n"
        "thresholds:\n  - 'ttft_s: p(95)<1'\n  - 'tpot_ms: p(95)<1'\n"
    )
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    (problem,) = caught.value.problems
    assert problem.startswith(f"{path}:14: thresholds.1: tpot_ms is no metric; did you mean tpot_s?")
