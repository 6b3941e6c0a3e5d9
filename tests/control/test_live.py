"""Live thresholds: three failing windows in a row, of both sides where the baseline is compared."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.control import LIVE_TIMES, LiveThresholds, Sample
from loadgen.control.live import KEPT, Seen, breaks, least_samples, look, value_of
from loadgen.plan import Segment, build_plan
from loadgen.scenario import Condition, LoadedScenario, Scenario, Threshold, read_thresholds

ARMS = ("baseline", "candidate")


@pytest.fixture(scope="module")
def segments() -> dict[int, Segment]:
    length = {"kind": "fixed", "value": 32}
    content = {
        "version": 1,
        "name": "live",
        "environment": "disposable",
        "arms": {name: {"url": f"http://127.0.0.1:{i + 1}"} for i, name in enumerate(ARMS)},
        "workload": {"tasks": [{"task_type": "code", "input_len": length, "output_len": length}]},
        "load": [
            {"kind": "concurrency", "concurrency": 4, "cases": 40},
            {"kind": "arrival_rate", "rate_per_s": 2.5, "duration_s": 20},
        ],
        "repeats": 1,
    }
    plan = build_plan(LoadedScenario(Scenario.model_validate(content), None, ""))
    return {s.number: s for s in plan.segments}


def number(segments: dict[int, Segment], arm: str, stage: str = "c4") -> int:
    return next(n for n, s in segments.items() if (s.arm, s.stage, s.phase) == (arm, stage, "measure"))


def watching(text: str, arms: tuple[str, ...] = ARMS, **keys: Any) -> LiveThresholds:
    item = {"threshold": text, "abort_on_fail": True, **keys}
    return LiveThresholds(read_thresholds([item]), arms, arms[0])


def samples(segment: int, value: float, n: int, task: str = "code", failed: bool | None = False) -> list[Sample]:
    times: tuple[float | None, ...] = (value if failed is False else inf,) * len(LIVE_TIMES)
    return [Sample(segment, task, failed, times)] * n


def test_three_failing_windows_in_a_row_end_the_run(segments: dict[int, Segment]) -> None:
    """Two are chance; one good one between them begins the count again."""
    live, here = watching("ttft_s: p(95)<0.5"), number(segments, "candidate")
    at = 0.0
    for value in (0.8, 0.8, 0.4, 0.8, 0.8):
        at += 6
        live.take(samples(here, value, 30), segments, at)
        assert live.decide(at).action == "continue"
    live.take(samples(here, 0.9, 30), segments, at + 6)
    decision = live.decide(at + 6)
    assert decision.action == "abort"
    assert decision.reason == (
        "the threshold ttft_s{arm:candidate}: p(95)<0.5 failed in 3 live windows in a row: "
        "0.8 s (limit 0.5 s, n = 30), 0.8 s (limit 0.5 s, n = 30), 0.9 s (limit 0.5 s, n = 30)"
    )


def test_a_window_waits_for_time_and_for_requests(segments: dict[int, Segment]) -> None:
    """Neither many requests at once nor a long time with few of them is a window."""
    live, here = watching("ttft_s: p(95)<0.5"), number(segments, "candidate")
    live.take(samples(here, 9.0, 5000), segments, 0.1)
    assert [live.decide(0.1 * i).action for i in range(1, 49)] == ["continue"] * 48
    assert live.decide(5.0).action == "continue"
    live.take(samples(here, 9.0, 19), segments, 100.0)
    assert live.decide(100.0).action == "continue"
    live.take(samples(here, 9.0, 1), segments, 101.0)
    assert live.decide(101.0).action == "continue"
    live.take(samples(here, 9.0, 20), segments, 106.0)
    assert live.decide(106.0).action == "abort"


def test_relative_limits_need_the_baseline_in_the_same_window(segments: dict[int, Segment]) -> None:
    """Candidate alone, then baseline alone: the window spans both; a slow moment of both is no fault of one."""
    live = watching("ttft_s: p(50)<=1.5 * baseline")
    mine, base = number(segments, "candidate"), number(segments, "baseline")
    at = 0.0
    for slow in (1.0, 10.0, 1.0, 10.0):
        at += 6
        live.take(samples(mine, 1.4 * slow, 20), segments, at)
        assert live.decide(at).action == "continue"
        live.take(samples(base, slow, 20), segments, at + 6)
        at += 6
        assert live.decide(at).action == "continue"
    for i in range(3):
        at += 6
        live.take([*samples(mine, 1.6, 20), *samples(base, 1.0, 20)], segments, at)
        assert (live.decide(at).action == "abort") == (i == 2)


def test_failed_requests_count_as_infinite_and_in_the_error_share(segments: dict[int, Segment]) -> None:
    """F10, F17: a server that fails fast does not look fast."""
    here = number(segments, "candidate")
    for text, word in (("total_time_s: p(95)<10", "∞"), ("error_share: rate<0.05", "0.1")):
        live = watching(text)
        for i in range(1, 4):
            live.take(samples(here, 0.1, 18) + samples(here, 0.0, 2, failed=True), segments, 6.0 * i)
            decision = live.decide(6.0 * i)
        assert decision.action == "abort"
        assert decision.reason is not None
        assert f"{word} " in decision.reason


def test_what_our_drain_cut_is_endless_but_no_error(segments: dict[int, Segment]) -> None:
    here = number(segments, "candidate")
    for text, action in (("total_time_s: p(95)<10", "abort"), ("error_share: rate<0.05", "continue")):
        live = watching(text)
        for i in range(1, 4):
            live.take(samples(here, 0.1, 20) + samples(here, 0.0, 2, failed=None), segments, 6.0 * i)
            decision = live.decide(6.0 * i)
        assert decision.action == action


@pytest.mark.parametrize(
    ("where", "counts"),
    [
        ("", True),
        ("{task_type:code}", True),
        ("{task_type:short_qa}", False),
        ("{stage:c4}", True),
        ("{stage:r2.5}", False),
        ("{concurrency:4}", True),
        ("{concurrency:8}", False),
        ("{rate_per_s:2.5}", False),
        ("{arm:candidate}", True),
        ("{arm:baseline}", False),
    ],
)
def test_selectors(segments: dict[int, Segment], where: str, counts: bool) -> None:
    live, here = watching(f"ttft_s{where}: avg<0.5"), number(segments, "candidate")
    for i in range(1, 4):
        live.take(samples(here, 2.0, 40), segments, 6.0 * i)
        decision = live.decide(6.0 * i)
    assert (decision.action == "abort") == counts


def test_the_delay_and_min_samples(segments: dict[int, Segment]) -> None:
    here = number(segments, "candidate")
    late = watching("ttft_s: avg<0.5", delay_abort_eval_s=60.0)
    many = watching("ttft_s: avg<0.5", min_samples=200)
    ends: list[float | None] = [None, None]
    for i in range(1, 30):
        at = 6.0 * i
        for j, live in enumerate((late, many)):
            live.take(samples(here, 2.0, 20), segments, at)
            if live.decide(at).action == "abort" and ends[j] is None:
                ends[j] = at
    assert ends == [60.0 + 18.0, 60.0 + 12.0]


def test_only_thresholds_that_say_so_are_watched() -> None:
    parsed = read_thresholds(["ttft_s: p(95)<1"])
    assert not LiveThresholds(parsed, ARMS, "baseline").any
    assert watching("ttft_s: p(95)<1").any


def test_one_arm_alone_is_watched(segments: dict[int, Segment]) -> None:
    live, here = watching("ttft_s: max<1", arms=("candidate",)), number(segments, "candidate")
    for i in range(1, 4):
        live.take(samples(here, 2.0, 20), segments, 6.0 * i)
        decision = live.decide(6.0 * i)
    assert decision.action == "abort"


def test_a_window_that_never_closes_stays_small(segments: dict[int, Segment]) -> None:
    """F14: a soak where the candidate sends nothing."""
    live, base = watching("ttft_s: p(50)<=1.5 * baseline"), number(segments, "baseline")
    live.take(samples(base, 1.0, 3 * KEPT), segments, 6.0)
    assert live.decide(6.0).action == "continue"
    (watch,) = live._watches
    assert len(watch._base) == KEPT


@pytest.mark.parametrize(("aggregate", "n"), [("p50", 20), ("p95", 20), ("p99", 100), ("p99.9", 1000), ("avg", 20)])
def test_what_a_percentile_needs(aggregate: str, n: int) -> None:
    """F2: the p99 of 20 requests is their maximum."""
    assert least_samples(Condition(aggregate, "<", 1.0)) == n


@given(values=st.lists(st.floats(0, 100), min_size=1, max_size=60), percent=st.sampled_from([1, 25, 50, 90, 95, 99.9]))
def test_percentiles_are_nearest_rank(values: list[float], percent: float) -> None:
    expected = np.percentile(values, percent, method="inverted_cdf")
    assert value_of(values, f"p{percent:g}") == expected
    assert value_of(values, "max") == max(values)
    assert value_of([*values, inf], "avg") == pytest.approx(sum(values) / len(values))


def test_of_nothing_there_is_no_value() -> None:
    assert [value_of([], a) for a in ("p50", "max", "avg")] == [None] * 3
    assert look(Condition("p50", "<", 1.0, "ratio"), [1.0], []) is None
    assert look(Condition("p50", "<", 0.5, "difference"), [1.0], [2.0]) == Seen(1.0, 2.5, 1)


@pytest.mark.parametrize(
    ("op", "value", "broken"),
    [("<", 1.0, True), ("<=", 1.0, False), ("<=", 1.1, True), (">", 1.0, True), (">=", 1.0, False), (">=", 0.9, True)],
)
def test_limits_at_their_boundaries(op: Any, value: float, broken: bool) -> None:
    assert breaks(Condition("avg", op, 1.0), Seen(value, 1.0, 20)) == broken


def test_two_infinite_sides_are_no_failure_of_one() -> None:
    """Baseline and candidate both fail: nothing is shown against the candidate."""
    assert not breaks(Condition("p95", "<", 1.05, "ratio"), Seen(inf, inf, 20))


def test_threshold_of_the_scenario_is_what_is_watched() -> None:
    (parsed,) = read_thresholds([{"threshold": "ttft_s: p(95)<1", "abort_on_fail": True, "delay_abort_eval_s": 3.0}])
    assert parsed == Threshold("ttft_s", (), (Condition("p95", "<", 1.0),), None, True, 3.0)
