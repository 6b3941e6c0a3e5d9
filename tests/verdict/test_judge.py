"""Three-valued: within the limit, beyond it, or not shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from loadgen.scenario import METRICS, parse_threshold
from loadgen.verdict import Facts, Verdict, default_thresholds, judge, obstacles, verdict_schema

VerdictOf = Callable[..., Verdict]
TWO = Facts("r-1", ("baseline", "candidate"), "baseline", "interleaved", True, 24)


@pytest.mark.parametrize(
    ("condition", "interval", "ok"),
    [
        ("p(95)<=0.5", (0.3, 0.5), True),
        ("p(95)<0.5", (0.3, 0.5), None),
        ("p(95)<=0.5", (0.5, 0.6), None),
        ("p(95)<0.5", (0.5, 0.6), False),
        ("p(95)<=0.5", (0.51, 0.6), False),
        ("p(95)<=0.5", (0.4, 0.51), None),
        ("p(95)>=0.5", (0.5, 0.6), True),
        ("p(95)>0.5", (0.5, 0.6), None),
        ("p(95)>=0.5", (0.4, 0.49), False),
        ("p(95)>0.5", (0.4, 0.5), False),
        ("p(95)>=0.5", (0.4, 0.5), None),
        ("p(95)<=0.5", (0.6, inf), False),
        ("p(95)<=0.5", (0.4, inf), None),
        ("p(95)<=0.5", (inf, inf), False),
    ],
)
def test_an_interval_against_a_limit(
    verdict_of: VerdictOf, made: Any, condition: str, interval: tuple[float, float], ok: bool | None
) -> None:
    low, high = interval
    found = verdict_of({f"ttft_s: {condition}": made((low + high) / 2, low, high)}, one=True)
    (result,) = found.thresholds
    assert result.ok is ok
    assert found.verdict == {True: "pass", False: "fail", None: "inconclusive"}[ok]
    assert found.thresholds_from == "scenario"
    assert (found.baseline, found.paired) == (None, None)


@given(low=st.floats(-10, 10), width=st.floats(0, 10), limit=st.floats(-10, 10), strict=st.booleans())
def test_a_lower_limit_is_the_mirror_of_an_upper_one(low: float, width: float, limit: float, strict: bool) -> None:
    from loadgen.verdict.judge import _within

    class Number:
        def __init__(self, low: float, high: float) -> None:
            self.value, self.low, self.high = (low + high) / 2, low, high

    def condition(op: str, value: float) -> Any:
        (parsed,) = parse_threshold(f"ttft_s: avg{op}{value!r}").conditions
        return parsed

    op = ("<", ">") if strict else ("<=", ">=")
    upper = _within(Number(low, low + width), condition(op[0], limit))  # type: ignore[arg-type]
    assert _within(Number(-(low + width), -low), condition(op[1], -limit)) is upper  # type: ignore[arg-type]


def test_every_number_of_the_contract_is_there(verdict_of: VerdictOf, made: Any) -> None:
    found = verdict_of({"ttft_s{task_type:code}: p(95)<=1.05 * baseline": made(0.98, 0.95, 1.02)})
    (result,) = found.thresholds
    assert result.name == "ttft_s{task_type:code,arm:candidate}: p(95)<=1.05 * baseline"
    assert result.sentence == (
        f"{result.name}: pass: 0.98 × baseline [0.95 × baseline, 1.02 × baseline], limit 1.05 × baseline, "
        "n = 480 requests"
    )
    assert (result.value, result.interval, result.limit, result.n, result.unit) == (0.98, (0.95, 1.02), 1.05, 480, "×")
    assert found.reasons == ["the threshold is met", result.sentence]
    data = orjson.loads(orjson.dumps(found.model_dump(mode="json")))
    assert data["schema"] == 1
    assert {"verdict", "reasons", "thresholds", "run_id"} <= set(data)
    assert {"name", "value", "limit", "ok", "n", "interval"} <= set(data["thresholds"][0])
    Draft202012Validator.check_schema(verdict_schema())
    Draft202012Validator(verdict_schema()).validate(data)
    assert Verdict.model_validate(data) == found


def test_infinities_are_null_with_a_reason_in_the_file(verdict_of: VerdictOf, made: Any) -> None:
    """F12: strict JSON. F10: failures are part of the percentile."""
    found = verdict_of({"ttft_s: p(99)<=1": made(inf, 3.0, inf)}, one=True)
    (result,) = found.thresholds
    assert (found.verdict, result.value, result.interval) == ("fail", None, (3.0, None))
    assert result.reason == "failed requests count as +∞, and this percentile falls among them"
    assert result.sentence.startswith("ttft_s: p(99)<=1: fail: ∞ [3 s, ∞], limit 1 s, n = 480 requests")
    Draft202012Validator(verdict_schema()).validate(orjson.loads(orjson.dumps(found.model_dump(mode="json"))))


def test_an_upper_limit_that_the_sample_cannot_give_is_not_put_down_to_failures(
    verdict_of: VerdictOf, made: Any
) -> None:
    """F10: no request failed."""
    why = "not enough data for an upper limit: the tail above holds 3 requests"
    found = verdict_of({"ttft_s: p(99)<=1": made(3.0, 2.0, inf, reason=why)}, one=True)
    assert (found.verdict, found.thresholds[0].reason) == ("fail", why)
    assert found.reasons == [f"ttft_s: p(99)<=1: fail: 3 s [2 s, ∞], limit 1 s, n = 480 requests: {why}"]
    undecided = verdict_of({"ttft_s: p(99)<=2.5": made(3.0, 2.0, inf, reason=why)}, one=True).thresholds[0]
    assert undecided.reason == f"the interval holds the limit: more blocks or repeats would narrow it; {why}"


@pytest.mark.parametrize(("value", "word"), [(0.5, "fail"), (1.0, "inconclusive"), (1.5, "pass")])
def test_what_is_left_out_of_a_number_is_said_whatever_is_decided(
    verdict_of: VerdictOf, made: Any, value: float, word: str
) -> None:
    note = "8 blocks left out: not driven to their end in both arms"
    found = verdict_of({"speedup_decode: value>=1": made(value, value - 0.1, value + 0.1, reason=note)})
    assert found.verdict == word
    assert str(found.thresholds[0].reason).endswith(note)
    assert found.thresholds[0].sentence.endswith(note)


def test_too_few_samples_are_inconclusive_and_say_how_many_it_takes(verdict_of: VerdictOf, made: Any) -> None:
    """F2: no percentile of one sample decides."""
    few = made(0.2, None, None, n=12, reason="not enough data: there are 5", needs_n=20, unit="blocks")
    found = verdict_of({"ttft_s: p(95)<=0.5": few}, one=True)
    assert found.verdict == "inconclusive"
    assert found.reasons == [
        "ttft_s: p(95)<=0.5: inconclusive: 0.2 s, limit 0.5 s, n = 12 blocks: not enough data: there are 5; "
        "at least 20 blocks are needed"
    ]
    nothing = verdict_of({"ttft_s: p(95)<=0.5": made(n=0, reason="no request was streamed")}, one=True)
    assert nothing.reasons == ["ttft_s: p(95)<=0.5: inconclusive: no request was streamed"]


@pytest.mark.parametrize(("sent", "ok"), [(199, None), (200, True)])
def test_min_samples(made: Any, answers: Any, sent: int, ok: bool | None) -> None:
    threshold = replace(parse_threshold("ttft_s: p(95)<1"), min_samples=200)
    found = judge([threshold], answers({"ttft_s": made(0.5, 0.4, 0.6)}, sent=sent), TWO)
    assert found is not None
    assert found.thresholds[0].ok is ok
    if ok is None:
        assert found.thresholds[0].reason == "199 requests are fewer than min_samples (200)"


def test_failing_is_corrected_for_the_number_of_conditions_and_passing_is_not(made: Any, answers: Any) -> None:
    """Bonferroni on the fail side: ten conditions, each must be beyond its limit at 99.5 %."""
    texts = [f"ttft_s: p({90 + i * 0.5})<=1" for i in range(10)]
    data = answers({"ttft_s": made(1.1, 1.01, 1.2)}, wider=0.05)
    found = judge([parse_threshold(t) for t in texts], data, TWO)
    assert found is not None
    assert found.verdict == "inconclusive"
    assert {r.ok for r in found.thresholds} == {None}
    assert found.thresholds[0].fail_level == pytest.approx(0.995)
    assert "beyond the limit at 95%, but not at 99.50%" in str(found.thresholds[0].reason)
    assert sorted({level for _, level in data.asked}) == [0.95, pytest.approx(0.995)]
    assert any("10 conditions were judged" in note for note in found.notes)
    alone = judge([parse_threshold(texts[0])], data, TWO)
    assert alone is not None
    assert alone.verdict == "fail"
    within = judge([parse_threshold(t) for t in texts], answers({"ttft_s": made(0.9, 0.8, 0.99)}, wider=0.05), TWO)
    assert within is not None
    assert within.verdict == "pass"


def test_one_failing_threshold_fails_the_run_and_comes_first(verdict_of: VerdictOf, made: Any) -> None:
    found = verdict_of(
        {
            "speedup: value>=1": made(1.4, 1.3, 1.5, unit="blocks"),
            "tpot_s: p(95)<=1.05 * baseline": made(1.04, 1.0, 1.1),
            "total_time_s: p(99)<=1.05 * baseline": made(3.0, 2.5, 3.5),
        }
    )
    assert [r.ok for r in found.thresholds] == [True, None, False]
    assert found.verdict == "fail"
    assert [reason.split(":")[0] for reason in found.reasons] == ["total_time_s{arm", "tpot_s{arm"]


def test_without_an_arm_every_candidate_is_judged(made: Any, answers: Any) -> None:
    data = answers({"ttft_s": made(0.5, 0.4, 0.6)})
    facts = replace(TWO, arms=("baseline", "draft", "ngram"))
    found = judge([parse_threshold("ttft_s: p(95)<1"), parse_threshold("ttft_s{arm:baseline}: p(95)<1")], data, facts)
    assert found is not None
    assert [r.arm for r in found.thresholds] == ["draft", "ngram", "baseline"]
    assert [dict(query.where)["arm"] for query, _ in data.asked] == ["draft", "ngram", "baseline"]


def test_defaults_with_two_arms_and_nothing_to_judge_with_one(made: Any, answers: Any) -> None:
    good = made(1.0, 1.0, 1.04)
    data = answers(dict.fromkeys(("speedup", "ttft_s", "tpot_s", "total_time_s"), good))
    found = judge([], data, TWO)
    assert found is not None
    assert found.thresholds_from == "defaults"
    assert [str(t) for t in default_thresholds(2)] == [
        "speedup: value>=1",
        "ttft_s: p(95)<=1.05 * baseline",
        "tpot_s: p(95)<=1.05 * baseline",
        "total_time_s: p(99)<=1.05 * baseline",
    ]
    assert found.verdict == "pass"
    assert judge([], data, replace(TWO, arms=("only",), baseline=None)) is None


def test_defaults_judge_each_of_several_stages(made: Any, answers: Any) -> None:
    """C18: a gain at one load does not hide a loss at another; eight conditions share the 5 % of false alarms."""
    data = answers(dict.fromkeys(("speedup", "ttft_s", "tpot_s", "total_time_s"), made(1.0, 1.0, 1.04)))
    found = judge([], data, replace(TWO, stages=("c1", "c8")))
    assert found is not None
    assert [r.name for r in found.thresholds] == [
        f"{metric}{{stage:{stage},arm:candidate}}: {rest}"
        for stage in ("c1", "c8")
        for metric, rest in (
            ("speedup", "value>=1"),
            ("ttft_s", "p(95)<=1.05 * baseline"),
            ("tpot_s", "p(95)<=1.05 * baseline"),
            ("total_time_s", "p(99)<=1.05 * baseline"),
        )
    ]
    assert [dict(query.where)["stage"] for query, _ in data.asked] == ["c1"] * 4 + ["c8"] * 4
    assert (found.verdict, found.thresholds[0].fail_level) == ("pass", pytest.approx(1 - 0.05 / 8))
    one = judge([], data, replace(TWO, stages=("c1",)))
    assert one is not None
    assert [r.where for r in one.thresholds] == [{"arm": "candidate"}] * 4


def test_a_threshold_over_several_stages_is_named(verdict_of: VerdictOf, made: Any) -> None:
    good = made(0.2, 0.1, 0.3)
    told = {"ttft_s: p(95)<1": good, "tpot_s{stage:c8}: p(95)<1": good, "total_time_s{concurrency:8}: p(95)<1": good}
    notes = verdict_of(told, stages=("c1", "c8")).notes
    assert "over all stages together (c1, c8): ttft_s: p(95)<1; {stage:…} tells them apart" in notes
    assert not [note for note in verdict_of(told, stages=("c8",)).notes if "all stages" in note]


def test_a_speedup_of_closed_and_open_loops_is_judged_stage_by_stage(verdict_of: VerdictOf, made: Any) -> None:
    good = made(1.2, 1.1, 1.3)
    told = {"speedup: value>=1": good, "speedup_net{arm:candidate}: value>=1": good}
    found = verdict_of(told, stages=("c1", "r6"), mixed=True)
    assert [r.name for r in found.thresholds] == [
        "speedup{stage:c1,arm:candidate}: value>=1",
        "speedup{stage:r6,arm:candidate}: value>=1",
        "speedup_net{arm:candidate}: value>=1",
    ]
    assert len(verdict_of(told, stages=("c1", "r6")).thresholds) == 2


def test_what_has_an_interval_is_the_first_of_what_is_undecided(verdict_of: VerdictOf, made: Any) -> None:
    few = made(1.0, None, None, reason="not enough data")
    found = verdict_of({"ttft_s: p(95)<1": few, "tpot_s: p(95)<1": made(1.0, 0.9, 1.1), "speedup: value>=1": few})
    assert [reason.split("{")[0] for reason in found.reasons] == ["tpot_s", "ttft_s", "speedup"]


@pytest.mark.parametrize(
    ("facts", "absolute", "relative", "errors", "words"),
    [
        ({}, "fail", "fail", "fail", None),
        (
            {"validity": "invalid", "validity_reasons": ("invalid: send lag 0.3 s", "doubtful: x")},
            "inconclusive",
            "inconclusive",
            "fail",
            "the measurement is invalid: send lag 0.3 s",
        ),
        ({"finished": False, "stop_reason": "Ctrl-C"}, "fail", "fail", "fail", "the run did not finish: Ctrl-C"),
        ({"shard": "0/4"}, "fail", "fail", "fail", "only share 0/4"),
        ({"differences": ("dtype: bf16, fp8",)}, "fail", "inconclusive", "fail", "environment: dtype"),
        ({"design": "parallel"}, "fail", "inconclusive", "fail", "comparison.swap"),
        ({"design": "parallel", "node_effects": ("tpot 1.1 ×",)}, "fail", "inconclusive", "fail", "tpot 1.1 ×"),
        ({"design": "parallel", "swapped": True}, "fail", "fail", "fail", None),
        (
            {"design": "parallel", "swapped": True, "unexchanged": ("c8: 20 before the exchange, 0 after it",)},
            "fail",
            "inconclusive",
            "fail",
            "not exchanged for half of the blocks: c8: 20 before",
        ),
        ({"design": "parallel", "node_effects": ()}, "fail", "fail", "fail", None),
    ],
)
def test_what_keeps_a_run_from_passing(
    verdict_of: VerdictOf,
    made: Any,
    facts: dict[str, Any],
    absolute: str,
    relative: str,
    errors: str,
    words: str | None,
) -> None:
    """F11, F16, H8: good numbers under an obstacle are inconclusive, never a pass; bad ones fail only where the
    obstacle leaves them their meaning."""
    bad, good = made(2.0, 1.9, 2.1), made(0.2, 0.1, 0.3)
    assert verdict_of({"ttft_s: p(95)<1": bad}, **facts).verdict == absolute
    assert verdict_of({"ttft_s: p(95)<1 * baseline": bad}, **facts).verdict == relative
    assert verdict_of({"speedup: value>=3": bad}, **facts).verdict == relative
    assert verdict_of({"error_share: rate<1": bad}, **facts).verdict == errors
    passing = verdict_of({"ttft_s: p(95)<1": good}, **facts)
    assert passing.verdict == ("pass" if words is None else "inconclusive")
    assert words is None or any(words in reason for reason in passing.reasons)
    assert (words is None) == (not passing.obstacles)


def test_the_largest_is_exact(verdict_of: VerdictOf, made: Any) -> None:
    """It has no interval: what was measured is within the limit or not."""
    largest = made(3.0, None, None, reason="an extreme has no interval")
    assert verdict_of({"ttft_s: max<=3": largest}, one=True).verdict == "pass"
    assert verdict_of({"ttft_s: max<3": largest}, one=True).verdict == "fail"


def test_a_failure_that_counts_for_nothing_says_why(verdict_of: VerdictOf, made: Any) -> None:
    """F16: no result contradicts its verdict."""
    found = verdict_of({"speedup: value>=1": made(0.8, 0.7, 0.9)}, differences=("dtype: bfloat16 against fp8",))
    (result,) = found.thresholds
    assert result.ok is None
    assert "counts for nothing here" in str(result.reason)
    assert "dtype" in str(result.reason)


def test_notes_say_what_limits_a_verdict(verdict_of: VerdictOf, made: Any) -> None:
    found = verdict_of(
        {"ttft_s: p(95)<1": made(0.2, 0.1, 0.3)},
        design="sequential",
        paired=False,
        validity="doubtful",
        validity_reasons=("doubtful: 2 % late",),
        noted=("client: another kernel",),
    )
    assert found.verdict == "pass"
    assert [note.split(":")[0] for note in found.notes] == [
        "measurement doubtful", "the arms were measured one after the other", "unpaired", "client",
    ]  # fmt: skip


def test_obstacles_of_a_good_run_are_none() -> None:
    assert obstacles(TWO) == []


def test_defaults_name_metrics_of_the_list() -> None:
    assert all(t.metric in METRICS for t in default_thresholds(2))
