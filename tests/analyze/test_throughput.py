"""Tokens by arrival time, windows, wasted tokens, goodput."""

import pytest

approx = pytest.approx


def test_tokens_count_in_the_window_they_arrive_in(run) -> None:
    """F3, F5: steady (1, 3], run (0, 5]; a request that spans the edges gives each window its own tokens."""
    run.segment(full=1.0, load_end=3.0, end=5.0)
    run.request([(0.5, 1), (1.5, 10), (2.5, 10), (4.5, 100)])
    t = run.overall().throughput
    assert t.net_tokens_per_s.value == approx(20 / 2)
    assert t.net_tokens_per_s_run.value == approx(121 / 5)
    assert t.net_tokens_per_s.low == t.net_tokens_per_s.high == t.net_tokens_per_s.value


def test_the_window_is_open_at_its_start_and_closed_at_its_end(run) -> None:
    run.segment(full=1.0, load_end=2.0, end=3.0)
    run.request([(1.0, 3), (2.0, 5), (2.5, 7)])
    assert run.overall().throughput.net_tokens_per_s.value == approx(5.0)


def test_drain_cut_tokens_are_net_and_failed_ones_wasted(run) -> None:
    """A2: the tokens of a failed stream are counted apart; those our own drain cut are net."""
    run.segment()
    run.request([(0.2, 10)])
    run.request([(0.3, 20)], outcome="aborted", error_class="drain", output_len_source="partial")
    run.request([(0.4, 40)], outcome="stream_error")
    run.request([(0.5, 80)], outcome="aborted", error_class="user_stop")
    t = run.overall().throughput
    assert t.net_tokens_per_s.value == approx(30.0)
    assert (t.wasted_tokens, t.wasted_uncounted_requests) == (120, 0)


def test_waste_that_nobody_counted_is_said(run) -> None:
    """P1: a failed stream without token counts wasted something; 0 tokens would be a claim."""
    run.segment()
    run.request([(0.2, 10)], outcome="stream_error")
    run.request([(0.2, None)], outcome="stream_error")
    t = run.overall().throughput
    assert (t.wasted_tokens, t.wasted_uncounted_requests) == (10, 1)


def test_non_streaming_tokens_count_at_the_end(run) -> None:
    run.segment(full=0.0, load_end=2.0, end=4.0)
    run.whole(10, end=1.0)
    run.whole(100, end=3.0)
    t = run.overall().throughput
    assert t.net_tokens_per_s.value == approx(10 / 2)
    assert t.net_tokens_per_s_run.value == approx(110 / 4)


def test_tokens_no_chunk_told_of_are_spread_and_said_so(run) -> None:
    run.segment(full=0.0, load_end=0.25, end=1.0)
    run.request([(0.1, None), (0.2, None), (0.3, None)], output_len=9, unattributed_tokens=9)
    t = run.overall().throughput
    assert t.net_tokens_per_s.value == approx(6 / 0.25)
    assert t.net_tokens_per_s.reason == "the arrival of 9 tokens is inferred: no chunk told of them"


def test_a_rest_without_an_unknown_chunk_counts_at_the_last_token(run) -> None:
    run.segment(full=0.0, load_end=0.25, end=1.0)
    run.request([(0.1, 4), (0.3, 4)], output_len=10, unattributed_tokens=2)
    t = run.overall().throughput
    assert t.net_tokens_per_s.value == approx(4 / 0.25)
    assert t.net_tokens_per_s_run.value == approx(10.0)


def test_output_nobody_counted_leaves_a_lower_bound(run) -> None:
    run.segment()
    run.request([(0.1, 10)])
    run.request([(0.1, None), (0.2, None)])
    net = run.overall().throughput.net_tokens_per_s
    assert (net.value, net.low, net.high) == (None, approx(10.0), None)
    assert net.reason is not None
    assert net.reason.startswith("1 of 2 requests")


def test_long_answers_do_not_lower_the_rate(run) -> None:
    """F7: a 60 s window of 50 s answers, 1 token a second each: 2 tokens/s, however few answers ended inside."""
    run.segment(full=0.0, load_end=60.0, end=100.0, concurrency=2)
    every_second = [(float(i), 1) for i in range(1, 51)]
    for sent in (0.0, 50.0):
        run.request(every_second, sent=sent)
        run.request(every_second, sent=sent)
    t = run.overall().throughput
    assert t.net_tokens_per_s.value == approx(2.0)
    assert t.net_tokens_per_s_run.value == approx(2.0)


def test_the_systems_rate_is_not_a_requests_speed(run) -> None:
    """F8: two streams of 10 tokens/s at once: 20 tokens/s of the system; the rule says what is divided by what."""
    run.segment(full=0.0, load_end=1.0, end=1.0, concurrency=2)
    for _ in range(2):
        run.request([(0.1 * i, 1) for i in range(1, 11)])
    g = run.overall()
    assert g.throughput.net_tokens_per_s.value == approx(20.0)
    assert (g.generation_speed.p50, g.generation_speed.per) == (approx(10.0), "request")
    assert "tokens by arrival time" in g.throughput.window_rule


def test_several_segments_pool_tokens_and_seconds(run) -> None:
    """F1: 10 tokens in 1 s and 10 in 9 s are 2 a second, not the mean of the two rates."""
    run.segment(0, load_end=1.0, end=1.0)
    run.segment(1, start=10.0, full=10.0, load_end=19.0, end=19.0, repeat_idx=1)
    run.request([(0.5, 10)], segment=0)
    run.request([(5.0, 10)], sent=10.0, segment=1)
    assert run.overall().throughput.net_tokens_per_s.value == approx(20 / 10)


def test_rates_of_task_types_add_up(run) -> None:
    run.segment()
    run.request([(0.5, 10)])
    run.request([(0.5, 30)], task_type="short_qa")
    arm = run.summary().arms["candidate"]
    by_task = {g.task_type: g for g in arm.by if g.task_type and not any((g.stage, g.input_segment, g.output_segment))}
    rates = {task: g.throughput.net_tokens_per_s.value for task, g in by_task.items()}
    assert rates == {"code": approx(10.0), "short_qa": approx(30.0)}
    assert arm.overall.throughput.net_tokens_per_s.value == approx(40.0)


def test_no_steady_state_is_a_reason(run) -> None:
    run.segment(full=2.0, load_end=1.0, end=3.0)
    run.request([(0.5, 10)])
    t = run.overall().throughput
    assert t.net_tokens_per_s.value is None
    assert t.net_tokens_per_s.reason == "the load ended before all of it had started: there was no steady state"
    assert t.net_tokens_per_s_run.value == approx(10 / 3)


def test_goodput_needs_every_slo(run) -> None:
    run.scenario["slos"] = {"ttft_s": 0.2, "tpot_s": 0.05, "total_time_s": None}
    run.segment(load_end=2.0, end=2.0)
    run.request([(0.1, 1), (0.2, 4)])  # meets both: TPOT 25 ms
    run.request([(0.3, 1), (0.4, 4)])  # late first token
    run.request([(0.1, 1), (1.1, 4)])  # TPOT 250 ms
    run.request([(0.1, 1)])  # TPOT does not exist: TTFT alone decides
    run.request([(0.1, 1), (0.2, 4)], outcome="truncated")
    t = run.overall().throughput
    assert t.goodput_requests_per_s.value == approx(2 / 2)
    assert t.goodput_tokens_per_s.value == approx(6 / 2)


def test_goodput_of_non_streaming_answers(run) -> None:
    """TTFT does not exist for them: total_time decides."""
    run.scenario["slos"] = {"ttft_s": 0.001, "tpot_s": None, "total_time_s": 0.5}
    run.segment()
    run.whole(10, end=0.4)
    run.whole(10, end=0.6)
    assert run.overall().throughput.goodput_requests_per_s.value == approx(1.0)


def test_an_unknown_number_is_not_a_met_slo(run) -> None:
    run.scenario["slos"] = {"ttft_s": None, "tpot_s": 10.0, "total_time_s": None}
    run.segment()
    run.request([(0.1, None), (0.2, None)])
    assert run.overall().throughput.goodput_requests_per_s.value == 0.0


def test_goodput_without_slos_is_a_reason(run) -> None:
    run.segment()
    run.request([(0.1, 1)])
    t = run.overall().throughput
    assert (t.goodput_requests_per_s.value, t.goodput_requests_per_s.reason) == (None, "the scenario sets no SLO")
