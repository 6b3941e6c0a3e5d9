"""What a comparison needs from its arms and stages, said before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loadgen.errors import ScenarioError
from loadgen.scenario import Scenario, chosen_baseline

Build = Callable[[dict[str, Any]], Scenario]
Refused = Callable[[dict[str, Any]], list[str]]
TWO = {"arms": {"base": {"url": "http://h:1"}, "other": {"url": "http://h:2"}}}
HOOKS = {"arms": {"base": {"url": "http://h:1", "start": "up"}, "other": {"url": "http://h:1", "start": ["up", "-x"]}}}
TIMED = {"load": [{"kind": "concurrency", "concurrency": 2, "duration_s": 5}]}
RAMP = {"load": [{"kind": "concurrency", "concurrency": {"start": 1, "end": 4}, "duration_s": 5, "cases": 40}]}


def test_repeats_default_to_five_where_arms_are_compared(build: Build) -> None:
    assert (build({}).passes, build({}).repeats) == (1, 1)
    assert (build(TWO).passes, build(TWO).repeats) == (5, 5)
    assert build({**TWO, "repeats": 2}).passes == 2


def test_the_baseline(build: Build) -> None:
    assert build(TWO).baseline == "base"
    assert build({"arms": {"a": {"url": "http://h:1"}, "baseline": {"url": "http://h:2"}}}).baseline == "baseline"
    assert build({**TWO, "comparison.baseline": "other"}).baseline == "other"


def off(*names: str) -> dict[str, Any]:
    arms = {n: {"url": f"http://{n}:1", **({"speculation": "off"} if n in names else {})} for n in ("a", "b", "c")}
    return {"arms": arms}


def test_the_only_arm_with_speculation_off_is_the_baseline(build: Build) -> None:
    assert build(off("b")).baseline == "b"
    assert build(off("b", "c")).baseline == "a"
    assert build({**off("b"), "comparison.baseline": "c"}).baseline == "c"


@pytest.mark.parametrize(
    ("named", "arms", "without", "chosen"),
    [
        ("c", ("a", "b", "c"), ("b",), "c"),
        (None, ("a", "baseline", "c"), ("c",), "baseline"),
        (None, ("a", "b", "c"), ("b",), "b"),
        (None, ("a", "b", "c"), ("b", "c"), "a"),
        (None, ("a", "b", "c"), (), "a"),
    ],
)
def test_one_rule_for_the_baseline(named: str | None, arms: tuple[str, ...], without: set[str], chosen: str) -> None:
    assert chosen_baseline(named, arms, without) == chosen


def test_another_baseline_is_checked_against_the_thresholds(build: Build) -> None:
    scenario = build({**off(), "thresholds": ["ttft_s{arm:b}: p(95)<=1.05 * baseline"]})
    assert scenario.against("c").baseline == "c"
    with pytest.raises(ScenarioError, match=r"thresholds.0: .* compares b with itself: it is the baseline"):
        scenario.against("b")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({**TWO, "comparison.baseline": "third"}, 'comparison.baseline: "third" is no arm; there are base, other'),
        (
            {**TWO, **TIMED},
            "load.0.cases: is missing: it would end by time, so the arms of a comparison would answer different "
            "requests; give cases, or list c2 in comparison.unpaired",
        ),
        (
            {**TWO, **RAMP},
            "load.0.concurrency: a ramp ends by time, so the arms of a comparison would answer different requests; "
            "give steps that end by cases, or list c1-4 in comparison.unpaired",
        ),
        (
            {"comparison.unpaired": ["c9"]},
            'comparison.unpaired.0: "c9" is no concurrency stage that ends by time (there: none)',
        ),
        (
            {**TWO, "comparison.blocks": 3},
            "load.0.cases: must be at least 24 (comparison.blocks 3 × 2 × concurrency 4): shorter blocks have no "
            "steady part (got 20)",
        ),
        ({**TWO, "comparison.swap": True}, "comparison.swap: belongs to design: parallel with two arms or more"),
        ({**TWO, "comparison.aa_run": "a"}, "comparison.aa_run: belongs to design: parallel with two arms or more"),
        (
            {"arms": {"a": {"url": "http://h:1"}, "b": {"urls": ["http://h:2", "http://h:3"]}},
             "comparison": {"design": "parallel", "swap": True}},
            "comparison.swap: arms can only exchange their URLs where each has as many as the others",
        ),
        ({"arms.baseline.stop": "down"}, "arms.baseline.stop: needs start: only what was started here is stopped here"),
        (
            {"comparison.design": "restart"},
            "arms.baseline.start: is missing: design: restart starts and stops every arm by its commands",
        ),
        ({"arms.baseline.start": []}, "arms.baseline.start: must not be empty (at least 1) (got a list)"),
        (
            {"arms.baseline.start": 7},
            "arms.baseline.start: must be text (in quotes, where it looks like a number) (got 7)",
        ),
        ({"warmup.agree_within": 5}, "warmup.agree_within: must be at most 1 (got 5)"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_refused(refused: Refused, changes: dict[str, Any], problem: str) -> None:
    assert refused(changes) == [problem]


def test_stages_that_end_by_time_may_be_declared(build: Build) -> None:
    assert build({**TWO, **TIMED, "comparison.unpaired": ["c2"]}).comparison.unpaired == ["c2"]
    assert build({**TWO, **RAMP, "comparison.unpaired": ["c1-4"]}).load[0].name == "c1-4"


def test_commands_are_words_or_a_text_for_the_shell(build: Build) -> None:
    scenario = build({**HOOKS, "comparison.design": "restart"})
    assert [arm.start for arm in scenario.arms.values()] == ["up", ["up", "-x"]]


@pytest.mark.parametrize(
    ("warmup", "windows"),
    [({}, 6), ({"warmup_requests": 4}, 1), ({"warmup_seconds": 3}, 1), ({"warmup_requests": 4, "max_windows": 5}, 5)],
)
def test_a_stated_amount_of_warm_up_is_one_window(build: Build, warmup: dict[str, Any], windows: int) -> None:
    """F4: how much is enough is either stated or seen."""
    assert build({"warmup": warmup}).warmup.windows == windows


def test_a_plan_has_an_upper_bound(build: Build, refused: Refused) -> None:
    """Said at once, before anything is planned."""
    (text,) = refused({"repeats": 1_000_000_000})
    assert text == "repeats: must be at most 1,000 (got 1000000000)"
    assert build({"repeats": 1000, "comparison.blocks": 100, "load.0.cases": 800}).passes == 1000


def test_a_plan_of_too_many_segments_is_refused(refused: Refused) -> None:
    assert refused({**TWO, "repeats": 1000, "comparison.blocks": 51, "load.0.cases": 408}) == [
        "repeats: 1000 repeats × 51 blocks × 1 stages × 2 arms are 102,000 segments, and 100,000 are allowed: ask for "
        "fewer repeats or comparison.blocks"
    ]
