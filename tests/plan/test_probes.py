"""Paired probes: the same cases to both arms, in turn, for ever."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.plan import OpenLoop, Plan, Segment, probe_plan, probe_segments
from loadgen.scenario import LoadedScenario, Scenario

ARMS = ("candidate", "baseline")


@pytest.fixture(scope="module")
def plan() -> Plan:
    length = {"kind": "fixed", "value": 32}
    content = {
        "version": 1,
        "name": "probed",
        "environment": "disposable",
        "seed": 7,
        "arms": {name: {"url": f"http://127.0.0.1:{i + 1}"} for i, name in enumerate(ARMS)},
        "workload": {"tasks": [{"task_type": "code", "input_len": length, "output_len": length}]},
        "load": [{"kind": "concurrency", "concurrency": 4, "cases": 400}],
    }
    return probe_plan(LoadedScenario(Scenario.model_validate(content), None, ""))


def loads(segments: tuple[Segment, Segment]) -> tuple[OpenLoop, OpenLoop]:
    first, second = (segment.load for segment in segments)
    assert isinstance(first, OpenLoop)
    assert isinstance(second, OpenLoop)
    return first, second


@given(st.integers(1, 200), st.floats(0.01, 100), st.integers(0, 10**6), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_arms_are_asked_the_same_in_turn_and_at_the_rate(
    plan: Plan, pairs: int, rate: float, number: int, first: int
) -> None:
    segments = probe_segments(plan, ARMS, number, first, pairs, rate, 64)
    mine, theirs = loads(segments)
    slot_ns = 1e9 / rate
    assert mine.index.tolist() == theirs.index.tolist() == list(range(first, first + pairs))
    for load in (mine, theirs):
        slots = np.floor((load.due_ns + 1) / slot_ns)
        assert np.all(np.abs(slots - np.arange(pairs)) <= 1 / slot_ns + 1e-6)
        assert np.all(np.diff(load.due_ns) > 0)
    assert np.allclose(np.abs(mine.due_ns - theirs.due_ns), slot_ns / 2, atol=2)
    assert [s.arm for s in segments] == list(ARMS)
    assert [s.number for s in segments] == [number, number + 1]


def test_which_arm_is_first_is_drawn(plan: Plan) -> None:
    """A fixed order would give one arm the warmer cache, or the other's tail."""
    mine, theirs = loads(probe_segments(plan, ARMS, 4, 0, 1000, 1.0, 64))
    assert 0.45 < float(np.mean(mine.due_ns < theirs.due_ns)) < 0.55
    again, _ = loads(probe_segments(plan, ARMS, 4, 0, 1000, 1.0, 64))
    assert mine.due_ns.tolist() == again.due_ns.tolist()
    other, _ = loads(probe_segments(plan, ARMS, 6, 0, 1000, 1.0, 64))
    assert mine.due_ns.tolist() != other.due_ns.tolist()


def test_cases_have_no_end(plan: Plan) -> None:
    assert plan.case(0, "measure", 10**7).index == 10**7
    assert {s.phase for s in plan.segments} == {"measure"}
