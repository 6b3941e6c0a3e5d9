"""Every rule produces its finding, with numbers and conditions: on the rehearsal engine, or from hand-made runs."""

from __future__ import annotations

import pytest

from loadgen.analyze import RULES, analyze
from server_adapters.rehearsal import EngineConfig, SpeculationConfig

approx = pytest.approx
SPECULATING = EngineConfig(speculation=SpeculationConfig())


def by_id(summary):
    found: dict[str, list] = {}
    for finding in summary.findings:
        found.setdefault(finding.id, []).append(finding)
    return found


def test_from_little_load_into_saturation(simulated) -> None:
    """H16, on the engine: gain, loss, where the gain is gone, and drafts that are accepted and gain nothing."""
    arms = {"baseline": EngineConfig(), "candidate": SPECULATING}
    found = by_id(analyze(simulated.run(arms, [8, 192], cases=288, blocks=3, max_tokens=32)))
    (gain,) = found["faster"]
    assert (gain.conditions["concurrency"], gain.severity) == (8, "good")
    assert gain.numbers["speedup_low"] > 2
    assert set(gain.conditions["arms"]) == {"baseline", "candidate"}
    assert (gain.conditions["arms"]["candidate"]["k"], gain.conditions["blocks"]) == (4, 3)
    loss = found["slower"][0]
    assert (loss.conditions["concurrency"], loss.severity) == (192, "bad")
    assert loss.numbers["speedup_high"] < 1
    (gone,) = found["gain_gone_at_concurrency"]
    assert (gone.numbers["concurrency"], gone.numbers["last_gain_concurrency"]) == (192, 8)
    assert gone.text.startswith("The gain of candidate is gone at concurrency 192")
    (idle,) = [f for f in found["acceptance_high_no_gain"] if "task_type" not in f.conditions]
    assert idle.conditions["concurrency"] == 192
    assert idle.numbers["acceptance_rate"] > 0.6
    assert idle.numbers["c"] > idle.numbers["e_decode"] > 1
    assert "compute is saturated" in idle.text
    assert any(f.numbers["decode_share"] > 0.5 for f in found["time_in_decode"])


def test_faster_but_worse_p99_and_later_first_tokens(simulated) -> None:
    """On the engine at concurrency 8: one in fifty of the speculating arm's streams stands still for 3 s; a new
    request waits for a longer step of the others."""

    def stall(arm, seq, columns):
        if arm == "candidate" and seq % 50 == 7:
            last = columns["chunks"][-1]
            columns["chunks"] = [*columns["chunks"][:-1], (last[0] + 3.0, last[1])]
        return columns

    arms = {"baseline": EngineConfig(), "candidate": SPECULATING}
    found = by_id(analyze(simulated.run(arms, [8], cases=32, blocks=20, max_tokens=32, spoil=stall)))
    (worse,) = found["gain_but_worse_p99"]
    assert worse.numbers["total_time_s_p99_ratio_low"] > 1.05
    assert worse.numbers["speedup_low"] > 1
    assert "is faster on the whole" in worse.text
    (later,) = found["ttft_up_throughput_up"]
    assert later.numbers["ttft_s_p95_ratio_low"] > 1.05


def test_time_in_the_queue(simulated) -> None:
    """On the engine: two places, and more arrivals than they can serve."""
    arms = {"baseline": EngineConfig(max_num_seqs=2), "candidate": EngineConfig(max_num_seqs=2)}
    found = by_id(analyze(simulated.run(arms, [20.0], cases=60, blocks=3, max_tokens=24)))
    assert {tuple(f.conditions["arms"]) for f in found["time_in_queue"]} == {("baseline",), ("candidate",)}
    assert found["time_in_queue"][0].numbers["queue_share"] > 0.5


def test_acceptance_drifting_down(simulated) -> None:
    """On the engine: from block to block the drafter knows less of the context."""

    def worse(block: int) -> EngineConfig:
        return EngineConfig(speculation=SpeculationConfig(draft_max_model_len=110 - 4 * block))

    arms = {"baseline": EngineConfig(), "candidate": worse}
    (found,) = by_id(analyze(simulated.run(arms, [4], cases=16, blocks=20, max_tokens=48)))["acceptance_drifting_down"]
    assert found.numbers["last_third"] < found.numbers["first_third"] - 0.03
    assert found.numbers["p"] < 0.01


def test_steady_acceptance_does_not_drift(simulated) -> None:
    arms = {"baseline": EngineConfig(), "candidate": SPECULATING}
    summary = analyze(simulated.run(arms, [4], cases=16, blocks=12, max_tokens=32, seed=3))
    assert "acceptance_drifting_down" not in by_id(summary)


def test_rollbacks_clustered_where_the_prompt_is_long(run, filled) -> None:
    run.arm("baseline")
    run.arm("candidate")
    for b in range(60):
        filled(run, 2 * b, "baseline", b, [0.01])
        long = b % 2 == 1
        stats = run.speculated([(1, 4), (2, 4), (4, 4)] if long else [(4, 4), (4, 4), (b % 5, 4)])
        filled(run, 2 * b + 1, "candidate", b, [0.01], **{**stats, "input_len": 900 if long else 50})
    (found,) = by_id(run.summary())["rollbacks_clustered_in_segment"]
    assert found.conditions["input_segment"] == "512-2047"
    assert found.numbers["rollback_rate"] == approx(2 / 3)
    assert found.numbers["others_at_most"] < 0.55


@pytest.fixture
def two(run, filled):
    """20 blocks of six requests in each arm, concurrency 1."""

    def make(cand=0.005, base=0.01, first=0.1, blocks=20, **columns):
        run.arm("baseline", speculation=False, k=0)
        run.arm("candidate")
        for b in range(blocks):
            wobble = 1 + (b * 7 % 20) / 2000
            filled(run, 2 * b, "baseline", b, [base] * 6)
            filled(run, 2 * b + 1, "candidate", b, [cand * wobble] * 6, first_s=first, **columns)
        return run

    return make


def drafted(run) -> dict:
    return run.speculated([(4, 4), (4, 4), (2, 4)])


def test_accepted_drafts_that_gain_nothing_because_a_step_costs_more(two, run) -> None:
    (found,) = by_id(two(cand=0.0102, **drafted(run)).summary())["acceptance_high_no_gain"]
    assert found.numbers["acceptance_rate"] == approx(10 / 12)
    assert found.numbers["c_low"] > 1


def test_the_cost_of_a_step_must_be_shown(two, run) -> None:
    assert "acceptance_high_no_gain" not in by_id(two(cand=0.01 / 1.005, **drafted(run)).summary())


def test_two_speculating_arms_gain_nothing_over_each_other(two, run) -> None:
    """Whatever they cost: the baseline's steps are drafted too."""
    two(cand=0.0102, **drafted(run))
    run.arm("baseline")
    assert "acceptance_high_no_gain" not in by_id(run.summary())


def test_faster_but_later_first_token(two) -> None:
    found = by_id(two(cand=0.001, first=0.12).summary())["ttft_up_throughput_up"][0]
    assert found.numbers["ttft_s_p50_ratio"] == approx(1.2)
    assert "suits batch work, not chat" in found.text


def test_no_difference(two) -> None:
    assert "no_difference" in by_id(two(cand=0.01 / 1.005).summary())


def test_too_few_blocks(two) -> None:
    (found,) = by_id(two(blocks=1).summary())["too_few_blocks"]
    assert found.numbers["blocks"] == 1
    assert "not enough data" in found.text


def test_answers_too_short_to_pay(run, filled) -> None:
    """Drafting costs at the first token, and gains only over many."""
    run.arm("baseline")
    run.arm("candidate")
    for b in range(20):
        for arm, step, first in (("baseline", 0.010, 0.10), ("candidate", 0.005 + b * 7 % 20 * 1e-6, 0.16)):
            number = 2 * b + (arm == "candidate")
            filled(run, number, arm, b, [step], steps=10, first_s=first)
            chunks = [(first, 1), *((first + (j + 1) * step, 1) for j in range(60))]
            start = next(p.started_ns for p in run.phases if p.segment == number) / 1e9 - 1000
            run.request(chunks, sent=start, arm=arm, segment=number, seq=1000 + b, case_id=f"long{b}")
    (found,) = by_id(run.summary())["output_too_short_to_pay"]
    assert found.conditions["output_segment"] == "0-31"
    assert found.numbers["speedup_total_time"] < 1 < found.numbers["longer_speedup_total_time"]


def test_larger_bursts(run, filled) -> None:
    run.arm("baseline")
    run.arm("candidate")
    for b in range(20):
        filled(run, 2 * b, "baseline", b, [0.01] * 10)
        filled(run, 2 * b + 1, "candidate", b, [0.03] * 10, tokens=4)
    (found,) = by_id(run.summary())["stutter_up"]
    assert found.numbers["chunk_gap_s_p99_ratio"] == approx(3)


def test_time_in_prefill(two) -> None:
    times = {"server_queue_s": 0.01, "server_prefill_s": 0.2, "server_decode_s": 0.05}
    (found,) = by_id(two(**times).summary())["time_in_prefill"]
    assert found.numbers["prefill_share"] == approx(0.2 / 0.26)
    assert f"over {found.numbers['requests']:,.0f} requests" in found.text
    assert found.numbers["requests"] > 0


def test_more_failures(two) -> None:
    run = two()
    for row in run.rows:
        if row["arm"] == "candidate" and row["seq"] % 3 == 0:
            row["outcome"] = "stream_error"
    (found,) = by_id(run.summary())["errors_up"]
    assert (found.numbers["candidate"], found.numbers["baseline"]) == (approx(1 / 3), 0.0)
    assert "percentiles of requests beside the baseline count failures as +∞" in found.text


def test_longer_answers(run, filled) -> None:
    """H16: the same step time and longer answers: no slower by token, slower by request, and said."""
    run.arm("baseline")
    run.arm("candidate")
    for b in range(20):
        filled(run, 2 * b, "baseline", b, [0.01])
        filled(run, 2 * b + 1, "candidate", b, [0.01], steps=12 + b * 7 % 20 // 10)
    (row,) = run.summary().comparison
    assert row.speedup_decode.value == approx(1)
    assert row.speedup.total_time.high < 1
    (found,) = by_id(run.summary())["output_length_shift"]
    assert found.numbers["output_len_ratio"] == approx(13.5 / 11, rel=0.01)
    assert "longer" in found.text


def test_other_batches(two) -> None:
    run = two(blocks=3)
    for phase in run.phases:
        for i in range(6):
            at = phase.started_ns / 1e9 - 1000 + 0.01 * i
            run.scrape(at, arm=phase.arm, running=3.0 if phase.arm == "candidate" else 1.0)
    (found,) = by_id(run.summary())["not_like_for_like"]
    assert (found.numbers["candidate_running"], found.numbers["baseline_running"]) == (approx(3), approx(1))


def test_a_baseline_that_does_not_repeat_itself(run, filled) -> None:
    run.arm("baseline")
    run.arm("candidate")
    for repeat, step in enumerate((0.010, 0.010, 0.015)):
        labels = {"repeat_idx": repeat}
        filled(run, 2 * repeat, "baseline", 0, [step], labels=labels)
        filled(run, 2 * repeat + 1, "candidate", 0, [0.01], labels=labels)
    (found,) = by_id(run.summary())["baseline_not_reproducible"]
    assert found.numbers["variation"] > 0.05


def test_acceptance_of_generated_prompts_is_not_representative(run, filled) -> None:
    """D26: said beside the gain that rests on it."""
    run.arm("baseline")
    run.arm("candidate")
    for b in range(3):
        filled(run, 2 * b, "baseline", b, [0.01])
        stats = run.speculated([(3, 4)])
        filled(run, 2 * b + 1, "candidate", b, [0.005], **{**stats, "input_len_requested": 100})
    (found,) = by_id(run.summary())["acceptance_not_representative"]
    assert "generated" in found.text


@pytest.mark.parametrize(("temperatures", "found"), [((0.0,), True), ((0.0, 0.7), False), ((0.7,), False)])
def test_greedy_requests_alone_never_run_the_sampler(run, filled, temperatures, found) -> None:
    """H11: said wherever something was drafted; one sampled task is enough."""
    run.arm("baseline")
    run.arm("candidate")
    for b in range(4):
        filled(run, 2 * b, "baseline", b, [0.01])
        sampled = {"temperature": temperatures[b % len(temperatures)]}
        filled(run, 2 * b + 1, "candidate", b, [0.01], **run.speculated([(3, 4)]), **sampled)
    made = by_id(run.summary()).get("greedy_only", [])
    assert [f.numbers["requests"] for f in made] == ([4.0] if found else [])
    assert all("rejection of sampled drafts was run" in f.text for f in made)


def test_without_speculation_greedy_is_no_matter(run, filled) -> None:
    """H11."""
    filled(run, 0, "candidate", 0, [0.01])
    assert "greedy_only" not in by_id(run.summary())


def test_the_objective_orders_findings_of_one_weight(two) -> None:
    run = two(cand=0.02)
    for row in run.rows:
        if row["arm"] == "candidate" and row["seq"] % 3 == 0:
            row["outcome"] = "stream_error"
    order = {}
    for objective in ("latency", "throughput", "cost", "quality"):
        run.scenario["objective"] = objective
        bad = [f.id for f in run.summary().findings if f.severity == "bad"]
        order[objective] = bad.index("slower") < bad.index("errors_up")
    assert order == {"latency": True, "throughput": True, "cost": True, "quality": False}


def test_one_arm_has_findings_of_its_own(run, filled) -> None:
    filled(run, 0, "candidate", 0, [0.01] * 5, server_queue_s=0.3, server_prefill_s=0.01, server_decode_s=0.1)
    assert [f.id for f in run.summary().findings] == ["time_in_queue"]


def test_ids_are_unique() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
