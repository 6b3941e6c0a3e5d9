"""The promise of docs/soak.md on a server: soaks of the rehearsal engine, window by window through the whole path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from loadgen.analyze import Stability
from loadgen.analyze.arms import arm_data
from loadgen.analyze.groups import stage_groups
from loadgen.analyze.soak.stability import stability
from server_adapters.rehearsal import (
    EngineConfig,
    Record,
    SamplingParams,
    SimulationPlan,
    SpeculationConfig,
    Stage,
    Switches,
    corpus_cases,
    simulate,
)

PROMISED = 0.01
#: Soaks of a steady engine, and after them some whose drafter gets worse halfway
STEADY, WORSE = 310, 8
#: 44 windows of 5 s each; what is before the first is the warm-up
SOAK_S, WARM_S = 220.0, 40.0
#: An engine so slow that a window has about eight requests of four rounds each: little more than a window needs, since
#: what this test costs is rounds
USERS, MAX_TOKENS, SLOW, PER_S = 12, 10, 0.0119, 1.7
CASES = 400


@pytest.fixture(scope="module")
def soaks(simulated: Any, fresh: Any, booked: Callable[..., None]) -> list[Stability]:
    """One long load in virtual time, cut into soaks that are judged each as a run of its own."""
    made, ends = fresh(), WARM_S + SOAK_S * np.arange(1, STEADY + WORSE + 1)
    for i, end in enumerate(ends.tolist()):
        begin = end - SOAK_S
        made.segment(i, start=begin, full=begin, load_end=end, end=end, stage=f"s{i}", stage_index=i, concurrency=USERS)
    for record in _played(simulated.models, float(ends[-1])):
        at = int(np.searchsorted(ends, record.end_s, side="right"))
        if (record.end_s or 0.0) >= WARM_S and at < len(ends):
            booked(made, record, segment=at)
    run = made.data()
    data = arm_data(run, "candidate")
    groups = stage_groups(data.frame, data.windows)
    return [stability(run, data, f"s{i}", group, 1) for i, group in enumerate(groups)]


def _played(models: Any, until_s: float) -> list[Record]:
    """A closed loop of prompts drawn at random, none of them cached."""
    params = SamplingParams(temperature=0.7, max_tokens=MAX_TOKENS)
    drawn = corpus_cases(models, {"short_qa": CASES}, params, 31)
    order = np.random.default_rng(31).integers(CASES, size=round(PER_S * until_s))
    cases = tuple(replace(drawn[at], case_id=f"c{i}", cache_salt=f"c{i}") for i, at in enumerate(order.tolist()))

    def switching(now_s: float, switches: Switches) -> None:
        into_s = now_s - WARM_S - STEADY * SOAK_S
        switches.draft_bias = 1.0 if into_s > 0 and into_s % SOAK_S > SOAK_S / 2 else 0.0

    engine = EngineConfig(speculation=SpeculationConfig(num_speculative_tokens=1), speed=SLOW)
    plan = SimulationPlan({"candidate": engine}, (Stage(cases, concurrency=USERS),), switching)
    records = simulate(plan, 31, models).records
    assert max(r.end_s or 0.0 for r in records) > until_s, "the load must last"
    return records


def test_a_steady_engine_alarms_in_at_most_one_soak_of_a_hundred(soaks: list[Stability]) -> None:
    """310 soaks: the 95 % upper limit of the share with any drift, however small, is below 1 %."""
    found = [[s.name for s in soak.series if s.drift is not None] for soak in soaks[:STEADY]]
    alarms = sum(map(bool, found))
    assert beta.ppf(0.95, alarms + 1, STEADY - alarms) <= PROMISED, [names for names in found if names]
    assert {soak.windows for soak in soaks} == {44}
    for name in ("acceptance_rate", "rollback_rate", "e_verified", "tpot_s", "ttft_s"):
        judged = sum(s.p is not None for soak in soaks for s in soak.series if s.name == name)
        assert judged / len(soaks) >= 0.95, (name, judged)


def test_a_drafter_that_gets_worse_halfway_is_found(soaks: list[Stability]) -> None:
    """In most soaks: in 44 windows so short even a drafter that guesses nothing more is not always beyond chance."""
    found = [s.drift for soak in soaks[STEADY:] for s in soak.series if s.name == "acceptance_rate"]
    assert len(found) == WORSE
    drifts = [drift for drift in found if drift is not None]
    assert len(drifts) > WORSE / 2
    assert all(drift.worse for drift in drifts)
