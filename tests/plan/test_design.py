"""Designs: the same cases in every arm, each once, in an order that favours nobody."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.errors import ScenarioError
from loadgen.plan import ClosedLoop, OpenLoop, Plan, Segment, build_plan, shard
from loadgen.scenario import LoadedScenario, Scenario

Make = Callable[..., Plan]
TASK = {"task_type": "code", "input_len": {"kind": "fixed", "value": 64}, "output_len": {"kind": "fixed", "value": 32}}
DESIGNS = st.sampled_from(["interleaved", "parallel", "sequential", "restart"])


def closed(cases: int, concurrency: int = 1) -> dict[str, Any]:
    return {"kind": "concurrency", "concurrency": concurrency, "cases": cases}


def made(arms: int | dict[str, Any] = 2, **keys: Any) -> Plan:
    document = {
        "version": 1,
        "name": "designed",
        "environment": "disposable",
        "arms": {f"arm{i}": {"url": f"http://h{i}:1", "start": "serve"} for i in range(arms)}
        if isinstance(arms, int)
        else arms,
        "workload": {"tasks": [TASK]},
        "load": [closed(40)],
        **keys,
    }
    return build_plan(LoadedScenario(Scenario.model_validate(document), None, ""))


def indices(segment: Segment) -> list[int]:
    load = segment.load
    if isinstance(load, OpenLoop):
        return load.index.tolist()
    assert load.cases is not None
    return [load.first_index + i * load.index_step for i in range(load.cases)]


def measured(plan: Plan) -> list[Segment]:
    return [s for s in plan.segments if s.phase == "measure"]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    design = draw(DESIGNS)
    concurrency = draw(st.integers(1, 5))
    load: list[dict[str, Any]] = [closed(draw(st.integers(2 * concurrency, 90)), concurrency)]
    if draw(st.booleans()):
        rate, seconds = draw(st.floats(0.5, 20)), draw(st.floats(2.5, 40))
        load.append({"kind": "arrival_rate", "rate_per_s": rate, "duration_s": seconds})
    return made(
        arms=draw(st.integers(2, 4)),
        load=load,
        repeats=draw(st.integers(1, 4)),
        seed=draw(st.integers(0, 5)),
        comparison={"design": design, "swap": design == "parallel" and draw(st.booleans())},
    )


@given(plans())
@settings(max_examples=60, deadline=None)
def test_every_arm_answers_the_same_cases_once_a_repeat(plan: Plan) -> None:
    """Same requests: a block is the same in all arms; the blocks of a repeat are the whole stage, each case once."""
    blocks: dict[tuple[int, int, int], dict[str, Segment]] = defaultdict(dict)
    for s in measured(plan):
        arms = blocks[s.stage_index, s.repeat_idx, s.block]
        assert s.arm not in arms, "each arm meets each block once"
        arms[s.arm] = s
    whole: dict[tuple[int, int], list[int]] = defaultdict(list)
    for (stage, repeat, _), arms in sorted(blocks.items()):
        assert set(arms) == set(plan.design.arms)
        first, *others = arms.values()
        for other in others:
            assert other.load is first.load, "also the same times"
            assert other.duration_ns == first.duration_ns
        whole[stage, repeat] += indices(first)
    for (stage, _), cases in whole.items():
        count = sum(n or 0 for n in plan.design.stages[stage].requests)
        assert cases == list(range(count))


@given(plans(), st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_shards_of_blocks_are_the_blocks(plan: Plan, n: int) -> None:
    for segment in measured(plan)[:6]:
        parts = [indices(shard(segment, i, n)) for i in range(n)]
        assert sorted(index for part in parts for index in part) == indices(segment)


@given(st.integers(2, 5), st.integers(1, 7), st.integers(1, 8), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_interleaved_order_is_balanced(arms: int, repeats: int, blocks: int, seed: int) -> None:
    """Over all blocks of a stage no arm is in any place more than once more often than another."""
    plan = made(arms, load=[closed(60)], repeats=repeats, seed=seed, comparison={"blocks": blocks})
    (stage,) = plan.design.stages
    assert len(stage.order) == repeats * blocks
    for place in range(arms):
        count = Counter(order[place] for _, _, order in stage.order)
        assert max(count.values()) - min(count[arm] for arm in plan.design.arms) <= 1


@pytest.mark.parametrize("design", ["interleaved", "parallel", "sequential", "restart"])
def test_the_same_seed_is_the_same_plan(design: str) -> None:
    one, two = (made(3, load=[closed(90, 2)], seed=3, comparison={"design": design}) for _ in range(2))
    assert (one.hash, one.design) == (two.hash, two.design)


def test_the_order_is_random_and_another_seed_gives_another() -> None:
    orders = {made(seed=seed).design.stages[0].order for seed in range(8)}
    assert len(orders) > 1
    (first,) = made(load=[closed(200)], repeats=10).design.stages
    assert len({arms for _, _, arms in first.order}) == 2, "not always the same arm first"


def test_open_loop_blocks_are_slices_of_the_same_due_times() -> None:
    rate = {"kind": "arrival_rate", "rate_per_s": 7.3, "duration_s": 31.7}
    plan = made(load=[rate], repeats=2, comparison={"blocks": 7})
    alone = made(arms=1, load=[rate])
    (whole,) = [s.load for s in measured(alone)]
    assert isinstance(whole, OpenLoop)
    first = [s for s in measured(plan) if (s.arm, s.repeat_idx) == ("arm0", 0)]
    begin, due = 0, []
    for s in sorted(first, key=lambda s: s.block):
        assert isinstance(s.load, OpenLoop)
        assert s.duration_ns is not None
        assert s.load.due_ns.size == 0 or 0 <= s.load.due_ns[0] <= s.load.due_ns[-1] < s.duration_ns
        due += (s.load.due_ns + begin).tolist()
        begin += s.duration_ns
    assert begin == 31_700_000_000
    assert np.array_equal(due, whole.due_ns)


@pytest.mark.parametrize(
    ("cases", "concurrency", "repeats", "expected"),
    [
        (200, 4, 5, [50] * 4),  # 20 blocks in all
        (41, 2, 5, [10, 10, 10, 11]),  # ragged: sizes differ by one
        (40, 8, 5, [20, 20]),  # two rounds at least in every block
        (15, 8, 5, [15]),
        (200, 1, 1, [10] * 20),
    ],
)
def test_default_blocks_of_a_closed_loop(cases: int, concurrency: int, repeats: int, expected: list[int]) -> None:
    plan = made(load=[closed(cases, concurrency)], repeats=repeats)
    assert sorted(n or 0 for n in plan.design.stages[0].requests) == expected


def test_long_stages_are_cut_into_blocks_of_half_a_minute() -> None:
    """Blocks last about 10–30 s: 1,200 s are 40 blocks, and so are 4,200 answers of 0.5 + 32 × 0.02 s on 4 slots."""
    rate = {"kind": "arrival_rate", "rate_per_s": 1.0, "duration_s": 1200.0}
    stages = made(load=[rate, closed(4200, 4)]).design.stages
    assert [len(stage.requests) for stage in stages] == [40, 40]
    assert stages[0].duration_ns == 30_000_000_000


def test_a_time_limit_is_shared_among_blocks_and_said() -> None:
    plan = made(load=[{**closed(40, 2), "duration_s": 100.0}], repeats=5)
    segment = measured(plan)[0]
    assert isinstance(segment.load, ClosedLoop)
    assert (segment.duration_ns, segment.load.cases) == (25_000_000_000, 10)
    assert segment.load.stop_ns.tolist() == [25_000_000_000] * 2
    assert any("time limit" in mark for mark in plan.design.marks)


def test_a_stage_that_ends_by_time_is_one_block_and_marked() -> None:
    plan = made(load=[{"kind": "concurrency", "concurrency": 2, "duration_s": 9.0}], comparison={"unpaired": ["c2"]})
    (stage,) = plan.design.stages
    assert (stage.requests, stage.paired) == ((None,), False)
    assert any(mark.startswith("c2 ends by time") for mark in plan.design.marks)


def test_few_blocks_are_said() -> None:
    assert made(load=[closed(10)], repeats=2).design.marks == (
        "c1 has 10 blocks over all repeats; intervals of quantiles need 20",
    )
    assert made(load=[closed(40)], repeats=5).design.marks == ()


@pytest.mark.parametrize("design", ["interleaved", "parallel", "sequential", "restart"])
def test_one_server_under_two_names_is_said(design: str) -> None:
    """Of the arms' commands each starts a server of its own; a header may choose one, too."""

    def marks(**other: Any) -> list[str]:
        first = {"url": "http://h:1", "model": "m", "start": "serve"}
        plan = made(arms={"one": first, "other": {**first, **other}}, comparison={"design": design})
        return [mark for mark in plan.design.marks if "same address and model" in mark]

    assert marks() == ["one and other have the same address and model: a server is compared with itself"]
    for other in ({"url": "http://h:2"}, {"model": "n"}, {"start": "serve -k 4"}, {"headers": {"X-To": "b"}}):
        assert marks(**other) == []


def test_warm_up_is_once_a_stage_and_arm() -> None:
    plan = made(load=[closed(20), closed(40, 2)], repeats=3)
    warm = [s for s in plan.segments if s.phase == "warmup"]
    assert Counter((s.stage_index, s.arm) for s in warm) == {(i, a): 6 for i in (0, 1) for a in ("arm0", "arm1")}
    assert [s.block for s in warm[:6]] == list(range(6)), "windows"
    assert all(s.load is warm[0].load for s in warm[:6]), "which ask the same requests"
    first_measured = min(s.number for s in measured(plan))
    assert all(s.number < first_measured for s in warm if s.stage_index == 0)


def test_parallel_arms_are_driven_at_once() -> None:
    plan = made(3, load=[closed(20)], repeats=2, comparison={"design": "parallel"})
    groups: dict[int, list[Segment]] = defaultdict(list)
    for s in plan.segments:
        groups[s.group].append(s)
    for group in groups.values():
        assert [s.arm for s in group] == ["arm0", "arm1", "arm2"]
        assert len({(s.phase, s.block, s.repeat_idx) for s in group}) == 1
    assert any("no interval sees" in mark for mark in plan.design.marks)


@pytest.mark.parametrize(("repeats", "blocks"), [(5, 4), (1, 3), (2, 1)])
def test_swapped_halves_of_every_stage(repeats: int, blocks: int) -> None:
    """Every stage is in both halves, so that none is tied to one assignment of the nodes; each half warms up."""
    comparison = {"design": "parallel", "swap": True, "blocks": blocks}
    plan = made(load=[closed(40), closed(60, 2)], repeats=repeats, comparison=comparison)
    swapped = [s.swapped for s in plan.segments]
    assert swapped == sorted(swapped), "first one half, then the other"
    for stage in (0, 1):
        halves = Counter(s.swapped for s in measured(plan) if (s.stage_index, s.arm) == (stage, "arm0"))
        assert halves[False] - halves[True] in (0, 1)
        assert {s.swapped for s in plan.segments if s.phase == "warmup" and s.stage_index == stage} == {False, True}


def test_restart_goes_forth_and_back() -> None:
    """ABBA: five repeats of two arms need six starts, and every visit warms every stage up."""
    plan = made(load=[closed(20), closed(40, 2)], comparison={"design": "restart"})
    visits = [s.arm for i, s in enumerate(plan.segments) if i == 0 or plan.segments[i - 1].arm != s.arm]
    assert visits == ["arm0", "arm1", "arm0", "arm1", "arm0", "arm1"]
    warm = {(s.arm, s.repeat_idx, s.stage_index) for s in plan.segments if s.phase == "warmup"}
    assert len(warm) == 2 * 5 * 2


def test_one_arm_has_no_design() -> None:
    plan = made(arms=1)
    assert (plan.design.name, plan.design.marks, plan.design.repeats) == (None, (), 1)
    assert len(measured(plan)) == 1
    assert len(measured(made(arms=1, comparison={"blocks": 4}))) == 4


def test_too_many_segments_of_the_plans_own_blocks_are_refused() -> None:
    """1590 s of an open loop are cut into blocks of 30 s, in every one of 1000 repeats."""
    load = [{"kind": "arrival_rate", "rate_per_s": 1, "duration_s": 1590}]
    with pytest.raises(ScenarioError, match=r"1000 repeats × 53 blocks of all stages × 2 arms are 106,000 segments"):
        made(repeats=1000, load=load, safety={"max_requests": 10_000_000})
