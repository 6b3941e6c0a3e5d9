"""The whole plan: order, totals, and a hash that is the same everywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadgen.plan import ClosedLoop, OpenLoop, Plan
from loadgen.scenario import PromptSet

Make = Callable[..., Plan]
RATE = {"kind": "arrival_rate", "rate_per_s": 20.0, "duration_s": 5.0}
CLOSED = {"kind": "concurrency", "concurrency": 4, "cases": 40}
RAMP = {"kind": "concurrency", "concurrency": {"start": 1, "end": 8}, "duration_s": 30.0}
CHILD = """
from loadgen.plan import ESTIMATE, build_plan, render
from loadgen.scenario import LoadedScenario, Scenario
from hashlib import sha256
plan = build_plan(LoadedScenario(Scenario.model_validate_json({document!r}), None, ""))
texts = [render(plan, plan.case(0, "measure", i), ESTIMATE).prompt for i in range(50)]
print(plan.hash, sha256("".join(texts).encode()).hexdigest())
"""
#: One small plan with every kind of load: its hash on any machine, and that of 50 of its prompts.
DOCUMENT = """{"version": 1, "name": "golden", "environment": "disposable", "seed": 42, "repeats": 2,
 "comparison": {"unpaired": ["c1-8"]},
 "arms": {"baseline": {"url": "http://one:1"}, "candidate": {"url": "http://two:2"}},
 "workload": {"tasks": [
  {"task_type": "code", "weight": 2.0, "input_len": {"kind": "lognormal", "median": 300.0, "sigma": 0.8},
   "output_len": {"kind": "normal", "mean": 100.0, "stddev": 30.0}},
  {"task_type": "short_qa", "lengths": {"pairs": [[100, 20], [200, 40]]}},
  {"task_type": "structured", "input_len": {"kind": "uniform", "low": 200, "high": 400},
   "output_len": {"kind": "empirical", "values": [50, 60]}},
  {"task_type": "long_form", "input_len": {"kind": "fixed", "value": 150},
   "output_len": {"kind": "fixed", "value": 80}}],
  "stream_fraction": 0.9, "shared_prefix": {"fraction": 0.5, "tokens": 32}},
 "load": [{"kind": "concurrency", "concurrency": 4, "cases": 300},
  {"kind": "concurrency", "concurrency": {"start": 1, "end": 8}, "duration_s": 30.0},
  {"kind": "arrival_rate", "rate_per_s": {"start": 0.0, "end": 50.0}, "duration_s": 20.0},
  {"kind": "arrival_rate", "rate_per_s": 20.0, "duration_s": 20.0, "arrivals": "gamma", "burstiness": 0.4},
  {"kind": "arrival_rate", "rate_per_s": 20.0, "duration_s": 20.0, "arrivals": "uniform"}]}"""
GOLDEN = "48663de3ee119f63cc236be46851281ab7706469165fc850260db223d6639bd9"
GOLDEN_TEXTS = "f6dc31efbb8d312ac8d2860bc5725424a322be207e178323ee50f921e47dda49"


#: SIMD kernels of this CPU that numpy can do without: with them its own log and exp differ in the last bit.
KERNELS = " ".join(np.show_config(mode="dicts")["SIMD Extensions"].get("found", []))


@pytest.mark.parametrize(("hash_seed", "without"), [("0", ""), ("4242", KERNELS)])
def test_the_same_plan_in_any_process_on_any_cpu(hash_seed: str, without: str) -> None:
    """H14: one plan for all workers. The pinned hashes change only when plans, or the scenario's keys, change."""
    code = CHILD.format(document=DOCUMENT)
    here = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    environment = {**here, "PYTHONHASHSEED": hash_seed, "NPY_DISABLE_CPU_FEATURES": without}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [GOLDEN, GOLDEN_TEXTS]


def test_sequential_arms_take_turns_in_reversed_order(plan: Make) -> None:
    """Order bias cancels: ABBA over stage + repeat, each arm with warm-up, then measure."""
    sequential = {"design": "sequential", "blocks": 1}
    made = plan(load=[CLOSED, RATE], repeats=2, comparison=sequential, warmup={"max_windows": 1})
    order = [(s.stage_index, s.repeat_idx, s.arm[0], s.phase) for s in made.segments]
    turns = [(0, 0, "bc"), (0, 1, "cb"), (1, 0, "cb"), (1, 1, "bc")]
    assert order == [(s, r, arm, phase) for s, r, arms in turns for arm in arms for phase in ("warmup", "measure")]
    assert [s.number for s in made.segments] == [s.group for s in made.segments] == list(range(16))


def test_arms_and_repeats_get_the_same_load(plan: Make) -> None:
    made = plan(load=[RATE], repeats=3, comparison={"blocks": 1})
    loads = [s.load for s in made.segments if s.phase == "measure"]
    assert len(loads) == 6
    for load in loads:
        assert isinstance(load, OpenLoop)
        assert isinstance(loads[0], OpenLoop)
        assert np.array_equal(load.due_ns, loads[0].due_ns)
        assert load.index.tolist() == list(range(len(load.due_ns)))


def test_segments_say_what_they_are(plan: Make) -> None:
    made = plan(load=[CLOSED, RAMP, RATE], arms={"only": {"url": "http://h:1"}}, warmup={"max_windows": 1})
    facts = [(s.stage, s.phase, s.executor, s.concurrency, s.rate_per_s, s.duration_ns) for s in made.segments]
    assert facts == [
        ("c4", "warmup", "concurrency", 4, None, None),
        ("c4", "measure", "concurrency", 4, None, None),
        ("c1-8", "warmup", "concurrency", None, None, None),
        ("c1-8", "measure", "concurrency", None, None, 30_000_000_000),
        ("r20", "warmup", "concurrency", None, 20.0, None),
        ("r20", "measure", "arrival_rate", None, 20.0, 5_000_000_000),
    ]


@pytest.mark.parametrize(
    ("stage", "slots", "cases"),
    [(CLOSED, 4, 8), (RAMP, 8, 16), (RATE, 20, 40), ({**CLOSED, "concurrency": 1}, 1, 3),
     ({**RATE, "max_in_flight": 3}, 3, 6), ({**RATE, "rate_per_s": 900.0}, 64, 128)],
)  # fmt: skip
def test_warm_up_is_a_closed_loop_of_the_stages_size(plan: Make, stage: dict[str, Any], slots: int, cases: int) -> None:
    """E19: a backlog of warm-up at a fixed rate would poison the measured part."""
    load = plan(load=[stage], comparison={"unpaired": ["c1-8"] if stage is RAMP else []}).segments[0].load
    assert isinstance(load, ClosedLoop)
    assert (len(load.start_ns), load.cases, load.end) == (slots, cases, "both")
    assert load.stop_ns.tolist() == [0] * slots


def test_warm_up_by_time_and_none_at_all(plan: Make) -> None:
    made = plan(warmup={"warmup_seconds": 2.5, "warmup_requests": 7})
    load = made.segments[0].load
    assert isinstance(load, ClosedLoop)
    assert (load.stop_ns.tolist(), load.cases) == ([2_500_000_000] * 4, 7)
    assert made.segments[0].duration_ns == 2_500_000_000
    assert {s.phase for s in plan(warmup={"warmup_requests": 0}).segments} == {"measure"}


def test_totals_are_exact_where_they_can_be(plan: Make) -> None:
    task = {"task_type": "code", "lengths": {"pairs": [[100, 10]]}}
    uniform = {**RATE, "arrivals": "uniform"}
    totals = plan(load=[CLOSED, uniform], repeats=3, workload={"tasks": [task]}, warmup={"max_windows": 4}).totals
    asked = (40 + 100) * 6 + (8 + 40) * 2 * 4  # arms and repeats; one warm-up an arm, of four windows at most
    assert (totals.requests, totals.requests_upper) == (asked, asked)
    assert (totals.input_tokens, totals.output_tokens) == (asked * 100, asked * 10)
    assert totals.seconds is None, "the first stage ends by number of requests"
    assert (totals.peak_concurrency, totals.peak_rate_per_s) == (1000, 20.0)
    assert plan(load=[uniform], repeats=3).totals.seconds == 30.0
    parallel = plan(load=[uniform], repeats=3, comparison={"design": "parallel"}).totals
    assert (parallel.seconds, parallel.peak_concurrency, parallel.peak_rate_per_s) == (15.0, 2000, 40.0)


def test_totals_of_a_loop_that_ends_by_time_are_bounds(plan: Make) -> None:
    timed = {"kind": "concurrency", "concurrency": 10, "duration_s": 10.0}
    alone = {"arms": {"only": {"url": "http://h:1"}}, "warmup": {"warmup_requests": 20}}
    totals = plan(load=[timed], **alone).totals
    assert (totals.requests, totals.input_tokens, totals.output_tokens) == (None, None, None)
    assert 20 * 100 < totals.requests_upper <= 20 * 100 + 10 + 20
    assert plan(load=[timed], safety={"max_requests": 500}, **alone).totals.requests_upper == 500
    both = plan(load=[{**timed, "cases": 30}], **alone).totals
    assert (both.requests, both.requests_upper) == (None, 50)


def test_hash_is_of_what_is_asked_not_of_where(plan: Make, own: Callable[..., PromptSet]) -> None:
    base = plan().hash
    arms = {"baseline": {"url": "http://other:9"}, "candidate": {"url": "http://two:2"}}
    assert plan(arms=arms, name="renamed", description="more", deadlines={"total_s": 9.0}).hash == base
    swapped = {"candidate": arms["candidate"], "baseline": arms["baseline"]}
    hashes = {
        base, plan(seed=1).hash, plan(repeats=2).hash, plan(load=[RATE]).hash, plan(arms=swapped).hash,
        plan(warmup={"warmup_requests": 1}).hash, plan(sampling={"temperature": 0.5}).hash,
        plan(load=[{**CLOSED, "cases": 41}]).hash, plan(comparison={"blocks": 2}).hash,
        plan(comparison={"design": "parallel"}).hash, plan(comparison={"design": "sequential"}).hash,
    }  # fmt: skip
    assert len(hashes) == 11
    task = {"tasks": [{"task_type": "chat_log", "prompts": "a.jsonl"}]}
    elsewhere = {"tasks": [{"task_type": "chat_log", "prompts": "b.jsonl"}]}
    assert plan({0: own(9)}, workload=task).hash == plan({0: own(9)}, workload=elsewhere).hash
    changed = PromptSet("1" * 64, own(9).prompts)
    assert plan({0: own(9)}, workload=task).hash != plan({0: changed}, workload=task).hash
