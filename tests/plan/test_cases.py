"""Cases: a pure function of (seed, stage, phase, index)."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loadgen.plan import Case, Plan
from loadgen.scenario import PromptSet

Make = Callable[..., Plan]
OwnSet = Callable[..., PromptSet]
OWN = {"task_type": "chat_log", "prompts": "mine.jsonl"}


def first(plan: Plan, n: int, phase: Any = "measure", stage: int = 0) -> list[Case]:
    return [plan.case(stage, phase, i) for i in range(n)]


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(["warmup", "measure"]), st.integers(0, 5000)), max_size=30))
def test_order_of_access_changes_nothing(plan: Make, own: OwnSet, asked: list[tuple[Any, int]]) -> None:
    tasks = [OWN, {"task_type": "code", "lengths": {"pairs": [[9, 1], [8, 2]]}}]
    one, other = (plan({0: own(300)}, workload={"tasks": tasks}) for _ in range(2))
    straight = {key: one.case(0, *key) for key in sorted(asked)}
    for key in asked:
        assert other.case(0, *key) == straight[key]


def test_far_cases_are_near(plan: Make) -> None:
    made = plan()
    assert made.case(0, "measure", 10**9).index == 10**9
    with pytest.raises(ValueError, match="no case -1"):
        made.case(0, "measure", -1)


def test_forgotten_blocks_are_drawn_again(plan: Make) -> None:
    made = plan()
    indices = range(0, 256 * 150, 256)
    assert [made.case(0, "measure", i) for i in indices] == [made.case(0, "measure", i) for i in indices]


def test_a_plan_travels_to_another_process(plan: Make, own: OwnSet) -> None:
    made = plan({0: own(20)}, workload={"tasks": [OWN]})
    copy = pickle.loads(pickle.dumps(made))
    assert copy.hash == made.hash
    assert first(copy, 300) == first(made, 300)


def test_task_mix_holds_in_every_block_of_sixteen(plan: Make) -> None:
    shares = {"code": 0.5, "short_qa": 0.3, "long_form": 0.2, "structured": 0.0}
    pairs = {"lengths": {"pairs": [[50, 10]]}}
    cases = first(plan(workload={"tasks": [{"task_type": t, "weight": w, **pairs} for t, w in shares.items()]}), 2560)
    for size, most in ((16, 2), (256, 2), (2560, 20)):
        for i in range(0, len(cases), size):
            counts = Counter(c.task_type for c in cases[i : i + size])
            assert all(abs(counts[t] - w * size) < most for t, w in shares.items())
    assert "structured" not in {c.task_type for c in cases}
    orders = {tuple(c.task_type for c in cases[i : i + 16]) for i in range(0, 2560, 16)}
    assert len(orders) > 150, "the order within a block is random"


def test_seed_stage_and_phase_give_other_cases(plan: Make) -> None:
    stages = [{"kind": "concurrency", "concurrency": 1, "cases": 5}] * 2
    made = plan(load=stages)
    parts = [first(made, 300), first(made, 300, "warmup"), first(made, 300, stage=1), first(plan(seed=1), 300)]
    assert len({case.prompt_seed for part in parts for case in part}) == 1200
    assert len({case.case_id for part in parts for case in part}) == 1200
    assert first(plan(), 300) == first(made, 300)


def test_lengths_come_from_the_task(plan: Make) -> None:
    cases = first(plan(), 2000)
    assert {(c.input_len_requested, c.output_len_requested) for c in cases if c.task_type == "short_qa"} == {
        (100, 20),
        (200, 40),
    }
    code = [c for c in cases if c.task_type == "code"]
    assert len(code) == pytest.approx(1500, abs=2)
    inputs = sorted(c.input_len_requested or 0 for c in code)
    assert inputs[0] >= 20
    assert inputs[-1] <= 4000
    assert inputs[len(inputs) // 2] == pytest.approx(300, rel=0.1)
    assert sum(c.output_len_requested for c in code) / len(code) == pytest.approx(100, abs=3)


def test_sampling_seeds_are_per_case_or_absent(plan: Make) -> None:
    seeds = [c.sampling_seed for c in first(plan(), 1000)]
    assert len(set(seeds)) == 1000
    assert all(s is not None and 0 <= s < 2**31 for s in seeds)
    assert {c.sampling_seed for c in first(plan(sampling={"seed": None}), 300)} == {None}
    assert [c.sampling_seed for c in first(plan(sampling={"seed": 1}), 300)] != seeds[:300]
    other = {"task_type": "code", "lengths": {"pairs": [[9, 9]]}, "sampling": {"seed": None}}
    mixed = first(plan(workload={"tasks": [other, {**other, "task_type": "short_qa", "sampling": {"seed": 0}}]}), 300)
    assert {(c.task_type, c.sampling_seed is None) for c in mixed} == {("code", True), ("short_qa", False)}


def test_stream_fraction_and_shared_prefix(plan: Make) -> None:
    pairs = {"task_type": "code", "lengths": {"pairs": [[50, 10]]}}
    prefix = {"fraction": 0.4, "tokens": 64}
    cases = first(plan(workload={"tasks": [pairs], "stream_fraction": 0.75, "shared_prefix": prefix}), 4000)
    assert sum(c.stream for c in cases) / 4000 == pytest.approx(0.75, abs=0.03)
    assert sum(c.shared_prefix for c in cases) / 4000 == pytest.approx(0.4, abs=0.03)
    assert {(c.shared_prefix, c.input_len_requested) for c in cases} == {(True, 114), (False, 50)}
    assert all(c.stream and not c.shared_prefix for c in first(plan(), 300))


def test_own_prompts_come_once_before_any_comes_again(plan: Make, own: OwnSet) -> None:
    stage = {"kind": "concurrency", "concurrency": 1, "cases": 250}
    made = plan({0: own(100)}, workload={"tasks": [OWN]}, load=[stage], warmup={"warmup_requests": 0})
    ids = [c.case_id for c in first(made, 300)]
    everyone = {f"row-{i}" for i in range(100)}
    assert set(ids[:100]) == set(ids[100:200]) == set(ids[200:]) == everyone
    assert ids[:100] != ids[100:200]
    assert ids[:100] != [f"row-{i}" for i in range(100)]
    assert made.reused == 150
    case = made.case(0, "measure", 3)
    assert (case.task_type, case.input_len_requested, case.output_len_requested) == ("chat_log", None, 30)
    assert case.prompt_index is not None
    assert case.case_id == f"row-{case.prompt_index}"


def test_warm_up_meets_the_measured_prompts_last(plan: Make, own: OwnSet) -> None:
    stage = {"kind": "concurrency", "concurrency": 5, "cases": 80}
    made = plan({0: own(100)}, workload={"tasks": [OWN]}, load=[stage])
    warm = {c.case_id for c in first(made, 10, "warmup")}
    assert not warm & {c.case_id for c in first(made, 80)}
    assert made.reused == 0


def test_own_prompts_without_max_tokens_draw_it(plan: Make, own: OwnSet) -> None:
    task = {**OWN, "output_len": {"kind": "uniform", "low": 5, "high": 9}}
    workload = {"tasks": [task], "shared_prefix": {"fraction": 1.0, "tokens": 9}}
    made = plan({0: own(50, max_tokens=None)}, workload=workload)
    cases = first(made, 300)
    assert {c.output_len_requested for c in cases} == {5, 6, 7, 8, 9}
    assert not any(c.shared_prefix for c in cases), "own prompts are sent as they are"
