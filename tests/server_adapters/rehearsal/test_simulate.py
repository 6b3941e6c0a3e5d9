"""Virtual time: the same records for the same seed, loads as asked, nothing lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from server_adapters.rehearsal.engine import Engine
from server_adapters.rehearsal.models import Models
from server_adapters.rehearsal.simulate import Case, SimulationPlan, Stage, simulate
from server_adapters.rehearsal.types import EngineConfig, EngineRequest, SpeculationConfig

MakeCases = Callable[..., tuple[Case, ...]]


def _plan(make_cases: MakeCases) -> SimulationPlan:
    stages = (Stage(make_cases(4), concurrency=2), Stage(make_cases(6, seed=1), concurrency=6))
    return SimulationPlan({"off": EngineConfig(), "on": EngineConfig(speculation=SpeculationConfig())}, stages)


def test_the_same_seed_gives_the_same_records(models: Models, make_cases: MakeCases) -> None:
    plan = _plan(make_cases)
    first, again, other = (simulate(plan, seed, models) for seed in (1, 1, 2))
    assert (first.records, first.steps, first.counters) == (again.records, again.steps, again.counters)
    assert [r.token_ids for r in first.records] != [r.token_ids for r in other.records]


def test_both_arms_get_the_same_requests_and_none_is_lost(models: Models, make_cases: MakeCases) -> None:
    plan = _plan(make_cases)
    run = simulate(plan, 1, models)
    names = {arm: [(r.stage, r.case_id) for r in run.records if r.arm == arm] for arm in plan.arms}
    assert names["off"] == [(i, c.case_id) for i, stage in enumerate(plan.stages) for c in stage.cases]
    assert sorted(names["on"]) == sorted(names["off"])
    assert all(r.outcome == "ok" and r.finish_reason in ("stop", "length") for r in run.records)


def test_closed_loop_holds_its_concurrency(models: Models, make_cases: MakeCases) -> None:
    run = simulate(SimulationPlan({"arm": EngineConfig()}, (Stage(make_cases(10), concurrency=7),)), 1, models)
    assert max(s.batch_size for s in run.steps) == 7
    for record in run.records:
        assert record.end_s is not None
        assert record.first_scheduled_s == record.arrival_s
        in_flight = sum(r.arrival_s <= record.arrival_s < r.end_s for r in run.records if r.end_s is not None)
        assert in_flight <= 7


def test_open_loop_arrives_when_due_and_queues(models: Models, make_cases: MakeCases) -> None:
    cases = make_cases(5)
    due = (*(0.5 + 0.01 * i for i in range(len(cases) - 1)), 60.0)
    config = EngineConfig(max_num_seqs=2)
    run = simulate(SimulationPlan({"arm": config}, (Stage(cases, arrivals_s=due),)), 1, models)
    assert [r.arrival_s for r in run.records] == list(due)
    assert max(s.batch_size for s in run.steps) == 2
    waits = [r.first_scheduled_s - r.arrival_s for r in run.records if r.first_scheduled_s is not None]
    assert len(waits) == 20
    assert max(waits) > 0.1
    assert waits[-1] == 0.0, "the last comes to an idle engine"


def test_rejected_requests_are_records(models: Models, make_cases: MakeCases) -> None:
    cases = make_cases(5)
    config = EngineConfig(max_num_seqs=1, max_num_queued_reqs=3)
    run = simulate(SimulationPlan({"arm": config}, (Stage(cases, arrivals_s=(0.0,) * 20),)), 1, models)
    outcomes = [r.outcome for r in run.records]
    assert outcomes == ["ok"] * 3 + ["rejected"] * 17
    assert run.counters["arm"].admission_rejections["max_num_queued_reqs"] == 17
    assert all(r.first_token_s is None and r.token_ids == [] for r in run.records if r.outcome == "rejected")


def test_records_hold_the_virtual_times_of_the_steps(models: Models, make_cases: MakeCases) -> None:
    """The same admissions by hand, step by step, give the same chunks at the same times."""
    cases = make_cases(2)
    config = EngineConfig(speculation=SpeculationConfig())
    run = simulate(SimulationPlan({"arm": config}, (Stage(cases, arrivals_s=(0.0,) * 8),)), 0, models)
    engine = Engine(config, models)
    for i, case in enumerate(cases):
        sampling = replace(case.sampling, seed=i)
        engine.submit(
            EngineRequest(
                str(i), case.prompt_token_ids, sampling, task_type=case.task_type, cache_salt=case.cache_salt
            ),
            0.0,
        )
    chunks: dict[str, list[tuple[float, int]]] = {str(i): [] for i in range(8)}
    now_s = 0.0
    while (step := engine.step(now_s)) is not None:
        now_s += step.duration_s
        for output in step.outputs:
            chunks[output.request_id].append((now_s, len(output.new_token_ids)))
    for i, record in enumerate(run.records):
        assert list(zip(record.chunk_times_s, record.chunk_tokens, strict=True)) == chunks[str(i)]
    assert run.counters["arm"] == engine.counters


def test_speed_divides_every_time(models: Models, make_cases: MakeCases) -> None:
    cases = make_cases(3)
    ends = []
    for speed in (1.0, 10.0):
        plan = SimulationPlan({"arm": EngineConfig(speed=speed)}, (Stage(cases, concurrency=4),))
        ends.append(max(r.end_s for r in simulate(plan, 1, models).records if r.end_s is not None))
    assert ends[0] / ends[1] == pytest.approx(10.0)


def test_a_stage_is_either_open_or_closed(make_cases: MakeCases) -> None:
    cases = make_cases(1)
    for bad in ({}, {"concurrency": 1, "arrivals_s": (0.0,) * 4}, {"concurrency": 0}, {"arrivals_s": (0.0,)}):
        with pytest.raises(ValueError):
            Stage(cases, **bad)
