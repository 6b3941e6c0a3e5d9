"""The comparison table: exact rows from hand-made runs, and known truth recovered on the rehearsal engine."""

from __future__ import annotations

import json

import pytest

from loadgen.analyze import Absent, Estimates, Query, analyze
from server_adapters.rehearsal import EngineConfig, SpeculationConfig

approx = pytest.approx


@pytest.fixture
def two(run, filled):
    """Two requests a block, one of each task; the candidate's step is 10 ms ÷ `pace`."""

    def make(pace=2.0, blocks=20, tasks=("code", "qa"), **labels):
        run.arm("baseline", speculation=False, k=0)
        run.arm("candidate")
        for b in range(blocks):
            filled(run, 2 * b, "baseline", b, [0.01, 0.01], labels=labels)
            wobble = 1 + (b * 7 % 20) / 2000
            filled(run, 2 * b + 1, "candidate", b, [0.01 / pace * wobble, 0.01 / pace], labels=labels)
        for row in run.rows:
            row["task_type"] = tasks[row["seq"] % 2]
        return run

    return make


def stages(summary):
    assert not isinstance(summary.comparison, Absent)
    return [r for r in summary.comparison if (r.task_type, r.input_segment, r.output_segment) == (None, None, None)]


def test_one_arm_is_compared_with_nothing(run, filled) -> None:
    filled(run, 0, "candidate", 0, [0.01])
    assert run.summary().comparison.reason == "the run has one arm: nothing to compare it with"


def test_rows_are_stages_then_tasks_in_them(two) -> None:
    found = two().summary().comparison
    assert [(r.stage, r.task_type, r.blocks, r.requests) for r in found] == [
        ("one", None, 20, 40), ("one", "code", 20, 20), ("one", "qa", 20, 20)
    ]  # fmt: skip
    assert [(r.speedup.kind, r.family) for r in found] == [("net_throughput", 1), ("tpot", 2), ("tpot", 2)]
    assert "the mix gives it" in found[1].speedup.why
    assert (found[0].design, found[0].paired) == ("interleaved", True)


def test_length_segments_make_rows_where_there_are_several(two) -> None:
    run = two(tasks=("code", "code"))
    for row in run.rows:
        row["input_len"] = 100 if row["seq"] % 2 else 300
    parts = [(r.input_segment, r.requests) for r in run.summary().comparison if r.input_segment]
    assert parts == [("0-127", 20), ("128-511", 20)]


def test_all_numbers_of_a_segments_row_are_of_the_same_cases(two) -> None:
    """Equal answers in both arms, but for the candidate's first ten, which are longer than the segment."""
    run = two(1.0, tasks=("code", "code"))
    for row in run.rows:
        long = row["seq"] % 2 == 1 or (row["arm"] == "candidate" and row["seq"] < 20)
        row["output_len"] = 60 if long else 11
    short, long = (r for r in run.summary().comparison if r.output_segment)
    for row, requests, lengths in ((short, 10, (11, 11)), (long, 30, (60, (20 * 60 + 10 * 11) / 30))):
        found = row.metric("output_len", "avg")
        assert (row.requests, found.candidate.n, found.baseline.n) == (requests, requests, requests)
        assert (found.candidate.value, found.baseline.value) == approx(lengths)


def test_a_row_holds_its_numbers_with_n_interval_and_source(two) -> None:
    """C18, F10: weighting, errors and intervals beside each number."""
    row = stages(two().summary())[0]
    assert row.speedup.value.value == approx(1.3333, rel=0.01)
    assert row.speedup.value.low < row.speedup.value.value < row.speedup.value.high
    assert (row.e_decode.value, row.c.value) == (approx(1.0), approx(0.5, rel=0.01))
    assert row.speedup_decode.value == approx(row.e_decode.value / row.c.value)
    total = row.metric("total_time_s", "p50")
    assert (total.baseline.value, total.candidate.value) == (approx(0.2), approx(0.15, rel=0.01))
    assert total.ratio.value == approx(0.75, rel=0.01)
    errors = row.metric("error_share", "value")
    assert (errors.candidate.value, errors.difference.value) == (0.0, 0.0)
    assert row.metric("ttft_s", "p99").candidate.low is None
    assert "not enough data" in row.metric("ttft_s", "p99").candidate.reason
    assert row.metric("server_queue_s", "avg").reason


def test_a_faster_candidate(two) -> None:
    row = stages(two(2.0).summary())[0]
    assert row.verdict_word == "faster"
    assert row.sentence.startswith("candidate beside baseline: faster, net throughput 1.33×")


def test_a_slower_candidate_is_said_as_plainly(two) -> None:
    row = stages(two(0.8).summary())[0]
    assert row.verdict_word == "slower"
    assert row.sentence.startswith("candidate beside baseline: slower, net throughput 0.89×")
    assert "decoding is 0.80× as fast: slower" in row.sentence


def test_a_speedup_of_the_time_per_token_is_called_a_speed(two) -> None:
    """ "faster, time per token 2×" would say that a token takes twice as long."""
    row = stages(two(2.0, executor="arrival_rate", concurrency=None, rate_per_s=1.0).summary())[0]
    assert row.sentence.startswith("candidate beside baseline: faster, speed per token 2.00×")


def test_one_block_is_not_enough(two) -> None:
    """The usual two-arm run without design blocks claims nothing."""
    row = stages(two(blocks=1).summary())[0]
    assert (row.verdict_word, row.blocks) == ("not enough data", 1)
    assert row.speedup.value.value == approx(1.33, rel=0.01)
    assert "needs at least 3 paired blocks, there are 1" in row.sentence


def test_variation_across_repeats(run, filled) -> None:
    """Coefficient of variation of each repeat's net throughput, by arm: 100, 100, 130 ms a step."""
    run.arm("baseline")
    run.arm("candidate")
    for repeat, step in enumerate((0.010, 0.010, 0.013)):
        for b in range(2):
            number = 4 * repeat + 2 * b
            labels = {"repeat_idx": repeat}
            filled(run, number, "baseline", b, [step], labels=labels)
            filled(run, number + 1, "candidate", b, [0.01], labels=labels)
    varies = stages(run.summary())[0].repeat_variation
    rates = [11 / 0.2, 11 / 0.2, 11 / 0.23]
    mean = sum(rates) / 3
    sd = (sum((r - mean) ** 2 for r in rates) / 2) ** 0.5
    assert varies["baseline"].value == approx(sd / mean, rel=1e-6)
    assert (varies["baseline"].n, varies["baseline"].unit) == (3, "repeats")
    assert varies["candidate"].value == approx(0, abs=1e-9)


def test_every_candidate_is_beside_the_baseline(run, filled) -> None:
    for number, (name, step) in enumerate({"k4": 0.005, "baseline": 0.01, "k8": 0.02}.items()):
        run.arm(name)
        for b in range(4):
            filled(run, 10 * number + b, name, b, [step])
    found = stages(run.summary())
    assert [(r.candidate, r.baseline) for r in found] == [("k4", "baseline"), ("k8", "baseline")]
    assert [r.family for r in found] == [2, 2]
    assert found[0].speedup.value.value > 1 > found[1].speedup.value.value


def test_an_arm_that_finished_nothing_unpairs_no_other(two) -> None:
    run = two(blocks=3)
    run.arm("third")
    for b in range(3):
        run.segment(100 + b, arm="third", block=b, start=500.0 + b, full=500.0 + b, load_end=None, end=None)
    found = {r.candidate: (r.paired, r.blocks) for r in stages(run.summary())}
    assert found == {"candidate": (True, 3), "third": (False, 0)}
    assert Estimates(run.data()).paired


def test_stages_that_end_by_time_are_shown_but_not_paired(run, filled) -> None:
    run.arm("baseline")
    run.arm("candidate")
    run.scenario["comparison"] = {"unpaired": ["ramp"]}
    for i, stage in enumerate(("one", "ramp")):
        for b in range(3):
            number, labels = 10 * i + 2 * b, {"stage": stage, "stage_index": i}
            filled(run, number, "baseline", b, [0.01], labels=labels)
            filled(run, number + 1, "candidate", b, [0.005 * (1 + 3 * i)], labels=labels)
    found = stages(run.summary())
    assert [(r.stage, r.paired) for r in found] == [("one", True), ("ramp", False)]
    together = Estimates(run.data()).estimate(Query("speedup", "value", (("arm", "candidate"),)))
    assert together.value == approx(found[0].speedup.value.value)


def test_running_batches_stand_beside_e_and_c(two) -> None:
    run = two(blocks=3)
    for phase in run.phases:
        at = phase.started_ns / 1e9 - 1000
        for i in range(6):
            run.scrape(at + 0.01 * i, arm=phase.arm, running=2.0 if phase.arm == "candidate" else 1.0)
    row = stages(run.summary())[0]
    assert (row.candidate_running.value, row.baseline_running.value, row.like_for_like) == (2.0, 1.0, False)
    assert "Not like for like: 2.0 requests ran at once, 1.0 in the baseline." in row.sentence


def test_blocks_that_never_stood_are_taken_whole(run, filled) -> None:
    """A block of as many cases as users is never at full load: both arms' whole blocks are the same work."""
    for arm, step in (("baseline", 0.01), ("candidate", 0.005)):
        run.arm(arm)
        for b in range(3):
            filled(run, 10 * b + (arm == "candidate"), arm, b, [step], spare_s=0.0)
    for i, phase in enumerate(run.phases):
        fields = {name: getattr(phase, name) for name in phase.__dataclass_fields__}
        run.phases[i] = type(phase)(**{**fields, "load_end_ns": phase.started_ns + 1_000_000})
    row = stages(run.summary())[0]
    assert row.speedup.value.value == approx(0.2 / 0.15, rel=1e-6)
    assert "whole blocks, with ramp and drain" in row.speedup.value.reason


def test_stages_and_arms_have_intervals_of_their_percentiles(two) -> None:
    """In the ok view, where there are at least 20 blocks; parts and percentiles of too few have none."""
    arm = two().summary().arms["candidate"]
    stage = next(g for g in arm.by if g.stage == "one" and g.task_type is None)
    for found in (arm.overall.stream.total_time_s, stage.stream.total_time_s, stage.tpot_s):
        low, high = found.intervals["p50"]
        assert low <= found.p50 <= high
        assert "p99" not in found.intervals
    assert next(g for g in arm.by if g.task_type == "code").tpot_s.intervals == {}


def test_the_summary_is_strict_json(two) -> None:
    """F12: no NaN, no infinity, also where every request of an arm failed."""
    run = two(blocks=4)
    for row in run.rows:
        if row["arm"] == "candidate":
            row["outcome"] = "timeout"

    def refuse(text: str) -> float:
        raise AssertionError(text)

    summary = run.summary()
    json.loads(summary.model_dump_json(), parse_constant=refuse)
    row = stages(summary)[0]
    assert row.verdict_word == "not enough data"
    assert row.metric("error_share", "value").candidate.value == 1.0


@pytest.mark.parametrize("speed", [1.25, 0.8])
def test_known_speedups_are_recovered_at_five_levels(five_levels, speed) -> None:
    """On the rehearsal engine in virtual time: an engine `speed` times as fast, at every concurrency."""
    found = stages(analyze(five_levels(speed)))
    assert [r.concurrency for r in found] == [1, 2, 4, 8, 16]
    for row in found:
        assert row.speedup.kind == "net_throughput"
        assert row.speedup.value.low <= speed <= row.speedup.value.high, (row.stage, row.speedup.value)
        assert row.speedup.value.high - row.speedup.value.low < 0.1
        assert row.speedup_decode.low * 0.99 <= speed <= row.speedup_decode.high * 1.01
        assert row.verdict_word == ("faster" if speed > 1 else "slower")


def test_e_and_c_of_real_speculation(simulated) -> None:
    """E and c against the engine's own truth: all its steps, and tokens of them."""
    arms = {"baseline": EngineConfig(), "candidate": EngineConfig(speculation=SpeculationConfig())}
    (row,) = stages(analyze(simulated.run(arms, [4], cases=12, max_tokens=48)))
    assert row.verdict_word == "faster"
    assert 2.5 < row.e_decode.value < 4.5
    assert 1.05 < row.c.value < 1.3, "four draft passes of a 1B model beside a 70B one"
    assert row.speedup_decode.value == approx(row.e_decode.value / row.c.value, rel=1e-6)
    assert row.acceptance_rate.low < row.acceptance_rate.value < row.acceptance_rate.high
    assert row.rollback_rate.exact


def test_equal_arms_show_no_difference(equal_arms) -> None:
    same_arms = analyze(equal_arms)
    for row in stages(same_arms):
        assert row.verdict_word == "no difference shown", row.sentence
        assert row.speedup.value.low <= 1 <= row.speedup.value.high
        for name, aggregate in (("ttft_s", "p95"), ("tpot_s", "p95"), ("total_time_s", "p95")):
            ratio = row.metric(name, aggregate).ratio
            assert ratio.low <= 1 <= ratio.high, (row.stage, name)
    assert [r.speedup.kind for r in stages(same_arms)] == ["net_throughput", "tpot"]
    assert not [f for f in same_arms.findings if f.severity == "bad"]
    assert sum("no difference" in r.verdict_word for r in same_arms.comparison) == len(same_arms.comparison)


def test_faults_in_one_of_sixty_requests_change_the_p99_alone(stalling) -> None:
    """A stall of 3 s before the last token of few requests: total time P99 is worse, nothing else by 5 %."""
    (row,) = stages(analyze(stalling))
    assert row.metric("total_time_s", "p99").ratio.low > 1.05
    for name, aggregate in (("ttft_s", "p95"), ("ttft_s", "p99"), ("total_time_s", "p50"), ("total_time_s", "p95")):
        ratio = row.metric(name, aggregate).ratio
        assert 0.95 < ratio.low < ratio.high < 1.05, (name, aggregate, ratio)
