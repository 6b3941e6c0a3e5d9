"""Every rule of the models: what is wrong is refused in one sentence that names the key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.scenario import ArrivalStage, ConcurrencyStage, LogNormal, Normal, Scenario

Refused = Callable[[dict[str, Any]], list[str]]
Build = Callable[[dict[str, Any]], Scenario]

TASK = "workload.tasks.0"
URL = "arms.baseline.url"

ARMS = [
    ({URL: "localhost:8001"}, f"{URL}: must be a URL like http://host:8000"),
    ({URL: "ftp://host"}, f"{URL}: must be a URL like"),
    ({URL: "http://"}, f"{URL}: must be a URL like"),
    ({URL: "http://host:99999"}, f"{URL}: is not a URL"),
    ({URL: "http://host:0"}, f"{URL}: must name a port"),
    ({URL: "http://[::1"}, f"{URL}: is not a URL"),
    ({URL: "http://ho st"}, f"{URL}: must be a URL without spaces"),
    ({URL: "http://host/v1/"}, f"{URL}: must end before /v1"),
    ({URL: "http://host?a=1"}, f"{URL}: must have no query"),
    ({URL: "http://host#a"}, f"{URL}: must have no fragment"),
    ({URL: None}, "arms.baseline: needs url (one server) or urls"),
    ({"arms.baseline.urls": ["http://a"]}, f"{URL}: contradicts urls"),
    ({URL: None, "arms.baseline.urls": ["http://a", "http://a/"]}, "arms.baseline.urls.1: is in the list twice"),
    ({"arms.baseline.metrics_urls": ["http://a/m", "http://a/m"]}, "arms.baseline.metrics_urls.1: is in the list"),
    ({"arms.baseline.api_key": {}}, "arms.baseline.api_key: needs either env"),
    ({"arms.baseline.api_key": {"env": "A", "file": "b"}}, "arms.baseline.api_key: needs either env"),
    ({"arms.baseline.headers": {"X Y": "1"}}, "arms.baseline.headers.X Y: is not a header name"),
    ({"arms.baseline.headers": {"Host": "h"}}, "arms.baseline.headers.Host: is set by specload itself"),
    ({"arms.baseline.headers": {"X": "a\nb"}}, "arms.baseline.headers.X: must be one line"),
    (
        {"arms.baseline.headers": {"authorization": "x"}, "arms.baseline.api_key": {"env": "A"}},
        "arms.baseline.headers.authorization: contradicts api_key",
    ),
    ({"arms.baseline.speculation": "off", "arms.baseline.spec_method": "eagle"}, "arms.baseline.spec_method: contra"),
    ({"arms": {}}, "arms: must not be empty"),
    ({"arms.Big": {"url": "http://a"}}, "arms.Big: must match"),
    ({"arms.baseline.facts": {"gpu": ["a"]}}, "arms.baseline.facts.gpu: must be text, a number, or true or false"),
]
WORKLOAD = [
    ({"workload.tasks": []}, "workload.tasks: must not be empty"),
    ({f"{TASK}.weight": 0}, "workload.tasks: at least one weight must be above 0"),
    ({f"{TASK}.weight": -1}, f"{TASK}.weight: must be at least 0 (got -1)"),
    ({f"{TASK}.task_type": "chat"}, f'{TASK}.task_type: "chat" has no generator (short_qa, long_form'),
    ({f"{TASK}.output_len": None}, f"{TASK}: generated prompts need input_len and output_len, or lengths"),
    ({f"{TASK}.lengths": {"pairs": [[1, 2]]}}, f"{TASK}.lengths: contradicts input_len and output_len"),
    ({f"{TASK}.prompts": "x.jsonl"}, f"{TASK}.input_len: contradicts prompts"),
    ({f"{TASK}.json_schema": True}, f"{TASK}.json_schema: only generated prompts of task_type structured"),
    ({f"{TASK}.input_len": {"kind": "fixed", "value": 0}}, f"{TASK}.input_len.value: must be at least 1 (got 0)"),
    ({f"{TASK}.input_len": {"kind": "fixed", "value": -5}}, f"{TASK}.input_len.value: must be at least 1 (got -5)"),
    ({f"{TASK}.input_len": {"kind": "fixed", "value": 10**11}}, f"{TASK}.input_len.value: must be at most 10,000,000"),
    ({f"{TASK}.input_len": {"kind": "zipf"}}, f"{TASK}.input_len.kind: must be one of fixed, uniform, normal"),
    ({f"{TASK}.input_len": {"value": 3}}, f"{TASK}.input_len.kind: is missing"),
    ({f"{TASK}.input_len": 64}, f"{TASK}.input_len: must be a mapping"),
    ({f"{TASK}.input_len": {"kind": "empirical", "values": []}}, f"{TASK}.input_len.values: must not be empty"),
    ({f"{TASK}.input_len": {"kind": "uniform", "low": 9, "high": 8}}, f"{TASK}.input_len.low: must not be above high"),
    ({"workload.shared_prefix": {"fraction": 0.5}}, "workload.shared_prefix: fraction (0.5) and tokens (0)"),
    ({"workload.shared_prefix": {"tokens": 5}}, "workload.shared_prefix: fraction (0) and tokens (5)"),
    ({"workload.shared_prefix": 0.5}, "workload.shared_prefix: say fraction (0–1) and tokens"),
    ({"workload.stream_fraction": 50}, "workload.stream_fraction: must be at most 1 (got 50)"),
    ({"sampling.top_k": 0}, "sampling.top_k: must be -1 (off) or at least 1 (got 0)"),
    ({"sampling.stop": ["a", ""]}, "sampling.stop.1: must not be empty"),
    ({"sampling.extra": {"temperature": 1}}, "sampling.extra.temperature: is set by sampling.temperature"),
    ({"sampling.extra": {"stream": False}}, "sampling.extra.stream: is set by workload.stream_fraction"),
    ({"sampling.extra": {"messages": []}}, "sampling.extra.messages: is set by workload"),
    ({"sampling.min_tokens": 33}, f"sampling.min_tokens: 33 is above the shortest output (32) of {TASK}"),
    ({f"{TASK}.sampling": {"min_tokens": 33}}, f"{TASK}.sampling.min_tokens: 33 is above the shortest output"),
]
LOAD = [
    ({"load": []}, "load: must not be empty"),
    ({"load.0.kind": "closed"}, "load.0.kind: must be one of concurrency, arrival_rate"),
    ({"load.0.cases": None}, "load.0: needs cases (end by number of requests) or duration_s"),
    ({"load.0.cases": 3}, "load.0.cases: must be at least concurrency (4)"),
    ({"load.0.concurrency": 0}, "load.0.concurrency: must be at least 1 (got 0)"),
    ({"load.0.concurrency": 2.5}, "load.0.concurrency: must be a whole number, or a ramp {start, end} (got 2.5)"),
    ({"load.0.concurrency": "4"}, "load.0.concurrency: must be a whole number, or a ramp {start, end} (got the text"),
    ({"load.0.concurrency": True}, "load.0.concurrency: must be a whole number, or a ramp {start, end} (got true)"),
    ({"load.0.concurrency": {"start": 1}}, "load.0.concurrency.end: is missing"),
    ({"load.0.concurrency": {"start": 0, "end": 0}}, "load.0.concurrency: a ramp from 0 to 0 sends nothing"),
    ({"load.0.concurrency": {"start": 1, "end": -2}}, "load.0.concurrency.end: must be at least 0 (got -2)"),
    ({"load.0.concurrency": {"start": 1, "end": 4}}, "load.0.duration_s: is missing: a ramp needs it"),
    ({"load.0": {"kind": "concurrency", "concurrency": {"start": 0.5, "end": 4}, "duration_s": 5}},
     "load.0.concurrency.start: must be a whole number of users"),
    ({"load.0.duration_s": 0}, "load.0.duration_s: must be above 0 (got 0)"),
    ({"load.0.duration_s": 1e300}, "load.0.duration_s: must be at most 10,000,000"),
    ({"load.0": {"kind": "arrival_rate", "rate_per_s": 0, "duration_s": 5}}, "load.0.rate_per_s: must be above 0"),
    ({"load.0": {"kind": "arrival_rate", "rate_per_s": {"start": 0, "end": 0}, "duration_s": 5}},
     "load.0.rate_per_s: a ramp from 0 to 0"),
    ({"load.0": {"kind": "arrival_rate", "rate_per_s": 1}}, "load.0.duration_s: is missing"),
    ({"load.0": {"kind": "arrival_rate", "rate_per_s": 0.1, "duration_s": 9}}, "load.0.duration_s: is too short: 0.9"),
    ({"load.0": {"kind": "arrival_rate", "rate_per_s": 1e300, "duration_s": 9}}, "load.0.duration_s: is too long"),
    ({"load.0": {"kind": "arrival_rate", "rate_per_s": 1, "duration_s": 9, "burstiness": 0.5}},
     "load.0.burstiness: contradicts arrivals: poisson"),
    ({"load.0.name": "has space"}, "load.0.name: must match"),
    ({"load.0.name": ""}, "load.0.name: must match"),
]  # fmt: skip
REST = [
    ({"version": 2}, "version: must be 1 (got 2)"),
    ({"name": "../x"}, "name: must match"),
    ({"seed": -1}, "seed: must be at least 0"),
    ({"seed": 1.0}, "seed: must be a whole number (got 1.0)"),
    ({"repeats": 0}, "repeats: must be at least 1 (got 0)"),
    ({"deadlines.connect_s": 0}, "deadlines.connect_s: must be above 0"),
    ({"safety.max_cost": 5}, "safety.max_cost: needs price_per_million_output_tokens"),
    ({"safety.abort_error_share": "20%"}, 'safety.abort_error_share: must be a number (got the text "20%")'),
    ({"safety.abort_error_share": 20}, "safety.abort_error_share: must be at most 1 (got 20)"),
    ({"scrape.interval_s": 0.1}, "scrape.interval_s: must be at least 0.2 (got 0.1)"),
    ({"workload.keep_text": 1}, "workload.keep_text: must be true or false (got 1)"),
]


@pytest.mark.parametrize(("changes", "expected"), ARMS + WORKLOAD + LOAD + REST)
def test_refused_with_one_sentence_that_names_the_key(refused: Refused, changes: dict[str, Any], expected: str) -> None:
    problems = refused(changes)
    assert len(problems) == 1
    assert problems[0].startswith(expected)


@pytest.mark.parametrize("warmup", [10, 0.9, "10%"])
def test_warmup_without_a_unit_is_refused(refused: Refused, warmup: Any) -> None:
    """F4: 10 and 0.9 have been read as a percentage, a count and a fraction."""
    assert refused({"warmup": warmup}) == [
        "warmup: say warmup_requests (a count) or warmup_seconds: a bare number has no unit"
    ]


def test_sampling_is_always_complete(build: Build) -> None:
    """F18, H9: no parameter is left to the server's defaults."""
    assert set(build({}).sampling.model_dump()) == {
        "temperature", "top_p", "top_k", "seed", "stop", "ignore_eos", "min_tokens", "extra",
    }  # fmt: skip
    assert build({}).sampling.temperature == 0.0
    assert build({}).sampling.top_k == -1


def test_stages_without_names_are_called_after_their_load(build: Build) -> None:
    def closed(concurrency: Any, **more: Any) -> dict[str, Any]:
        return {"kind": "concurrency", "concurrency": concurrency, "duration_s": 9, **more}

    def opened(rate: Any) -> dict[str, Any]:
        return {"kind": "arrival_rate", "rate_per_s": rate, "duration_s": 9}

    ramp = {"start": 1, "end": 8}
    stages = [closed(4), closed(ramp), opened(2.5), opened(ramp), closed(4), closed(4), closed(2, name="c4_2")]
    names = [stage.name for stage in build({"load": stages}).load]
    assert names == ["c4", "c1-8", "r2.5", "r1-8", "c4_3", "c4_4", "c4_2"]


def test_a_name_that_was_given_twice_is_refused(refused: Refused) -> None:
    stage = {"kind": "concurrency", "concurrency": 1, "cases": 1, "name": "same"}
    assert refused({"load": [stage, dict(stage)]}) == [
        'load.1.name: "same" is the name of an earlier stage too: names must be unique'
    ]


def test_loads_above_a_cap_name_both_keys(refused: Refused) -> None:
    problems = refused(
        {
            "environment": "production",
            "load": [
                {"kind": "concurrency", "concurrency": 65, "cases": 100},
                {"kind": "concurrency", "concurrency": {"start": 70, "end": 1}, "duration_s": 5},
                {"kind": "arrival_rate", "rate_per_s": {"start": 1, "end": 10.5}, "duration_s": 5},
                {"kind": "arrival_rate", "rate_per_s": 1, "duration_s": 5, "max_in_flight": 65},
            ],
        }
    )
    concurrency = "safety.max_concurrency (64, environment: production): lower one, or raise the other"
    assert problems == [
        f"load.0.concurrency: 65 is above {concurrency}",
        f"load.1.concurrency: 70 is above {concurrency}",
        "load.2.rate_per_s: 10.5 is above safety.max_requests_per_second (10, environment: production): "
        "lower one, or raise the other",
        f"load.3.max_in_flight: 65 is above {concurrency}",
    ]


def test_loads_at_a_cap_are_allowed(build: Build) -> None:
    scenario = build({"environment": "production", "load.0": {"kind": "concurrency", "concurrency": 64, "cases": 2000}})
    assert scenario.load[0].peak == 64


def test_more_requests_than_the_cap_are_refused(refused: Refused) -> None:
    assert refused({"environment": "production", "repeats": 2, "load.0.cases": 1001}) == [
        "load: 2002 requests (1001 × 2 repeats × 1 arms) are above safety.max_requests "
        "(2000, environment: production): lower one, or raise the other"
    ]


def test_raising_a_cap_is_allowed_because_it_is_written_down(build: Build) -> None:
    changes = {
        "environment": "production",
        "safety.max_concurrency": 200,
        "load.0.concurrency": 150,
        "load.0.cases": 150,
    }
    assert build(changes).load[0].peak == 150


@pytest.mark.parametrize(("environment", "expected"), [("production", 64), ("staging", 512), ("disposable", 1000)])
def test_an_unset_max_in_flight_is_the_cap(build: Build, environment: str, expected: int) -> None:
    stage = build(
        {"environment": environment, "load.0": {"kind": "arrival_rate", "rate_per_s": 1, "duration_s": 5}}
    ).load[0]
    assert isinstance(stage, ArrivalStage)
    assert stage.max_in_flight == expected


def test_a_stage_may_end_by_cases_or_time_whichever_comes_first(build: Build) -> None:
    stage = build({"load.0.duration_s": 5}).load[0]
    assert isinstance(stage, ConcurrencyStage)
    assert (stage.cases, stage.duration_s) == (20, 5)


@pytest.mark.parametrize(
    ("low", "high", "allowed"),
    [(1, None, True), (100, 100, True), (1, 50, False), (150, None, False), (77, None, True), (124, None, False)],
)
def test_bounds_must_leave_some_of_a_normal(low: int, high: int | None, allowed: bool) -> None:
    """Mean 100, standard deviation 10: 124 − 0.5 is 2.35 deviations away, which leaves 0.94 %."""
    values = {"kind": "normal", "mean": 100, "stddev": 10, "low": low, "high": high}
    if allowed:
        assert Normal.model_validate(values).low == low
    else:
        with pytest.raises(ValueError, match="of the distribution; at least 1% is needed"):
            Normal.model_validate(values)


def test_bounds_must_leave_some_of_a_lognormal() -> None:
    values = {"kind": "lognormal", "median": 100, "sigma": 0.5}
    assert LogNormal.model_validate(values | {"low": 300}).low == 300  # ln 3 is 2.19 sigma: 1.4 %
    with pytest.raises(ValueError, match="of the distribution"):
        LogNormal.model_validate(values | {"low": 330})  # 2.39 sigma: 0.85 %


@pytest.mark.parametrize(("mean", "allowed"), [(10, True), (21, False)])
def test_without_spread_the_mean_must_lie_within_the_bounds(mean: int, allowed: bool) -> None:
    values = {"kind": "normal", "mean": mean, "stddev": 0, "low": 5, "high": 20}
    if allowed:
        assert Normal.model_validate(values).mean == mean
    else:
        with pytest.raises(ValueError, match=r"0\.00% of the distribution"):
            Normal.model_validate(values)


@given(start=st.integers(0, 40), end=st.integers(0, 40))
def test_concurrency_ramps_are_allowed_unless_they_stay_at_zero(start: int, end: int) -> None:
    values = {"kind": "concurrency", "concurrency": {"start": start, "end": end}, "duration_s": 10}
    if start == end == 0:
        with pytest.raises(ValueError, match="sends nothing"):
            ConcurrencyStage.model_validate(values)
    else:
        assert ConcurrencyStage.model_validate(values).peak == max(start, end)


def test_models_do_not_change(build: Build) -> None:
    scenario = build({})
    with pytest.raises(ValueError, match="frozen"):
        scenario.seed = 3  # type: ignore[misc]


def test_a_dumped_scenario_is_a_scenario(build: Build) -> None:
    """The manifest keeps the resolved scenario: it must read back, with names and caps filled in."""
    stage = {"kind": "arrival_rate", "rate_per_s": 1, "duration_s": 5}
    scenario = build(
        {"environment": "production", "load": [stage, dict(stage)], "arms.baseline.headers": {"X-Key": "secret"}}
    )
    assert Scenario.model_validate(scenario.model_dump()) == scenario
    assert Scenario.model_validate_json(scenario.model_dump_json()).load == scenario.load
    assert "secret" not in scenario.model_dump_json()
