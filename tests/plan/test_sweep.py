"""Points of a sweep, their order, and the scenario of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from loadgen.errors import ScenarioError
from loadgen.plan import at_rate, build_plan, derive, plan_sweep, point_arm
from loadgen.scenario import LoadedScenario, PromptSet

Load = Callable[..., LoadedScenario]
ONE = {"server": {"url": "http://one:1"}}
REHEARSAL = {"kind": "rehearsal"}
FIXED = {"input_len": {"kind": "fixed", "value": 64}, "output_len": {"kind": "fixed", "value": 8}}


def k_sweep(load: Load, **keys: Any) -> LoadedScenario:
    sweep = {"over": {"k": [1, 2, 3, 4, 5]}, "repeats": 3, "baseline_every": 2, "launch": REHEARSAL, **keys}
    return load(arms=ONE, sweep=sweep)


def test_every_pass_visits_every_point_and_the_baseline_in_between(load: Load) -> None:
    plan = plan_sweep(k_sweep(load))
    ks = [point.values["k"] for point in plan.visits]
    assert len(ks) == 3 * 8
    for repeat in range(3):
        visits = [point for point in plan.visits if point.repeat == repeat]
        assert Counter(v.values["k"] for v in visits) == {0: 3, 1: 1, 2: 1, 3: 1, 4: 1, 5: 1}
        assert [v.baseline for v in visits] == [True, False, False, True, False, False, True, False]
    orders = {tuple(p.values["k"] for p in plan.visits if p.repeat == r and not p.baseline) for r in range(3)}
    assert len(orders) > 1, "each pass has its own order"
    assert [p.visit for p in plan.visits if p.baseline] == list(range(9))


def test_the_order_is_that_of_the_seed(load: Load) -> None:
    assert plan_sweep(k_sweep(load)) == plan_sweep(k_sweep(load))
    other = load(arms=ONE, seed=1, sweep=k_sweep(load).scenario.sweep)
    assert plan_sweep(other).visits != plan_sweep(k_sweep(load)).visits


def test_a_scenario_without_the_section_says_how_to_write_it(load: Load) -> None:
    with pytest.raises(ScenarioError, match=r"has no section sweep.*sweep\.over"):
        plan_sweep(load())


def test_the_hash_is_of_what_is_asked_not_of_where(load: Load) -> None:
    sweep = {"over": {"k": [2]}, "launch": REHEARSAL}
    here, there = (load(arms={"server": {"url": f"http://one:{port}"}}, sweep=sweep) for port in (1, 2))
    longer = load(arms=ONE, sweep=sweep, load=[{"kind": "concurrency", "concurrency": 4, "cases": 41}])
    assert plan_sweep(here).hash == plan_sweep(there).hash != plan_sweep(longer).hash


def test_a_point_is_an_ordinary_scenario_at_its_setting(load: Load) -> None:
    over = {"concurrency": [1, 16], "input_len": [128], "output_len": [9], "temperature": [0.7]}
    tasks = [{"task_type": "code", **FIXED}, {"task_type": "short_qa", **FIXED, "sampling": {"temperature": 0.2}}]
    loaded = load(
        arms=ONE, workload={"tasks": tasks}, sweep={"over": over, "rounds": 5}, thresholds=["tpot_s: p(50)<1"]
    )
    point = next(p for p in plan_sweep(loaded).points if p.values["concurrency"] == 16)
    made = derive(loaded, point).scenario
    (stage,) = made.load
    assert (stage.name, stage.cases) == ("c16", 80), "at least `rounds` requests of each user"
    assert [(t.input_len.value, t.output_len.value) for t in made.workload.tasks] == [(128, 9)] * 2  # type: ignore[union-attr]
    assert (made.sampling.temperature, made.workload.tasks[1].sampling.temperature) == (0.7, 0.7)  # type: ignore[union-attr]
    assert (made.sweep, made.thresholds) == (None, [])
    assert build_plan(derive(loaded, point)).totals.peak_concurrency == 16


def test_visits_of_a_pass_ask_the_same_and_passes_do_not(load: Load) -> None:
    """H12, H13: levels are compared over the same cases, and no pass finds the prompts of another one in a cache."""
    loaded = load(arms=ONE, sweep={"over": {"concurrency": [1, 4]}, "repeats": 2})
    seeds = {(p.repeat, derive(loaded, p).scenario.seed) for p in plan_sweep(loaded).points}
    assert len(seeds) == 2
    assert len({seed for _, seed in seeds}) == 2
    assert (0, loaded.scenario.seed) in seeds


def test_one_task_alone_keeps_its_own_prompts(load: Load, own: Callable[..., PromptSet]) -> None:
    tasks = [{"task_type": "code", **FIXED}, {"task_type": "chat_log", "prompts": "x.jsonl"}]
    loaded = load({1: own(3)}, arms=ONE, workload={"tasks": tasks}, sweep={"over": {"task_type": ["code", "chat_log"]}})
    by_task = {p.values["task_type"]: derive(loaded, p) for p in plan_sweep(loaded).points}
    assert [t.task_type for t in by_task["chat_log"].scenario.workload.tasks] == ["chat_log"]
    assert by_task["chat_log"].prompts == {0: loaded.prompts[1]}
    assert by_task["code"].prompts == {}


def test_arms_by_k_stand_beside_the_baseline_arm(load: Load) -> None:
    arms = {name: {"url": f"http://{name}:1"} for name in ("off", "two", "four")}
    loaded = load(arms=arms, sweep={"over": {"k": [0, 2, 4]}, "arms_by_k": ["off", "two", "four"]})
    made = {p.values["k"]: derive(loaded, p).scenario for p in plan_sweep(loaded).points}
    assert {k: list(s.arms) for k, s in made.items()} == {0: ["off"], 2: ["off", "two"], 4: ["off", "four"]}
    assert made[4].baseline == "off"
    assert [point_arm(loaded.scenario, {"k": k}) for k in (0, 2, 4)] == ["off", "two", "four"]


def test_a_started_server_must_speculate_as_the_point_says(load: Load) -> None:
    loaded = load(arms=ONE, sweep={"over": {"k": [0, 2]}, "launch": REHEARSAL})
    found = {p.values["k"]: derive(loaded, p).scenario.arms["server"].speculation for p in plan_sweep(loaded).points}
    assert found == {0: "off", 2: "on"}


def test_a_setting_that_does_not_fit_names_its_point(load: Load) -> None:
    tasks = [{"task_type": "code", **FIXED}]
    sampling = {"min_tokens": 8}
    loaded = load(arms=ONE, workload={"tasks": tasks}, sampling=sampling, sweep={"over": {"output_len": [4, 8]}})
    point = next(p for p in plan_sweep(loaded).points if p.values["output_len"] == 4)
    with pytest.raises(ScenarioError, match=r"at output_len 4: sampling\.min_tokens: 8 is above the shortest output"):
        derive(loaded, point)


def test_a_visit_to_a_rate_is_one_arm_judged_by_the_slos(load: Load) -> None:
    search = {"low": 1.0, "high": 8.0, "slo": ["ttft_s: p(95)<0.5"], "duration_s": 7.0}
    loaded = load(sweep={"over": {"concurrency": [1, 2]}, "max_rate": search})
    made = at_rate(loaded, 2.5, 0, "candidate", None).scenario
    assert list(made.arms) == ["candidate"]
    assert [(s.name, s.duration_s) for s in made.load] == [("r2.5", 7.0)]
    assert [str(t) for t in made.parsed_thresholds] == ["ttft_s: p(95)<0.5"]
