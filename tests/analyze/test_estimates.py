"""Any number a threshold may ask for: exact values from hand-made runs, and absence with its reason."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.analyze import METRICS, SELECTORS, Estimate, Estimates, Query
from loadgen.analyze.beside import ratio_of_intervals
from loadgen.record import open_run

SMALL = Path(__file__).resolve().parents[1] / "data" / "runs" / "small"
approx = pytest.approx
ARM = (("arm", "candidate"),)


def pace(b):
    """2.00 … 2.19 in no order."""
    return 2 + (b * 7 % 20) / 100


@pytest.fixture
def two(run, filled):
    """20 paired blocks; the candidate's step in block b is 10 ms / pace(b) where the baseline's is 10 ms."""

    def make(blocks=20, cand=lambda b: 0.010 / pace(b), base=lambda b: 0.010, cases=1, **labels):
        run.arm("baseline", speculation=False, k=0)
        run.arm("candidate")
        for b in range(blocks):
            filled(run, 2 * b, "baseline", b, [base(b)] * cases, labels=labels)
            filled(run, 2 * b + 1, "candidate", b, [cand(b)] * cases, labels=labels)
        return run

    return make


def t_interval(ratios):
    logs = np.log(ratios)
    half = scipy.stats.t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / math.sqrt(len(logs))
    return np.exp([logs.mean(), logs.mean() - half, logs.mean() + half])


def ask(run, metric, aggregate="value", where=ARM, relative=None):
    return Estimates(run.data()).estimate(Query(metric, aggregate, where, relative))


def of(kind, found):
    """A speedup says of what it is one."""
    return replace(found, method=f"{kind}: {found.method}")


def test_closed_loop_speedup_is_net_throughput_with_a_t_interval_over_blocks(two) -> None:
    """11 tokens in 0.1 s + 10 steps, block by block."""
    found = ask(two(), "speedup")
    ratios = [0.2 / (0.1 + 0.1 / pace(b)) for b in range(20)]
    assert (found.value, found.low, found.high) == approx(tuple(t_interval(ratios)), rel=1e-6)
    assert (found.n, found.unit) == (20, "blocks")


def test_decode_speedup_is_of_the_time_per_token_and_equals_e_over_c(two) -> None:
    run = two()
    ratios = [pace(b) for b in range(20)]
    speedup, e, c = (ask(run, name) for name in ("speedup_decode", "e_ratio", "c"))
    assert (speedup.value, speedup.low, speedup.high) == approx(tuple(t_interval(ratios)), rel=1e-5)
    assert e.value == approx(1.0)
    assert speedup.value == approx(e.value / c.value)


@pytest.fixture
def unequal_tasks(run, filled):
    """Two cases a block. Both arms need 10 ms a step, the baseline's steps have 1 token, the candidate's 5 in the first
    case and 2 in the second; in every other block the baseline fails the first, as the candidate does not."""
    run.arm("baseline", speculation=False, k=0)
    run.arm("candidate")
    for b in range(20):
        for arm, steps in (("baseline", (1, 1)), ("candidate", (5, 2))):
            number = 2 * b + (arm == "candidate")
            filled(run, number, arm, b, [0.01], tokens=steps[0])
            run.rows[-1] |= {"seq": 2 * b, "case_id": f"first{b}"}
            start = next(p.started_ns for p in run.phases if p.segment == number) / 1e9 - 1000
            chunks = [(0.1 + 0.01 * j, steps[1] if j else 1) for j in range(11)]
            run.request(chunks, sent=start, arm=arm, segment=number, seq=2 * b + 1, case_id=f"second{b}", block=b)
    for row in [r for r in run.rows if r["arm"] == "baseline" and r["seq"] % 4 == 0]:
        row |= {"outcome": "http_error", "output_len": None, "first_token_ns": None, "last_token_ns": None}
        row |= dict.fromkeys(("chunk_times_s", "chunk_tokens", "arrival_no"))
    return run


def test_e_and_c_are_of_the_cases_that_both_arms_have(unequal_tasks) -> None:
    """E of a block is 3.5 where both cases are ok in both arms and 2 where the first failed; steps cost the same."""
    found = {name: ask(unequal_tasks, name) for name in ("e_ratio", "c", "speedup_decode")}
    assert found["e_ratio"].value == approx(math.sqrt(3.5 * 2), rel=1e-6)
    assert found["c"].value == approx(1.0, rel=1e-6)
    assert found["speedup_decode"].value == approx(found["e_ratio"].value, rel=1e-6)
    assert "10 of 40 cases left out" in found["e_ratio"].reason


def test_the_decomposition_is_of_the_same_cases(unequal_tasks) -> None:
    """Pooled: 10 first cases of 5 tokens a step, 20 second ones of 2."""
    (found,) = unequal_tasks.summary().decomposition
    assert (found.e_decode.value, found.c.value) == (approx(3.0), approx(1.0))
    assert found.speedup_decode.value == approx(3.0)


def test_counters_of_other_requests_are_not_taken_for_the_steps_of_these(unequal_tasks) -> None:
    """The candidate's counters hold the cases that the baseline failed."""
    expected = ask(unequal_tasks, "e_ratio").value
    for number in range(40):
        arm, failed = ("baseline", "candidate")[number % 2], number % 4 == 0
        tokens = {"baseline": 10 if failed else 20, "candidate": 70}[arm]
        steps, requests = (10, 1) if failed else (20, 2)
        end = next(p.ended_ns for p in unequal_tasks.phases if p.segment == number) / 1e9 - 1000
        told = {"generation_tokens": tokens + requests, "output_events": steps, "ttft_count": requests}
        unequal_tasks.counted(number, arm=arm, start=10.0 * number, end=end, **told)
    found = ask(unequal_tasks, "e_ratio")
    assert (found.value, found.source) == (approx(expected), "chunk")
    for row in unequal_tasks.rows:
        row["chunk_tokens"] = None if row["chunk_tokens"] is None else [None] * len(row["chunk_tokens"])
    found = ask(unequal_tasks, "e_ratio")
    assert (found.value, found.source) == (approx(3.5), "counters")
    assert "steps are of all requests" in found.reason


def test_open_loops_compare_time_per_token(two) -> None:
    run = two(executor="arrival_rate", concurrency=None, rate_per_s=1.0)
    assert ask(run, "speedup") == of("time per token", ask(run, "speedup_decode"))
    kind = Estimates(run.data()).kind(Estimates(run.data()).pair("candidate", {}))
    assert (kind.kind, "both arms kept up" in kind.why) == ("tpot", True)


def test_a_part_of_a_mix_has_no_throughput_of_its_own(two) -> None:
    run = two()
    assert ask(run, "speedup", where=(*ARM, ("task_type", "code"))) == ask(run, "speedup"), "the only task is all"
    for segment in (0, 1):
        run.request([(0.1, 1), (0.2, 4)], segment=segment, arm=run.phases[segment].arm, task_type="qa", seq=99)
    found = ask(run, "speedup", where=(*ARM, ("task_type", "code")))
    assert found == of("time per token", ask(run, "speedup_decode", where=(*ARM, ("task_type", "code"))))
    assert ask(run, "speedup").value != found.value


def exchanged(run, middle):
    """As if the arms had exchanged their nodes after `middle` of the blocks."""
    for i, phase in enumerate(run.phases):
        run.phases[i] = replace(phase, swapped=phase.block >= middle)
    data = run.data()
    data.manifest.design = "parallel"
    return Estimates(data).estimate(Query("speedup_decode", "value", ARM))


def test_a_swap_takes_the_node_effect_out_of_the_interval_too(two) -> None:
    """One node is 10 % slower: in a couple of a block of each half nothing of it is left."""

    def slow(b, of):
        return 1.1 if (b < 10) == (of == "candidate") else 1.0

    run = two(cand=lambda b: 0.01 / pace(b) * slow(b, "candidate"), base=lambda b: 0.01 * slow(b, "baseline"))
    found = exchanged(run, 10)
    couples = [math.sqrt(pace(b) * pace(b + 10)) for b in range(10)]
    assert (found.value, found.low, found.high) == approx(tuple(t_interval(couples)), rel=1e-5)
    assert (found.n, found.unit, found.reason) == (20, "blocks", None)
    assert "each of a block before and one after the exchange" in found.method


def test_blocks_without_one_in_the_other_half_are_counted(two) -> None:
    """Else the nodes would not weigh the same."""
    found = exchanged(two(), 12)
    assert (found.n, found.reason) == (16, "4 blocks left out: without a block in the other half")


def test_too_few_blocks_give_a_value_and_say_so(two) -> None:
    found = ask(two(blocks=1), "speedup")
    assert found.value == approx(0.2 / 0.15, rel=1e-6)
    assert (found.low, found.high) == (None, None)
    assert "not enough data" in found.reason


def test_a_block_that_was_cut_short_is_no_pair(two) -> None:
    run = two(blocks=4)
    at = next(i for i, p in enumerate(run.phases) if p.segment == 1)
    fields = {name: getattr(run.phases[at], name) for name in run.phases[at].__dataclass_fields__}
    run.phases[at] = type(run.phases[at])(**{**fields, "aborted": "policy"})
    found = ask(run, "speedup")
    assert (found.n, found.reason) == (3, "1 block left out: not driven to their end in both arms")
    assert found.low is not None
    assert Estimates(run.data()).blocks == 3


def test_blocks_that_were_never_begun_are_counted(two) -> None:
    """The run ended early: the plan knows of them."""
    data = two(blocks=4).data()
    orders = [[[0, block, ["baseline", "candidate"]] for block in range(n)] for n in (20, 5)]
    data.manifest.comparison["stages"] = [{"order": order} for order in orders]
    found = Estimates(data).estimate(Query("speedup", "value", ARM))
    assert (found.n, found.reason) == (4, "16 blocks left out: not driven to their end in both arms")
    assert found.low is not None
    assert Estimates(data).blocks == 4


@pytest.mark.parametrize("metric", ["speedup", "speedup_net", "speedup_decode", "speedup_total_time", "e_ratio", "c"])
def test_a_block_in_which_an_arm_delivered_nothing_is_not_left_out(two, metric) -> None:
    """F10: the blocks in which it worked would choose the result."""
    run = two()
    for row in run.rows:
        if row["arm"] == "candidate" and row["block"] == 7:
            row |= {"outcome": "http_error", "first_token_ns": None, "last_token_ns": None}
    found = ask(run, metric)
    assert (found.value, found.low, found.high, found.n) == (None, None, None, 20)
    assert found.reason.startswith("not enough data: candidate delivered nothing in block 7 of repeat 0 of one: ")
    difference = ask(run, "output_len", "avg", relative="difference")
    assert (difference.value, "candidate delivered nothing in block 7" in difference.reason) == (None, True)


def test_blocks_without_a_token_are_named_up_to_three(two) -> None:
    run = two()
    for row in run.rows:
        if row["arm"] == "baseline" and row["block"] in (2, 3, 5, 8):
            row |= {"chunk_tokens": [0] * 11, "output_len": 0}
    reason = ask(run, "speedup").reason
    assert reason.startswith("not enough data: the number is 0 for baseline in block 2 of repeat 0 of one, the number")
    assert "block 5" in reason
    assert "block 8" not in reason
    assert ", and 1 more: a ratio with 0 says nothing" in reason


def test_the_speedup_of_a_stage_that_an_arm_failed_through_is_not_enough_data(two) -> None:
    run = two(blocks=4)
    for row in run.rows:
        if row["arm"] == "candidate":
            row |= {"outcome": "http_error", "first_token_ns": None, "last_token_ns": None}
    (whole,) = [r for r in run.summary().comparison if r.task_type is None and r.output_segment is None]
    assert (whole.verdict_word, whole.speedup.value.value) == ("not enough data", None)
    assert "candidate delivered nothing in block 0 of repeat 0 of one" in whole.speedup.value.reason
    assert ", and 1 more" in whole.speedup.value.reason


def test_means_are_paired_by_case(two) -> None:
    """A case that failed in one arm is left out of both, and counted."""
    run = two(cand=lambda b: 0.005, cases=2)
    slow = next(r for r in run.rows if r["arm"] == "baseline")
    slow["last_token_ns"] += 50_000_000_000
    next(r for r in run.rows if r["arm"] == "candidate" and r["seq"] == slow["seq"])["outcome"] = "stalled"
    found = ask(run, "speedup_total_time")
    assert found.value == approx(0.2 / 0.15, rel=1e-6)
    assert (found.n, "1 of 40 cases left out" in found.reason) == (20, True)


def test_failures_count_as_infinite_in_percentiles_and_are_named_in_means(two) -> None:
    """F10, F11: a server that fails fast gets no better for it."""
    run = two()
    for row in [r for r in run.rows if r["arm"] == "candidate"][:2]:
        row |= {"outcome": "timeout", "first_token_ns": None, "last_token_ns": None}
    p95 = ask(run, "ttft_s", "p95")
    assert p95.value == math.inf
    assert p95.published().value is None
    mean = ask(run, "ttft_s", "avg")
    assert mean.value == approx(0.1)
    assert "2 requests that did not end ok are not in the mean" in mean.reason
    assert ask(run, "error_share").value == approx(0.1)
    assert ask(run, "error_share", relative="difference").value == approx(0.1)
    ratio = ask(run, "error_share", relative="ratio")
    assert ratio.value is None
    assert ratio.reason == (
        "the baseline's is 0, and so is any multiple of it: limit the difference instead (rate - baseline<=0.01)"
    )


def test_no_failure_in_either_arm_still_leaves_a_width(two) -> None:
    """20 requests of each arm show less than 0.1 %: the limit of the rule of three is 16.8 %."""
    found = ask(two(), "error_share", "value", relative="difference")
    assert (found.value, found.n, found.unit) == (0, 40, "requests")
    assert (found.low, found.high) == approx((-(1 - 0.025**0.05), 1 - 0.025**0.05))


def test_what_our_own_drain_cut_is_no_error_of_the_server(two) -> None:
    """F10: it is +∞ in percentiles all the same."""
    run = two(cases=4)
    mine = [row for row in run.rows if row["arm"] == "candidate"]
    for row in mine[::8]:
        row |= {"outcome": "aborted", "error_class": "drain"}
    mine[1] |= {"outcome": "timeout", "first_token_ns": None, "last_token_ns": None}
    found, difference = ask(run, "error_share"), ask(run, "error_share", relative="difference")
    assert (found.value, found.n) == (approx(1 / 70), 70)
    assert "10 requests that our own drain or stop cut are not in it" in found.reason
    assert (difference.value, difference.n) == (approx(1 / 70), 70 + 80)
    assert ask(run, "total_time_s", "p95").value == math.inf
    for row in mine:
        row |= {"outcome": "aborted", "error_class": "drain"}
    nothing = ask(run, "error_share")
    assert (nothing.value, nothing.reason) == (None, "all 80 requests were cut by our own drain or stop")


def fail(run, arm: str, share: int) -> None:
    """One of `share` requests."""
    for row in [r for r in run.rows if r["arm"] == arm][::share]:
        row |= {"outcome": "timeout", "first_token_ns": None, "last_token_ns": None}


def test_a_ratio_of_shares_joins_an_interval_of_each_arm(two) -> None:
    """Each at 97.5 %, so that both hold together in 95 of 100 runs."""
    run = two(cases=8)
    fail(run, "baseline", 4)
    fail(run, "candidate", 2)
    found = ask(run, "error_share", relative="ratio")
    each = {
        arm: Estimates(run.data()).estimate(Query("error_share", "value", (("arm", arm),)), 0.975)
        for arm in ("baseline", "candidate")
    }
    assert found.value == approx(2.0)
    assert found.low == approx(each["candidate"].low / each["baseline"].high)
    assert found.high == approx(each["candidate"].high / each["baseline"].low)
    assert found.low > 1.05, "enough failures to fail error_share: rate<=1.05 * baseline"
    assert (found.method, found.n) == ("ratio of two intervals (Bonferroni)", 160)


def test_a_ratio_needs_intervals_of_both_arms_and_a_baseline_above_0(two) -> None:
    run = two(blocks=4, cases=8)
    fail(run, "baseline", 4)
    found = ask(run, "error_share", relative="ratio")
    assert (found.value, found.low, found.high) == (0.0, None, None)
    assert "not enough data" in found.reason
    mine = Estimate(2.0, 1.0, 3.0, 20, "blocks", "by hand", "test")
    found = ratio_of_intervals(mine, replace(mine, low=0.0), 0.95)
    assert (found.value, found.low, found.high) == (1.0, None, None)
    assert "the baseline's interval reaches 0, so the ratio has no upper bound" in found.reason


def test_there_is_no_multiple_of_what_failed(two) -> None:
    """The largest of all sent requests is +∞ where one failed: ∞ ÷ ∞ is not a number, and a finite one is not 0 × ∞."""
    run = two(blocks=4, cases=8)
    fail(run, "baseline", 4)
    for both in (False, True):
        if both:
            fail(run, "candidate", 4)
        found = ask(run, "ttft_s", "max", relative="ratio")
        assert (found.value, found.low, found.high) == (None, None, None)
        assert "the baseline's is among failed requests" in found.reason
    open_end = Estimate(2.0, 1.0, math.inf, 20, "blocks", "by hand", "test")
    found = ratio_of_intervals(replace(open_end, low=math.inf, value=math.inf), open_end, 0.95)
    assert (found.value, found.low, found.high) == (math.inf, 0.0, math.inf), "beyond ∞ ÷ ∞ nothing is known"


def rate_in_blocks(two, blocks=20, slo=5.0, spare_s=60.0, **more):
    """One request and `spare_s` of nothing in each block: less than one a second."""
    run = two(blocks=blocks, **more)
    run.scenario["slos"] = {"ttft_s": slo, "tpot_s": None, "total_time_s": None}
    for at, phase in enumerate(run.phases):
        late = phase.load_end_ns + round(spare_s * 1e9 * (1 + phase.block % 5 / 50))
        run.phases[at] = replace(phase, load_end_ns=late, ended_ns=late)
    return run


def test_a_rate_below_one_a_second_is_no_share(two) -> None:
    """The same interval, in other units, as of the same requests in a sixtieth of the time."""
    slow, fast = (ask(rate_in_blocks(two, spare_s=s), "goodput_requests_per_s") for s in (60.0, 600.0))
    for found in (slow, fast):
        assert found.method == "ratio of sums clustered by 20 blocks; t interval on the logarithm"
        assert found.low < found.value < found.high
        assert math.log(found.high / found.value) == approx(math.log(found.value / found.low))
    assert slow.high / slow.value == approx(fast.high / fast.value, rel=0.01)
    assert slow.high / slow.low < 1.05


def test_a_rate_of_nothing_has_the_exact_upper_limit_of_its_time(two) -> None:
    run = rate_in_blocks(two, slo=0.01)
    seconds = sum((p.load_end_ns - p.full_ns) / 1e9 for p in run.phases if p.arm == "candidate")
    found = ask(run, "goodput_requests_per_s")
    assert (found.value, found.low, found.n, found.unit) == (0, 0, 0, "events")
    assert found.high == approx(-math.log(0.025) / seconds)
    assert "not one in" in found.reason
    tokens = ask(run, "goodput_tokens_per_s")
    assert (tokens.value, tokens.low, tokens.high) == (0, None, None)
    assert "not one token came in" in tokens.reason


def test_tokens_that_nobody_counted_make_a_rate_a_lower_bound(two) -> None:
    """H11: it may show that a rate is reached, never that it is not."""
    run = two(cases=2)
    mine = [row for row in run.rows if row["arm"] == "candidate"]
    whole = ask(run, "net_tokens_per_s")
    for row in mine[::4]:
        row |= {"output_len": None, "chunk_tokens": [None] * len(row["chunk_tokens"])}
    found = ask(run, "net_tokens_per_s")
    assert found.low < found.value < whole.value
    assert (found.high, found.reason) == (
        math.inf, "10 requests have output that nobody counted: a lower bound only"
    )  # fmt: skip
    for row in mine:
        row |= {"output_len": None, "chunk_tokens": [None] * len(row["chunk_tokens"])}
    nothing = ask(run, "net_tokens_per_s")
    assert (nothing.value, nothing.reason) == (None, "40 requests have output that nobody counted")


def test_all_failed_is_infinite_not_absent(two) -> None:
    run = two()
    for row in run.rows:
        row["outcome"] = "timeout"
    assert ask(run, "ttft_s", "p50").low == math.inf
    assert ask(run, "speedup").value is None


def test_percentiles_are_nearest_rank_over_all_blocks(two) -> None:
    """F2: never above the largest sample."""
    run = two(cand=lambda b: 0.001 * (b + 1))
    times = [0.1 + 10 * 0.001 * (b + 1) for b in range(20)]
    for aggregate, rank in (("p50", 10), ("p95", 19), ("p5", 1)):
        assert ask(run, "total_time_s", aggregate).value == approx(times[rank - 1])
    assert ask(run, "total_time_s", "max").value == approx(times[-1])
    assert ask(run, "total_time_s", "count").value == 20


def test_token_latency_is_weighted_per_token_and_chunk_gaps_are_not(run, filled) -> None:
    """C17, C18: arrivals of 1 and of 4 tokens; both series under their own names."""
    run.arm("baseline")
    run.arm("candidate")
    for b in range(20):
        filled(run, 2 * b, "baseline", b, [0.01])
        filled(run, 2 * b + 1, "candidate", b, [0.04], tokens=4)
    for name, values in {"chunk_gap_s": (0.04, 4.0), "token_latency_s": (0.01, 1.0)}.items():
        found, ratio = ask(run, name, "p50"), ask(run, name, "p50", relative="ratio")
        assert (found.value, ratio.value) == (approx(values[0]), approx(values[1]))
    assert ask(run, "token_latency_s", "p50").n == 20 * 40
    assert ask(run, "e_ratio").value == approx(4)
    assert ask(run, "c").value == approx(4)


def test_acceptance_is_clustered_by_case(run, filled) -> None:
    run.arm("baseline")
    run.arm("candidate")
    for b in range(60):
        filled(run, 2 * b, "baseline", b, [0.01])
        stats = run.speculated([(b % 5, 4)] * 10)
        filled(run, 2 * b + 1, "candidate", b, [0.01], **{**stats, "case_id": f"case {b % 30}"})
    found = ask(run, "acceptance_rate")
    assert (found.value, found.n, found.unit) == (approx(0.5), 30, "cases")
    assert found.low < 0.5 < found.high
    assert ask(run, "rollback_rate").value == approx(0.8)


def test_server_times_come_from_counters_where_responses_do_not_tell(two) -> None:
    run = two(blocks=2)
    for number, arm in ((0, "baseline"), (1, "candidate"), (2, "baseline"), (3, "candidate")):
        end = next(p.ended_ns for p in run.phases if p.segment == number) / 1e9 - 1000
        share = 2.0 if arm == "candidate" else 1.0
        run.counted(number, arm=arm, start=10.0 * number, end=end, queue_sum=share, queue_count=4.0)
    found = ask(run, "server_queue_s", "avg")
    assert (found.value, found.source) == (0.5, "counters")
    assert ask(run, "server_queue_s", "avg", relative="ratio").value == approx(2.0)
    assert ask(run, "server_queue_s", "avg", relative="difference").value == approx(0.25)
    part = ask(run, "server_queue_s", "avg", where=(*ARM, ("task_type", "code")))
    assert part.value is None, "counters cannot be split by task"


def test_one_arm_alone_gets_intervals_from_parts_of_its_time(run, filled) -> None:
    rng = np.random.default_rng(1)
    filled(run, 0, "candidate", 0, rng.uniform(0.001, 0.02, 400))
    estimates = Estimates(run.data())
    assert (estimates.baseline, estimates.blocks, estimates.paired) == (None, 0, False)
    found = estimates.estimate(Query("total_time_s", "p50"))
    assert found.low < found.value < found.high
    rate = estimates.estimate(Query("net_tokens_per_s", "value"))
    total = sum(r["last_token_ns"] - r["sent_ns"] for r in run.rows) / 1e9
    assert rate.value == approx(400 * 11 / total, rel=1e-3)
    assert rate.low < rate.value < rate.high
    assert estimates.estimate(Query("speedup", "value")).reason.startswith("there is one arm only")


def test_parts_shorter_than_two_requests_are_no_blocks(run, filled) -> None:
    filled(run, 0, "candidate", 0, [0.01] * 30)
    found = Estimates(run.data()).estimate(Query("total_time_s", "p50"))
    assert (found.value, found.low) == (approx(0.2), None)
    assert "not enough data" in found.reason


def sampled_equal_arms(run, blocks=24, cases=12):
    """A/A: each prompt has a mean length of its own, each answer is drawn around it; 10 ms a token in both arms."""
    rng = np.random.default_rng(0)
    prompts = rng.normal(4.0, 0.5, blocks * cases)
    run.arm("baseline", speculation=False, k=0)
    run.arm("candidate")
    for number in range(2 * blocks):
        block, arm = number // 2, ("baseline", "candidate")[number % 2]
        answers = np.clip(np.exp(prompts[block * cases :][:cases] + 0.6 * rng.standard_normal(cases)), 3, 400)
        start = at = 200.0 * number
        streams = []
        for length in answers.astype(int):
            streams.append((at, [(0.05 + 0.01 * j, 1) for j in range(length)]))
            at += streams[-1][1][-1][0]
        run.segment(number, arm=arm, block=block, start=start, full=start, load_end=at, end=at)
        for i, (sent, chunks) in enumerate(streams):
            run.request(chunks, sent=sent, arm=arm, segment=number, seq=block * cases + i)
    return run


def test_segments_of_sampled_answers_show_no_difference_between_equal_arms(run) -> None:
    """By the baseline's lengths, its short answers alone would be faster than the candidate's of the same cases."""
    data = sampled_equal_arms(run).data()
    for segment in ("0-31", "32-127"):
        found = Estimates(data).estimate(Query("speedup_total_time", "value", (*ARM, ("output_segment", segment))))
        assert found.low < 1 < found.high, (segment, found)


def test_a_case_is_in_one_segment_in_both_arms(two) -> None:
    """Of the mean of both arms' lengths: 40 and 11 tokens are 25.5, 60 and 11 are 35.5."""
    run = two()
    for i, row in enumerate([r for r in run.rows if r["arm"] == "baseline"]):
        row["output_len"] = 40 if i < 10 else 60
    estimates = Estimates(run.data())
    for segment, blocks in (("0-31", range(10)), ("32-127", range(10, 20))):
        where = {"output_segment": segment}
        pair = estimates.pair("candidate", where)
        for arm, rows in (("candidate", pair.rows), ("baseline", pair.base_rows)):
            side = estimates.sides[arm]
            assert sorted(side.frame.seq[rows]) == list(blocks), segment
            assert sorted(side.frame.seq[estimates.chosen(arm, where).rows]) == list(blocks), "also by itself"


def test_lengths_that_were_asked_for_say_the_segment_where_they_differ(two) -> None:
    run = two()
    for row in run.rows:
        row["output_len_requested"] = 20 if row["seq"] % 2 else 200
    assert Estimates(run.data()).pair("candidate", {"output_segment": "128-511"}).rows.size == 10
    for row in run.rows:
        row["output_len_requested"] = 200 + row["seq"]
    assert Estimates(run.data()).pair("candidate", {"output_segment": "128-511"}).rows.size == 0
    assert Estimates(run.data()).pair("candidate", {"output_segment": "0-31"}).rows.size == 20


def broken(row) -> None:
    row |= {"outcome": "http_error", "output_len": None, "input_len": None, "first_token_ns": None}


@pytest.mark.parametrize(("kind", "segment"), [("output_segment", "0-31"), ("input_segment", "0-127")])
def test_failed_requests_are_in_the_segments_of_their_cases(two, kind, segment) -> None:
    """F10: equally many failures in both arms, of different cases, give equal shares; none is lost."""
    run = two(cases=2)
    for arm, at in (("baseline", 3), ("candidate", 17)):
        broken(next(r for r in run.rows if r["arm"] == arm and r["seq"] == at))
    where = (*ARM, (kind, segment))
    for arm in ("baseline", "candidate"):
        assert ask(run, "error_share", where=(("arm", arm), (kind, segment))).value == approx(1 / 40)
    assert ask(run, "error_share", where=where, relative="difference").value == approx(0)
    assert ask(run, "ttft_s", "max", where=where).value == math.inf


@pytest.mark.parametrize(("kind", "segment"), [("output_segment", "0-31"), ("input_segment", "0-127")])
def test_a_server_does_not_pass_a_segment_by_failing_where_nobody_knows_the_length(run, filled, kind, segment) -> None:
    """F10: one arm alone; its two failures of 40 could be in any segment."""
    filled(run, 0, "candidate", 0, [0.01] * 40)
    for row in run.rows[:2]:
        broken(row)
    for name in (segment, "512+" if kind == "output_segment" else "8192+"):
        found = ask(run, "error_share", where=((kind, name),))
        assert found.value == (approx(2 / 40) if name == segment else 1.0)


def test_selectors_and_names_that_do_not_exist_are_said(two) -> None:
    run = two(blocks=2)
    assert ask(run, "nothing").reason == "there is no metric nothing"
    assert ask(run, "ttft_s", "p50", (("arm", "other"),)).reason == "there is no arm other"
    assert ask(run, "ttft_s", "p50", (("colour", "red"),)).reason == "there is no selector colour"
    assert ask(run, "ttft_s", "p50", (("arm", "baseline"),), "ratio").reason == "baseline is the baseline itself"
    assert "no request of candidate" in ask(run, "ttft_s", "p50", (*ARM, ("stage", "other"))).reason
    assert ask(run, "ttft_s", "p50", ()).value == approx(0.1), "the only candidate need not be named"
    run.arm("third")
    assert ask(run, "ttft_s", "p50", ()).reason.startswith("name the arm")


def test_a_sequential_run_is_not_paired(two) -> None:
    data = two().data()
    data.manifest.design = "sequential"
    assert not Estimates(data).paired
    data.manifest.design = "parallel"
    assert Estimates(data).paired


def test_goodput_needs_slos(two) -> None:
    run = two()
    assert ask(run, "goodput_share").reason == "the scenario sets no SLO"
    run.scenario["slos"]["total_time_s"] = 0.1485
    times = [0.1 + 0.1 / pace(b) for b in range(20)]
    good = sum(t <= 0.1485 for t in times)
    assert 0 < good < 20
    assert ask(run, "goodput_share").value == approx(good / 20)
    assert ask(run, "goodput_requests_per_s").value == approx(good / sum(times), rel=1e-6)


@pytest.fixture(scope="module")
def recorded() -> Estimates:
    return Estimates(open_run(SMALL))


values = {"stage": ["c2", "r6", "no"], "task_type": ["code", "short_qa"], "concurrency": ["2"], "rate_per_s": ["6"],
          "input_segment": ["0-127", "128-511"], "output_segment": ["0-31", "32-127"]}  # fmt: skip
wheres = st.fixed_dictionaries(
    {"arm": st.sampled_from(["baseline", "candidate"])}, optional={k: st.sampled_from(values[k]) for k in SELECTORS}
)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(METRICS)),
    st.sampled_from(["p50", "p95", "p99.9", "avg", "max", "count", "value", "p", "nonsense"]),
    wheres,
    st.sampled_from([None, "ratio", "difference"]),
)
def test_every_question_has_a_number_or_a_reason(recorded, metric, aggregate, where, relative) -> None:
    """F12: no NaN, no exception, no silent null, on a recorded run."""
    found = recorded.estimate(Query(metric, aggregate, tuple(where.items()), relative))
    assert found.value is not None or found.reason
    assert found.low is None or found.value is None or found.low <= found.value * (1 + 1e-9) or found.value < 0
    for number in (found.value, found.low, found.high):
        assert number is None or not math.isnan(number)
    shown = found.published()
    assert all(n is None or math.isfinite(n) for n in (shown.value, shown.low, shown.high))
    if found.low is None or found.high is None:
        assert found.reason, "a number without an interval says why"
