"""From a run to its verdict, with known truth: comparisons on the rehearsal engine in virtual time."""

from __future__ import annotations

import io
from dataclasses import replace

import pyarrow as pa
import pytest
from rich.console import Console

from loadgen.analyze import Estimates, Query
from loadgen.experiment import compare_two, judge_run
from loadgen.report import render_terminal
from loadgen.scenario import parse_threshold
from server_adapters.base import Fact
from server_adapters.rehearsal import TASK_TYPES, EngineConfig, SpeculationConfig

LEVELS = (1, 2, 4, 8, 16)


def judged(run, *texts):
    """By `texts`, or by the defaults where there are none."""
    found = judge_run(run, [parse_threshold(text) for text in texts] or None).verdict
    assert found is not None
    return found


def at_each_level(limit: str) -> list[str]:
    return [f"speedup{{concurrency:{level}}}: value{limit}" for level in LEVELS]


def test_a_known_speedup_passes_below_it_and_fails_above_it_at_five_levels(five_levels) -> None:
    """H16: an engine 1.25 times as fast, level by level."""
    run = five_levels(1.25)
    low, high = judged(run, *at_each_level(">=1.2")), judged(run, *at_each_level(">=1.4"))
    assert (low.verdict, low.obstacles) == ("pass", [])
    assert high.verdict == "fail"
    assert [r.ok for r in high.thresholds] == [False] * 5
    for result in low.thresholds:
        assert result.interval is not None
        assert result.interval[0] <= 1.25 <= result.interval[1], result.sentence
        assert (result.n, result.n_unit) == (10, "blocks")


def test_a_slower_candidate_fails_by_the_default_thresholds(five_levels) -> None:
    found = judged(five_levels(0.8))
    assert (found.verdict, found.thresholds_from) == ("fail", "defaults")
    assert found.reasons[0].startswith("speedup{stage:c1,arm:candidate}: value>=1: fail: 0.80")
    speedups = [r for r in found.thresholds if r.metric == "speedup"]
    assert [r.ok for r in speedups] == [False] * 5
    for result in speedups:
        assert result.interval is not None
        assert result.interval[0] <= 0.8 <= result.interval[1], result.sentence
    assert True not in [r.ok for r in found.thresholds]


def test_equal_arms_do_not_fail_and_show_no_difference(equal_arms) -> None:
    """A/A: nothing is worse, and a gain of at least 0 % cannot be shown either: inconclusive, by the speedup alone."""
    judgement = judge_run(equal_arms)
    found = judgement.verdict
    assert found is not None
    assert (found.verdict, found.obstacles) == ("inconclusive", [])
    assert False not in [r.ok for r in found.thresholds]
    speedups = [r for r in found.thresholds if r.metric == "speedup"]
    assert speedups
    for speedup in speedups:
        assert speedup.ok is None
        assert speedup.interval is not None
        assert speedup.interval[0] <= 1 <= speedup.interval[1]
    assert {row.verdict_word for row in judgement.summary.comparison} == {"no difference shown"}


def test_what_is_not_known_of_an_arm_is_no_further_difference(run, filled) -> None:
    seeds = (("baseline", {"model.seed": 1, "host.os": "Linux"}), ("candidate", {"model.seed": 2}))
    for i, (arm, known) in enumerate(seeds):
        run.arm(arm, environment={key: Fact(value, "/server_info") for key, value in known.items()})
        filled(run, i, arm, 0, [0.01], labels={"stage": "c1"})
    told = [text.split(": ")[1:] for text in judged(run.data()).notes if text.startswith("environment: ")]
    further, unknown = (dict(told)[words].split(", ") for words in ("further differences", "not known to be alike"))
    assert ("model.seed" in further, "model.seed" in unknown) == (True, False)
    assert ("host.os" in further, "host.os" in unknown) == (False, True)


def test_one_arm_without_thresholds_says_so(run, filled) -> None:
    run.arm("candidate")
    filled(run, 0, "candidate", 0, [0.01], labels={"stage": "c1"})
    said = "one arm, and no thresholds in its scenario"
    assert judge_run(run.data()).summary.verdict.reason == said
    run.scenario["experiment"] = "drill"
    assert judge_run(run.data()).summary.verdict.reason == f"{said}; what the drill found is judged by itself"


def test_a_gain_under_a_closed_loop_does_not_hide_a_loss_under_an_open_one(run, filled) -> None:
    """C18: neither is left out, each is judged by the number of its own load."""
    for arm in ("baseline", "candidate"):
        run.arm(arm)
    open_loop = {"stage": "r1", "stage_index": 1, "executor": "arrival_rate", "concurrency": None, "rate_per_s": 1.0}
    for b in range(20):
        for i, (arm, closed, opened) in enumerate((("baseline", 0.01, 0.01), ("candidate", 0.008, 0.02))):
            filled(run, 2 * b + i, arm, b, [closed * (1 + b * 7 % 5 / 1000)], labels={"stage": "c1"})
            filled(run, 100 + 2 * b + i, arm, b, [opened * (1 + b * 3 % 5 / 1000)], labels=open_loop)
    found = judged(run.data(), "speedup: value>=1")
    assert found.verdict == "fail"
    assert [(r.where["stage"], r.ok, r.method.split(":")[0]) for r in found.thresholds] == [
        ("c1", True, "net throughput"),
        ("r1", False, "time per token"),
    ]
    assert found.reasons[0].endswith(", limit 1×, n = 20 blocks, of time per token")
    whole = Estimates(run.data()).estimate(Query("speedup", "value", (("arm", "candidate"),)))
    assert (whole.value, whole.low) == (None, None)
    assert "closed and open loops have no speedup in common" in whole.reason


@pytest.mark.parametrize(
    ("labels", "kind", "value"),
    [
        ({"executor": "arrival_rate", "concurrency": None, "rate_per_s": 0.1}, "time per token", 0.5),
        ({}, "net throughput", 0.2 / 0.3),
    ],
)
def test_two_runs_of_other_plans_are_compared_by_their_load(fresh, filled, labels, kind, value) -> None:
    """C18: the second takes twice as long a token, and is asked as often as the first where arrivals set the load."""
    runs = []
    for step, plan in ((0.01, "p"), (0.02, "q")):
        run = fresh()
        run.arm("server")
        for b in range(20):
            filled(run, b, "server", b, [step * (1 + b * 7 % 5 / 1000)], labels=labels)
        data = run.data()
        data.manifest.plan_hash, data.manifest.run_id = plan, plan
        runs.append(data)
    found = compare_two(*runs, [parse_threshold("speedup: value>=0.9")]).verdict
    (result,) = found.thresholds
    assert (found.verdict, result.ok) == ("fail", False)
    assert result.value == pytest.approx(value, rel=1e-3)
    assert result.method.startswith(f"{kind}: ratio of two runs")
    assert result.sentence.endswith(f"of {kind}")


def test_pooled_time_per_token_counts_each_token_once(run) -> None:
    """A request of 1 token in 0.1 s and one of 9 in 0.1 s: 0.02 s a token, not the mean of 0.1 and 0.0111."""
    run.segment(full=0.0)
    run.request([(0.1, 1), (0.2, 1)])
    run.request([(0.1, 1), (0.2, 9)])
    found = Estimates(run.data()).estimate(Query("tpot_s", "pooled"))
    assert found.value == pytest.approx(0.02)
    assert found.unit == "blocks"


@pytest.mark.parametrize(("step_s", "told"), [(0.01, "blocks are short"), (1.0, None)])
def test_blocks_that_are_mostly_filling_are_named(run, filled, step_s, told) -> None:
    """0.1 s to the first token and 10 steps: 0.2 s, or 10.1 s."""
    for b in range(4):
        for i, arm in enumerate(("baseline", "candidate")):
            filled(run, 2 * b + i, arm, b, [step_s], at=20.0 * (2 * b + i))
    notes = judged(run.data(), "speedup: value>=1").notes
    short = [note for note in notes if "blocks are short" in note]
    assert short == ([] if told is None else [
        "blocks are short, mostly filling and draining (10 to 30 s are good): one 0.2 s"
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("swapped", "word", "told"),
    [(0, "inconclusive", "20 before the exchange, 0 after it"), (8, "inconclusive", "12 before"), (10, "fail", None)],
)
def test_a_run_that_ends_before_its_nodes_were_exchanged_does_not_fail(run, filled, swapped, word, told) -> None:
    """C18: the node on which the candidate stood may be all that is slower."""
    for arm in ("baseline", "candidate"):
        run.arm(arm)
    for b in range(20):
        for i, (arm, step) in enumerate((("baseline", 0.01), ("candidate", 0.012))):
            filled(run, 2 * b + i, arm, b, [step * (1 + b * 7 % 5 / 1000)])
    ended = [replace(phase, swapped=phase.block >= 20 - swapped) for phase in run.phases]
    begun = [replace(phase, full_ns=None, load_end_ns=None, ended_ns=None, idle_after=None) for phase in ended]
    run.phases = [phase for both in zip(begun, ended, strict=True) for phase in both]
    run.state = "interrupted"
    data = run.data()
    data.manifest.design, data.manifest.comparison["swap"] = "parallel", True
    found = judged(data, "speedup: value>=1")
    assert found.verdict == word
    assert (told is None) == (len(found.obstacles) == 1)
    assert told is None or any(told in obstacle for obstacle in found.obstacles)


@pytest.fixture(scope="module")
def faster_but_stalling(simulated, stall):
    """1.25 times as fast in everything; one in forty streams stands still for 1 s."""
    arms = {"baseline": EngineConfig(), "candidate": EngineConfig(speed=1.25)}
    return simulated.run(arms, [6.0], cases=60, blocks=24, max_tokens=16, spoil=stall(1.0, 40))


def test_rare_stalls_fail_the_p99_and_nothing_else(faster_but_stalling) -> None:
    """F10: what one request in forty meets is in the tail, and only there."""
    found = judged(faster_but_stalling)
    assert (found.verdict, found.obstacles) == ("fail", [])
    ruled = {(r.metric, r.aggregate): r.ok for r in found.thresholds}
    assert ruled == {
        ("speedup", "value"): True, ("ttft_s", "p95"): True, ("tpot_s", "p95"): True, ("total_time_s", "p99"): False
    }  # fmt: skip
    (reason,) = found.reasons
    assert reason.startswith("total_time_s{arm:candidate}: p(99)<=1.05 * baseline: fail: ")


def test_between_equal_engines_stalls_are_in_the_p99_alone(stalling) -> None:
    """As the default thresholds see it the mean suffers, too: 3 s in 60 requests."""
    texts = [f"total_time_s: p({level})<=1.05 * baseline" for level in (50, 90, 95, 99)]
    found = judged(stalling, *texts, "ttft_s: p(99)<=1.05 * baseline")
    assert found.verdict == "fail"
    assert [r.ok for r in found.thresholds] == [True, True, True, False, True]


BLOCKS = "an interval needs at least 20 blocks, there are {}"


@pytest.mark.parametrize(
    ("blocks", "cases", "needs"),
    [
        (2, 24, (BLOCKS.format(2), "needs at least 100 requests, there are 48")),
        (19, 60, (BLOCKS.format(19), BLOCKS.format(19))),
    ],
)
def test_too_few_samples_are_inconclusive_and_say_why(simulated, blocks, cases, needs) -> None:
    """F2: a candidate ten times as slow does not fail by a percentile that cannot be told."""
    arms = {"baseline": EngineConfig(), "candidate": EngineConfig(speed=0.1)}
    run = simulated.run(arms, [4], cases=cases, blocks=blocks, max_tokens=8)
    found = judged(run, "ttft_s: p(95)<=1.05 * baseline", "total_time_s: p(99)<=1.05 * baseline")
    assert (found.verdict, found.obstacles) == ("inconclusive", [])
    for result, needed in zip(found.thresholds, needs, strict=True):
        assert (result.ok, result.interval) == (None, None)
        assert f"not enough data: {needed}" in result.sentence
    assert found.reasons == [result.sentence for result in found.thresholds]


def test_a_comparison_holds_what_practitioners_ask_for(simulated) -> None:
    """H19: content and length variety, acceptance, end-to-end speedup, P50, P95 and P99, each with n and interval;
    H16: by load and by task, paired by case."""
    arms = {"baseline": EngineConfig(), "candidate": EngineConfig(speculation=SpeculationConfig())}
    run = simulated.run(arms, [4], cases=24, blocks=20, max_tokens=24)
    rows = [{**row, "input_len": 100 if row["seq"] % 2 else 700} for row in run.requests.to_pylist()]
    run = replace(run, requests=pa.Table.from_pylist(rows, schema=run.requests.schema))
    found = judge_run(run).summary.comparison
    whole = found[0]
    assert {r.task_type for r in found} == {None, *TASK_TYPES}
    assert {r.input_segment for r in found} == {None, "0-127", "512-2047"}
    assert (whole.paired, whole.blocks, whole.requests) == (True, 20, 480)
    for interval in (whole.acceptance_rate, whole.speedup.value, whole.speedup.total_time, whole.e_decode, whole.c):
        assert interval.low < interval.value < interval.high
    assert whole.rollback_rate.exact
    for name in ("ttft_s", "total_time_s"):
        for aggregate in ("p50", "p95", "p99"):
            metric = whole.metric(name, aggregate)
            assert metric.baseline.n == metric.candidate.n == 480
            assert metric.ratio.low <= metric.ratio.value <= metric.ratio.high


def test_three_arms_at_four_levels_fit_a_terminal_page(simulated) -> None:
    """With the verdict first, every threshold and every load of both candidates."""
    arms = {
        "baseline": EngineConfig(),
        "ngram": EngineConfig(speculation=SpeculationConfig(method="ngram")),
        "draft_model": EngineConfig(speculation=SpeculationConfig()),
    }
    found = judge_run(simulated.run(arms, [1, 4, 16, 64], cases=64, blocks=5, max_tokens=12))
    assert found.verdict is not None
    console = Console(file=io.StringIO(), width=120, highlight=False)
    render_terminal(found.summary, console)
    text = console.file.getvalue()
    lines = text.splitlines()
    assert len(lines) <= 50
    assert lines[1] == f"VERDICT: {found.verdict.verdict.upper()}"
    assert all(text.count(f"{result.name}: ") <= 1 for result in found.verdict.thresholds)
    loads = [tuple(line.split()[:2]) for line in lines if line.startswith(" c")]
    assert loads == [(f"c{level}", arm) for arm in ("ngram", "draft_model") for level in (1, 4, 16, 64)]
