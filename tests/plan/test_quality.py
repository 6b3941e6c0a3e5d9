"""The passes of a quality run: which prompts, how often, with which seeds, in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from loadgen.errors import ScenarioError
from loadgen.plan import ClosedLoop, Plan, build_plan, quality_scenario
from loadgen.scenario import KnownAnswer, LoadedScenario, PromptSet
from tests.plan.conftest import CODE, QA, STAGE

Load = Callable[..., LoadedScenario]
QUALITY = {
    "cases_per_task": 5,
    "max_tokens": 64,
    "sampled": {"prompts_per_task": 3, "samples": 4},
    "second_tokens": {"prompts": 3, "samples": 20},
}
KNOWN = (KnownAnswer("sum", "1+1?", "2", "number", 8), KnownAnswer("copy", "say ox", "ox", "contains", 8))


@pytest.fixture
def laid(load: Load) -> Callable[..., tuple[LoadedScenario, Plan]]:
    """laid(**keys of the scenario) -> (its quality run, the plan of that)."""

    def make(prompts: dict[int, PromptSet] | None = None, **keys: Any) -> tuple[LoadedScenario, Plan]:
        found = quality_scenario(replace(load(prompts, quality=QUALITY, **keys), known=KNOWN))
        return found, build_plan(found)

    return make


Laid = Callable[..., tuple[LoadedScenario, Plan]]


def cases(plan: Plan, stage: int) -> list[Any]:
    return [plan.case(stage, "measure", i) for i in range(plan.requests(stage, "measure") or 0)]


def test_four_passes_each_with_its_tasks(laid: Laid) -> None:
    loaded, plan = laid()
    assert [(s.stage, s.requests) for s in loaded.passes] == [
        ("greedy", 13), ("greedy-alone", 13), ("sampled", 30), ("second-tokens", 60),
    ]  # fmt: skip
    assert [s.concurrency for s in loaded.scenario.load] == [4, 1, 4, 4]  # type: ignore[union-attr]
    assert Counter(c.task_type for c in cases(plan, 0)) == {
        "code": 5, "short_qa": 5, "known_answers": 2, "known_divergence": 1,
    }  # fmt: skip
    tasks = loaded.scenario.workload.tasks
    temperatures = {stage: {tasks[c.task_index].sampling.temperature for c in cases(plan, stage)} for stage in range(4)}  # type: ignore[union-attr]
    assert temperatures == {0: {0.0}, 1: {0.0}, 2: {1.0}, 3: {1.0}}
    assert max(c.output_len_requested for c in cases(plan, 0)) <= 64
    assert {c.output_len_requested for c in cases(plan, 3)} == {2}
    assert loaded.scenario.workload.keep_text


def test_all_passes_ask_the_same_prompts(laid: Laid) -> None:
    _, plan = laid()
    asked = [{(c.case_id, c.prompt_seed) for c in cases(plan, stage)} for stage in range(4)]
    assert asked[0] == asked[1]
    assert asked[2] < asked[0]
    assert asked[3] < asked[0]
    assert [len({case for case, _ in some}) for some in asked] == [13, 13, 6, 3]


def test_h2_is_asked_as_it_was_reported(laid: Laid) -> None:
    """H2: "serving" 48 times, temperature 0, seed 42, 32 tokens."""
    loaded, plan = laid(sampling={"top_p": 0.9, "top_k": 5, "temperature": 0.8})
    (case,) = [c for c in cases(plan, 0) if c.case_id == "serving-48"]
    own, sampling = plan.own_prompt(case), loaded.scenario.workload.tasks[case.task_index].sampling
    assert own is not None
    assert sampling is not None
    assert (own.prompt, case.output_len_requested, case.sampling_seed) == ("serving" * 48, 32, 42)
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.0, 1.0, -1)
    sampled = cases(plan, 2)[0]
    assert loaded.scenario.workload.tasks[sampled.task_index].sampling.temperature == 0.8  # type: ignore[union-attr]


def test_the_baseline_has_one_pass_more_and_all_take_turns(laid: Laid) -> None:
    _, plan = laid(comparison={"blocks": 3})
    measured = [s for s in plan.segments if s.phase == "measure"]
    asked = Counter((s.stage, s.arm, s.repeat_idx) for s in measured)
    assert {key[1:] for key in asked if key[0] == "greedy-alone"} == {
        ("baseline", 0), ("baseline", 1), ("baseline", 2), ("candidate", 0), ("candidate", 1),
    }  # fmt: skip
    assert {n for key, n in asked.items() if key[0] == "greedy-alone"} == {3}
    for stage in (0, 1):
        for block in (0, 1):
            mine = [s for s in measured if (s.stage_index, s.block) == (stage, block)]
            assert len({(s.arm, s.repeat_idx) for s in mine}) in (0, 5)
    assert [s.stage_index for s in measured] == sorted(s.stage_index for s in measured)
    assert {s.stage_index for s in plan.segments if s.phase == "warmup"} == {0}


def test_every_arm_and_answer_has_a_seed_of_its_own(laid: Laid) -> None:
    """The last answers of an arm have the seeds of its first: what the same seed is worth."""
    loaded, plan = laid()
    asked = loaded.passes[2]
    ranges = {}
    for s in plan.segments:
        if s.stage_index == 2 and isinstance(s.load, ClosedLoop):
            ranges.setdefault(s.arm, []).extend(range(s.load.first_index, s.load.first_index + (s.load.cases or 0)))
    assert {arm: sorted(some) for arm, some in ranges.items()} == {
        "baseline": list(range(30)), "candidate": list(range(30, 60)),
    }  # fmt: skip
    found = [plan.case(2, "measure", i) for i in range(60)]
    different = asked.prompts * asked.samples
    seeds = [c.sampling_seed for c in found]
    assert len(set(seeds)) == 2 * different
    for arm in (0, 30):
        assert seeds[arm + different : arm + 30] == seeds[arm : arm + 6]
        assert [c.case_id for c in found[arm + different : arm + 30]] == [c.case_id for c in found[arm : arm + 6]]
    assert Counter(c.case_id for c in found[:30]) == Counter(c.case_id for c in found[30:])


def test_own_prompts_are_asked_each_at_most_once_a_pass(laid: Laid, own: Callable[..., PromptSet]) -> None:
    task = {"task_type": "chat_log", "prompts": "x.jsonl"}
    loaded, plan = laid({0: own(3, max_tokens=100)}, workload={"tasks": [task]})
    assert Counter(c.case_id for c in cases(plan, 0) if c.task_type == "chat_log") == {f"row-{i}": 1 for i in range(3)}
    assert {c.output_len_requested for c in cases(plan, 0) if c.task_type == "chat_log"} == {64}
    assert loaded.passes[0].prompts == 6


def test_the_same_scenario_is_the_same_plan(laid: Laid) -> None:
    assert laid()[1].hash == laid()[1].hash != laid(seed=1)[1].hash
    assert laid()[1].hash != laid(comparison={"blocks": 2})[1].hash


def test_totals_count_what_is_asked(laid: Laid) -> None:
    _, plan = laid()
    greedy, two = sum(c.output_len_requested for c in cases(plan, 0)), 2 * 60 * 2
    sampled = 2 * sum(c.output_len_requested for c in cases(plan, 2))
    warmup = sum((s.load.cases or 0) for s in plan.segments if s.phase == "warmup" and isinstance(s.load, ClosedLoop))
    assert plan.totals.requests == 13 * 5 * 2 + 2 * 30 + 2 * 60 + warmup
    assert plan.totals.output_tokens == pytest.approx(10 * greedy + sampled + two, rel=0.02)
    assert plan.totals.input_tokens is None, "known answers have the length they have"


def test_one_node_is_visited_arm_by_arm(laid: Laid) -> None:
    arms = {n: {"url": f"http://{n}:1", "start": ["serve"]} for n in ("baseline", "candidate")}
    _, plan = laid(arms=arms, comparison={"design": "restart"})
    visits = [s.arm for s, before in zip(plan.segments, (None, *plan.segments), strict=False)
              if before is None or s.arm != before.arm]  # fmt: skip
    assert visits == ["baseline", "candidate", "baseline"]
    asked = Counter((s.stage, s.arm, s.repeat_idx) for s in plan.segments if s.phase == "measure")
    assert {key[1:] for key in asked if key[0] == "greedy"} == {
        ("baseline", 0), ("candidate", 0), ("candidate", 1), ("baseline", 1), ("baseline", 2),
    }  # fmt: skip


def test_an_arm_that_is_left_out_is_not_asked(laid: Laid) -> None:
    loaded, _ = laid(arms={n: {"url": f"http://{n}:1"} for n in ("baseline", "candidate", "other")})
    passes = tuple(replace(one, left_out=("other",)) for one in loaded.passes)
    assert {s.arm for s in build_plan(replace(loaded, passes=passes)).segments} == {"baseline", "candidate"}


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"arms": {"baseline": {"url": "http://one:1"}}}, "needs two or more"),
        ({"experiment": "soak", "load": [{**STAGE, "cases": None, "duration_s": 300.0}],
          "comparison": {"unpaired": ["c4"]}}, "experiment: soak cannot be compared"),
        ({"environment": "production"}, "above safety.max_requests"),
        ({"workload": {"tasks": [CODE, {**QA, "weight": 0.0}]},
          "quality": {"second_tokens": {"task_type": "short_qa"}}}, "short_qa has weight 0"),
    ],
)  # fmt: skip
def test_what_cannot_be_laid_out_is_refused(load: Load, keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        quality_scenario(load(**keys))
