"""The whole summary: unfinished runs, accounting, conditions, self-check, strict JSON."""

import json

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.analyze import Summary
from loadgen.drive import Outcome

approx = pytest.approx

CHUNKS = [(0.1, 1), (0.14, 4), (0.18, 3)]


def strict(summary: Summary) -> dict:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} in the JSON")

    text = summary.model_dump_json()
    parsed = json.loads(text, parse_constant=refuse)
    assert Summary.model_validate_json(text) == summary
    assert orjson.loads(orjson.dumps(summary.model_dump(mode="json"))) == parsed
    return parsed


def test_a_run_without_a_request_is_all_reasons(run) -> None:
    """F12, P1: no NaN, no 0, every absence explained."""
    run.segment()
    parsed = strict(run.summary())
    assert parsed["schema"] == 1
    g = parsed["arms"]["candidate"]["overall"]
    assert g["stream"]["ttft_s"]["reason"] == "no streaming request succeeded"
    assert g["throughput"]["net_tokens_per_s"]["value"] == 0.0
    assert g["conditions"]["input_len"] == {"n": 0, "min": None, "p50": None, "mean": None, "max": None}
    assert parsed["findings"] == []
    for name in ("comparison", "verdict"):
        assert parsed[name]["value"] is None
        assert parsed[name]["reason"]


def test_an_arm_that_was_never_begun(run) -> None:
    run.arm()
    parsed = strict(run.summary())
    net = parsed["arms"]["candidate"]["overall"]["throughput"]["net_tokens_per_s"]
    assert (net["value"], net["reason"]) == (None, "no measured segment was begun")


def test_a_killed_run_ends_at_its_last_record(run) -> None:
    """An open phase: its window ends with the last record, steady from the send that filled the plateau."""
    run.state = "running"
    run.segment(full=None, load_end=None, end=None, concurrency=2)
    run.request([(0.5, 10)], concurrency=1)
    run.request([(1.0, 10), (3.0, 23)], sent=1.0, concurrency=2)
    summary = run.summary()
    strict(summary)
    t = summary.arms["candidate"].overall.throughput
    assert summary.finished is False
    assert t.net_tokens_per_s_run.value == approx(43 / 4)
    assert t.net_tokens_per_s.value == approx(33 / 3)
    requests = summary.arms["candidate"].overall.requests
    assert (requests.scheduled, requests.sent) == (None, 2)


def test_the_plateau_of_a_killed_run_is_filled_by_all_workers_together(run) -> None:
    """Each of two workers counts only its own request in flight."""
    run.state = "running"
    run.segment(full=None, load_end=None, end=None, concurrency=2)
    run.request([(1.5, 10)], concurrency=1, worker=0)
    run.request([(1.0, 10), (3.0, 23)], sent=1.0, concurrency=1, worker=1)
    t = run.summary().arms["candidate"].overall.throughput
    assert t.net_tokens_per_s.value == approx(43 / 3)


def test_the_later_record_of_a_segment_counts(run) -> None:
    """Phases are written at their start and again at their end."""
    run.segment(0, full=None, load_end=None, end=None)
    run.segment(0, load_end=2.0, end=4.0)
    run.request([(1.0, 8)])
    t = run.overall().throughput
    assert (t.net_tokens_per_s.value, t.net_tokens_per_s_run.value) == (approx(4.0), approx(2.0))


def test_scheduled_is_sent_dropped_and_unsent(run) -> None:
    """Invariant 1; groups below an arm know neither, stages do."""
    run.segment()
    run.account(scheduled=5, sent=2, dropped=2, unsent=1, late=1, capped_in_flight=1)
    run.request(CHUNKS)
    run.request(CHUNKS, outcome="timeout")
    arm = run.summary().arms["candidate"]
    requests = arm.overall.requests
    assert requests.scheduled == requests.sent + requests.dropped + requests.unsent == 5
    assert sum(requests.outcomes.values()) == requests.sent
    assert set(requests.outcomes) == {o.value for o in Outcome}
    (task,) = (
        g for g in arm.by if g.task_type == "code" and not g.stage and not g.input_segment and not g.output_segment
    )
    assert (task.requests.scheduled, task.requests.dropped, task.requests.sent) == (None, None, 2)
    (stage,) = (g for g in arm.by if g.stage == "one" and g.task_type is None)
    assert (stage.requests.scheduled, stage.concurrency) == (5, 1)


def test_conditions_of_a_group(run) -> None:
    run.segment(load_end=2.0, end=2.0)
    run.request(CHUNKS, input_len=10, end=1.0, temperature=0.7)
    run.request(CHUNKS, input_len=30, sent=1.0, end=2.5)
    run.scrape(0.5, running=1.0)
    run.scrape(1.5, running=2.0)
    run.counted(end=2.0, prefix_cache_queries=40.0, prefix_cache_hits=10.0)
    c = run.overall().conditions
    assert c.input_len == {"n": 2, "min": 10, "p50": 10, "mean": 20.0, "max": 30}
    assert c.output_len == {"n": 2, "min": 8, "p50": 8, "mean": 8.0, "max": 8}
    assert c.temperature == [0.0, 0.7]
    assert (c.batch_size_mean.value, c.batch_size_mean.n) == (approx(1.5), 2)
    assert c.concurrency_mean.value == approx(1.0)
    assert (c.cache_hit_share.value, c.cache_hit_share.source) == (approx(0.25), "counters")


def test_cache_hits_of_a_task_come_from_its_responses(run) -> None:
    run.segment()
    run.request(CHUNKS, input_len=100, cached_tokens=64)
    task = next(g for g in run.summary().arms["candidate"].by if g.task_type == "code")
    assert (task.conditions.cache_hit_share.value, task.conditions.cache_hit_share.source) == (
        approx(0.64),
        "per_request",
    )


def test_conditions_of_the_run(run) -> None:
    run.segment()
    run.scenario["workload"]["tasks"].append({"task_type": "short_qa", "prompts": None})
    found = run.summary().conditions
    assert found["prompts"] == {"code": "own", "short_qa": "generated"}
    assert found["arms"]["candidate"]["engine_version"] == "0.32.0"
    assert (found["objective"], found["plan_hash"], found["arms"]["candidate"]["k"]) == ("latency", "p", 4)


def test_acceptance_stands_under_what_it_depends_on(run) -> None:
    """D23, D24: engine version, endpoint, k, method, model and the captured template stand beside the arm's E."""
    run.arm("new", capabilities={"counts_artefact": False, "version": "0.5.5.post3"}, k=3, endpoint="chat",
            environment={"engine": "sglang", "chat_template": "sha256:1"})  # fmt: skip
    run.segment(0)
    run.segment(1, arm="new", start=10.0, full=10.0, load_end=11.0, end=11.0)
    run.request(CHUNKS, **run.speculated([(3, 4), (2, 4)]))
    run.request(CHUNKS, sent=10.0, segment=1, arm="new", **run.speculated([(0, 3), (0, 3)], k=3))
    summary = run.summary()
    es = {name: next(g for g in arm.by if g.task_type == "code").speculation.e_verified.value
          for name, arm in summary.arms.items()}  # fmt: skip
    assert es == {"candidate": approx(3.5), "new": approx(1.0)}
    names = ("engine_version", "endpoint", "k", "spec_method", "model", "environment")
    found = {name: [summary.conditions["arms"][name][key] for key in names] for name in es}
    assert found == {
        "candidate": ["0.32.0", "completions", 4, "draft_model", "tiny", {"engine": "vllm"}],
        "new": ["0.5.5.post3", "chat", 3, "draft_model", "tiny", {"engine": "sglang", "chat_template": "sha256:1"}],
    }


def test_self_check(run) -> None:
    """C21, C23: the client's own lag, load and losses stand beside its numbers."""
    run.segment(executor="arrival_rate", concurrency=None, load_end=2.0, end=4.0)
    run.account(scheduled=4, sent=3, dropped=1, late=2, capped_in_flight=1)
    run.request([(0.1, 1), (0.2, 1), (0.2, 1), (0.3, 1)], arrivals=[0, 1, 1, 2], sent=0.502, due=0.5)
    run.request(CHUNKS, sent=1.001, due=1.0, wait_s=0.02, connect_s=0.001)
    run.request(CHUNKS, sent=2.5, due=1.5)
    run.scrape(2.5)
    run.second(0.5, lag_max_s=0.004, cpu_share=0.5)
    run.second(1.5, lag_max_s=0.002, cpu_share=0.7)
    run.second(9.0, lag_max_s=9.0, cpu_share=9.0)
    found = run.summary().validity
    values = {name: number.value for name, number in found.client.items()}
    assert values == {
        "loop_lag_p50_s": approx(0.0001),
        "loop_lag_p99_s": None,
        "loop_lag_max_s": approx(0.004),
        "loop_stall_share": approx(0.006 / 1.5),
        "cpu_share_mean": approx((0.5 * 0.5 + 1.0 * 0.7) / 1.5),
        "cpu_share_max": approx(0.7),
        "send_lag_p50_s": approx(0.002),
        "send_lag_p99_s": None,
        "send_lag_max_s": approx(1.0),
        "delivered_rate_share": approx(2 / 4),
        "delivered_concurrency_share": None,
        "late_share": approx(2 / 4),
        "dropped_share": approx(1 / 4),
        "unsent_share": 0.0,
        "capped_in_flight_share": approx(1 / 4),
        "capped_rate_share": 0.0,
        "connect_p99_s": None,
        "connect_wait_p99_s": None,
        "wait_share": approx(0.02 / (0.02 + 0.3 + 0.18 + 0.18)),
        "connect_wait_share": 0.0,
        "scrape_overlap_share": approx(1 / 3),
        "coalesced_share": approx(1 / 10),
        "missing_stamps_share": 0.0,
        "user_stamps_share": None,
        "unstamped_read_share": None,
        "client_fault_share": 0.0,
        "success_share": 1.0,
        "clock_step_s": None,
    }
    assert found.client["loop_lag_p99_s"].reason == "needs at least 100 samples, there are 2"


def test_delivered_concurrency_of_a_plateau(run) -> None:
    """Two slots over 2 s, 3 request-seconds in flight: 75 %."""
    run.segment(concurrency=2, load_end=2.0, end=3.0)
    run.request([(0.5, 1)], end=2.5)
    run.request([(0.5, 1)], end=1.0)
    share = run.summary().validity.client["delivered_concurrency_share"]
    assert (share.value, share.n) == (approx(0.75), 2)


def test_missing_stamps_are_counted(run) -> None:
    run.segment()
    run.request(CHUNKS)
    run.request(CHUNKS, first_token_ns=None)
    assert run.summary().validity.client["missing_stamps_share"].value == approx(0.5)


def test_chunk_lists_of_different_length_are_an_error(run) -> None:
    run.segment()
    run.request(CHUNKS, chunk_tokens=[1])
    with pytest.raises(ValueError, match="3 chunk times but 1 chunk token counts"):
        run.summary()


outcomes = st.sampled_from([o.value for o in Outcome])
streams = st.lists(st.tuples(st.floats(0.001, 0.3), st.one_of(st.none(), st.integers(1, 6))), max_size=6)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(outcomes, st.booleans(), streams, st.integers(0, 3000)), max_size=12))
def test_any_run_gives_a_summary_that_adds_up(fresh, requests) -> None:
    """F2, F9, F12: strict JSON; sums of groups; TTFT ≤ total time; mean and percentiles ≤ maximum, percentiles
    monotone; no more tokens in the steady 2 s than in all 4 s."""
    run = fresh()
    run.segment(load_end=2.0, end=4.0)
    run.account(scheduled=len(requests) + 1, sent=len(requests), dropped=1)
    for outcome, streamed, gaps, input_len in requests:
        at, chunks = 0.0, []
        for gap, tokens in gaps:
            at = round(at + gap, 9)
            chunks.append((at, tokens))
        if streamed:
            run.request(chunks, outcome=outcome, input_len=input_len)
        else:
            run.whole(7, outcome=outcome, input_len=input_len)
    summary = run.summary()
    strict(summary)
    arm = summary.arms["candidate"]
    sent = arm.overall.requests.sent
    assert sent == len(requests) == sum(arm.overall.requests.outcomes.values())
    assert sent == sum(g.requests.sent for g in arm.by if g.input_segment and not g.task_type)
    assert arm.overall.requests.scheduled == sent + 1
    for g in (arm.overall, *arm.by):
        stream = g.stream
        assert stream.ttft_s.n <= g.requests.outcomes["ok"]
        if stream.ttft_s.max is not None:
            assert stream.ttft_s.mean <= stream.total_time_s.mean + 1e-9
            assert stream.ttft_s.p50 <= stream.ttft_s.max
        if g.chunk_gap_s.p50 is not None:
            assert 0 <= g.chunk_gap_s.p50 <= g.chunk_gap_s.max
        for found in (
            stream.ttft_s,
            stream.total_time_s,
            g.tpot_s,
            g.chunk_gap_s,
            g.token_latency_s,
            g.tokens_per_chunk,
        ):
            assert found.max is None or found.mean <= found.max * (1 + 1e-9)
            ranked = [p for p in (found.p50, found.p90, found.p95, found.p99, found.max) if p is not None]
            assert ranked == sorted(ranked)
        steady, whole = g.throughput.net_tokens_per_s, g.throughput.net_tokens_per_s_run
        assert steady.low * 2 <= whole.low * 4 * (1 + 1e-9)
    wasted = sum(
        g.throughput.wasted_tokens
        for g in arm.by
        if g.task_type and not (g.stage or g.input_segment or g.output_segment)
    )
    assert wasted == arm.overall.throughput.wasted_tokens
