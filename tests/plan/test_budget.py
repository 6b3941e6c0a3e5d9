"""A scenario fitted into a time: never over it, never for nothing, and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.errors import ScenarioError
from loadgen.plan import ASSUMED, AnswerTime, Fitted, build_plan, estimate, fit_budget
from loadgen.scenario import ConcurrencyStage, LoadedScenario, Scenario

Load = Callable[..., LoadedScenario]
QUICK = AnswerTime(0.1, 0.01, "as measured")
LENGTHS = {"input_len": {"kind": "fixed", "value": 64}, "output_len": {"kind": "fixed", "value": 90}}  # 1 s an answer
RATE = {"kind": "arrival_rate", "rate_per_s": 5.0, "duration_s": 200.0}


def loaded(load: list[dict[str, Any]], **keys: Any) -> LoadedScenario:
    arms = {"baseline": {"url": "http://one:1", "start": "a"}, "candidate": {"url": "http://two:2", "start": "b"}}
    document = {
        "version": 1,
        "name": "budget",
        "environment": "disposable",
        "arms": arms,
        "workload": {"tasks": [{"task_type": "code", **LENGTHS}]},
        "load": load,
        "warmup": {"warmup_requests": 4},
        **keys,
    }
    return LoadedScenario(Scenario.model_validate(document), None, "")


def closed(cases: int, concurrency: int = 4) -> dict[str, Any]:
    return {"kind": "concurrency", "concurrency": concurrency, "cases": cases}


def cases_of(fitted: Fitted, stage: int = 0) -> int:
    found = fitted.loaded.scenario.load[stage]
    assert isinstance(found, ConcurrencyStage)
    assert found.cases is not None
    return found.cases


def test_what_fits_is_left_alone() -> None:
    scenario = loaded([closed(80)])
    fitted = fit_budget(scenario, 3600, QUICK)
    assert fitted.loaded is scenario
    assert (fitted.changed, fitted.share, fitted.wider) == (False, 1.0, 1.0)
    assert "fits as it is" in fitted.sentence()


def test_requests_go_first_and_blocks_stay_twenty() -> None:
    """2 arms × 5 repeats × 4000 requests at 4/s are 10,000 s; a tenth of it leaves 5 × 4 blocks."""
    scenario = loaded([closed(4000)], comparison={"blocks": 4})
    fitted = fit_budget(scenario, 1000, QUICK)
    assert (fitted.repeats, fitted.blocks, fitted.blocks_before) == (5, 20, 20)
    assert fitted.seconds <= 1000
    assert fitted.share == pytest.approx(0.1, rel=0.15)
    assert fitted.wider == pytest.approx(10**0.5, rel=0.1)
    assert cases_of(fitted) == round(4000 * fitted.share)
    assert "about 3.3 times as wide" in fitted.sentence()


def test_then_blocks_then_repeats() -> None:
    """20 blocks of two rounds of an arm take 20 × (2 + 1) s, of both 120 s, and their warm-up 4 s."""
    scenario = loaded([closed(400)])
    assert fit_budget(scenario, 130, QUICK).blocks == 20
    fewer = fit_budget(scenario, 60, QUICK)
    assert (fewer.repeats, fewer.blocks) == (5, 5)
    assert "below 20 blocks quantiles have no interval" in fewer.sentence()
    assert fit_budget(scenario, 25, QUICK).repeats == 3
    with pytest.raises(ScenarioError, match="one repeat with one block a stage takes about 10 s as measured"):
        fit_budget(scenario, 9, QUICK)


def test_warm_up_does_not_eat_the_time() -> None:
    """Six windows where there is time, three (which can agree) where there is little."""
    scenario = loaded([closed(4000)], warmup={})
    assert fit_budget(scenario, 1e6, QUICK).loaded.scenario.warmup.windows == 6
    assert fit_budget(scenario, 1000, QUICK).loaded.scenario.warmup.windows == 3


def test_restarts_take_time_too() -> None:
    """Five repeats of two arms are six starts; where each takes a minute, fewer repeats fit."""
    scenario = loaded([closed(400)], comparison={"design": "restart"})
    assert fit_budget(scenario, 400, QUICK).repeats == 5
    slow = fit_budget(scenario, 400, QUICK, start_s=100.0)
    assert slow.repeats == 2
    assert slow.seconds <= 400


@given(
    st.floats(20, 3000),
    st.lists(st.sampled_from([closed(400), closed(64, 8), closed(2000, 16), RATE]), min_size=1, max_size=3),
    st.sampled_from(["interleaved", "parallel", "sequential", "restart"]),
)
@settings(max_examples=20, deadline=None)
def test_never_over_the_budget(budget_s: float, load: list[dict[str, Any]], design: str) -> None:
    scenario = loaded(load, comparison={"design": design})
    try:
        fitted = fit_budget(scenario, budget_s, ASSUMED)
    except ScenarioError:
        return
    plan = build_plan(fitted.loaded)
    assert estimate(plan, ASSUMED).seconds == pytest.approx(fitted.seconds)
    assert fitted.seconds <= budget_s
    assert 0 < fitted.share <= 1
    assert [s.name for s in fitted.loaded.scenario.load] == [s.name for s in scenario.scenario.load]
    again = Scenario.model_validate(fitted.loaded.scenario.model_dump())
    assert again == fitted.loaded.scenario, "what fits is a scenario that passes its checks"
