"""Latency and pace of hand-made streams: exact numbers."""

import pytest

approx = pytest.approx

FOUR = [(0.100, 4), (0.140, 4), (0.180, 4), (0.220, 4)]


def test_four_tokens_every_forty_milliseconds(run) -> None:
    """C14, C17, B1: chunk gap 40 ms, token latency 10 ms, TPOT 10 ms; never 40 ms a token."""
    run.segment()
    run.request(FOUR)
    g = run.overall()
    assert (g.chunk_gap_s.p50, g.chunk_gap_s.n, g.chunk_gap_s.per) == (approx(0.040), 3, "arrival")
    assert (g.token_latency_s.p50, g.token_latency_s.n, g.token_latency_s.per) == (approx(0.010), 12, "token")
    assert g.tpot_s.p50 == approx(0.010)
    assert (g.tokens_per_chunk.mean, g.tokens_per_chunk.n, g.tokens_per_chunk.unit) == (4, 4, "tokens")
    assert g.stream.ttft_s.p50 == approx(0.100)
    assert g.stream.total_time_s.p50 == approx(0.220)
    assert g.generation_speed.p50 == approx(16 / 0.220)


def test_token_latency_is_weighted_per_token(run) -> None:
    """C15, C18: 1 token after 30 ms and 3 after 30 ms: three of four tokens took 10 ms."""
    run.segment()
    run.request([(0.1, 1), (0.13, 1), (0.16, 3)])
    g = run.overall()
    assert g.token_latency_s.p50 == approx(0.010)
    assert g.token_latency_s.mean == approx(0.060 / 4)
    assert g.token_latency_s.max == approx(0.030)


def test_chunks_that_came_together_are_one_arrival(run) -> None:
    """A20: two chunks with one arrival number have one gap before them, not a gap of zero."""
    run.segment()
    run.request([(0.1, 1), (0.2, 2), (0.2, 2), (0.3, 1)], arrivals=[0, 1, 1, 2])
    g = run.overall()
    assert (g.chunk_gap_s.n, g.chunk_gap_s.p50) == (2, approx(0.1))
    assert (g.token_latency_s.n, g.token_latency_s.p50) == (5, approx(0.1 / 4))
    assert g.tokens_per_chunk.n == 4


def test_arrivals_of_neighbouring_requests_are_not_joined(run) -> None:
    run.segment()
    run.request([(0.1, 1)], arrivals=[0])
    run.request([(0.1, 1), (0.3, 1)], arrivals=[0, 1])
    assert run.overall().chunk_gap_s.n == 1
    assert run.overall().chunk_gap_s.max == approx(0.2)


def test_a_stall_is_seen_in_the_chunk_gap(run) -> None:
    """C15: 98 gaps of 20 ms and a stall of 2 s: the mean hides it, the largest does not; jitter is P99/P50."""
    run.segment(load_end=10.0, end=10.0)
    stalls = [(0.1 + 0.02 * i + (2.0 if i >= 50 else 0.0), 1) for i in range(100)]
    run.request(stalls)
    run.request([(0.1 + 0.02 * i, 1) for i in range(100)])
    g = run.overall()
    assert (g.chunk_gap_s.n, g.chunk_gap_s.max) == (198, approx(2.02))
    assert g.jitter.value == approx(1.0)
    assert run.overall().token_latency_s.max == approx(2.02)


def test_jitter_is_p99_over_p50(run) -> None:
    run.segment(load_end=20.0, end=20.0)
    gaps = [0.02] * 98 + [0.5, 0.5]
    at = [0.1]
    for gap in gaps:
        at.append(at[-1] + gap)
    run.request([(t, 1) for t in at])
    g = run.overall()
    assert g.chunk_gap_s.n == 100
    assert g.jitter.value == approx(25.0)


def steady_minutes(run, gaps_by_minute: list[float]) -> None:
    """One stream with 25 gaps of this length in each minute; the long pause between two belongs to the next one."""
    run.segment(load_end=1000.0, end=1000.0)
    at = [(60.0 * m + 1.0 + gap * i, 1) for m, gap in enumerate(gaps_by_minute) for i in range(26)]
    run.request(at)


def test_jitter_between_minutes(run) -> None:
    """Medians 20, 30, 40 ms: sample standard deviation 10 ms over mean 30 ms."""
    steady_minutes(run, [0.020, 0.030, 0.040])
    found = run.overall().jitter_between_minutes
    assert (found.value, found.n, found.source) == (approx(1 / 3), 3, "chunk")


def test_jitter_between_minutes_needs_three(run) -> None:
    steady_minutes(run, [0.020, 0.030])
    found = run.overall().jitter_between_minutes
    assert (found.value, found.n) == (None, 2)
    assert found.reason == "needs at least 3 minutes of 20 gaps each, there are 2"
    run.rows.clear()
    assert run.overall().jitter_between_minutes.reason == "no streaming request succeeded"


def test_first_chunk_of_several_tokens_and_its_tpot(run) -> None:
    """Numerator and denominator over the same tokens (B14): 5 of 9 tokens came after the first chunk."""
    run.segment()
    run.request([(0.1, 4), (0.2, 5)])
    assert run.overall().tpot_s.p50 == approx(0.1 / 5)


def test_one_token_has_no_tpot(run) -> None:
    """C12: null, out of the distribution, the count shown."""
    run.segment()
    run.request([(0.1, 1)])
    run.request([(0.1, 1), (0.15, 1)])
    tpot = run.overall().tpot_s
    assert (tpot.n, tpot.p50) == (1, approx(0.05))
    assert tpot.reasons["n"].startswith("1 ok requests have none")


def test_usage_only_at_the_end(run) -> None:
    """B17: chunks of unknown count: TPOT from the final count, first chunk assumed; no token latency."""
    run.segment()
    run.request([(0.1, None), (0.2, None), (0.3, None)], output_len=9, unattributed_tokens=9)
    g = run.overall()
    assert g.tpot_s.p50 == approx(0.2 / 8)
    assert g.tpot_s.reasons["first_tokens"].startswith("1 requests")
    assert (g.token_latency_s.n, g.token_latency_s.reason) == (0, "the server told no token counts per chunk")
    assert (g.tokens_per_chunk.n, g.tokens_per_chunk.p50) == (0, None)
    assert g.chunk_gap_s.n == 2


def test_non_streaming_is_never_pooled(run) -> None:
    """G25: its whole response time is total_time in its own table; it has no TTFT."""
    run.segment(load_end=5.0, end=5.0)
    run.request(FOUR)
    run.whole(50, sent=0.0, end=4.0)
    g = run.overall()
    assert (g.non_stream.total_time_s.n, g.non_stream.total_time_s.p50) == (1, approx(4.0))
    assert (g.stream.total_time_s.n, g.stream.total_time_s.max) == (1, approx(0.220))
    assert g.stream.ttft_s.n == 1
    assert g.tpot_s.n == 1
    assert (g.generation_speed.n, g.generation_speed.p50) == (1, approx(16 / 0.220))
    assert (g.non_stream.generation_speed.n, g.non_stream.generation_speed.p50) == (1, approx(50 / 4))


def test_from_due_shows_coordinated_omission(run) -> None:
    """C27: the server froze, the request was due 5 s before it was sent."""
    run.segment(load_end=20.0, end=20.0)
    run.request([(0.1, 1), (0.2, 1)], sent=6.0, due=1.0)
    g = run.overall()
    assert g.stream.ttft_s.p50 == approx(0.1)
    assert g.stream.ttft_from_due_s.p50 == approx(5.1)
    assert g.stream.total_time_from_due_s.p50 == approx(5.2)


def test_answer_after_reasoning_is_a_second_clock(run) -> None:
    run.segment()
    run.request([(0.1, 1), (0.5, 1)])
    run.rows[-1]["first_answer_ns"] = run.rows[-1]["last_token_ns"]
    g = run.overall()
    assert (g.stream.ttft_s.p50, g.stream.ttft_answer_s.p50) == (approx(0.1), approx(0.5))


@pytest.mark.parametrize("outcome", ["http_error", "truncated", "stream_error", "aborted"])
def test_only_ok_requests_are_in_the_main_view(run, outcome: str) -> None:
    """F10, F17, A2: a fast failure makes no latency better; it is infinite in the second view."""
    run.segment()
    for _ in range(3):
        run.request(FOUR)
    run.request([(0.001, 1), (0.002, 1)], outcome=outcome, error_class="drain")
    g = run.overall()
    assert (g.stream.ttft_s.n, g.stream.ttft_s.p50) == (3, approx(0.1))
    assert g.chunk_gap_s.n == 9
    assert g.requests.sent == 4
    assert g.requests.outcomes[outcome] == 1
    assert sum(g.requests.outcomes.values()) == 4
    assert g.stream.ttft_s.all_sent is not None
    assert g.stream.ttft_s.all_sent.n == 4
    assert g.stream.ttft_s.all_sent.p50 == approx(0.1)


def test_no_output_gives_no_sample(run) -> None:
    """C10, C11: a stream without a token is its own outcome and has no TTFT of 0."""
    run.segment()
    run.request([], outcome="no_output", end=0.3, output_len=0)
    g = run.overall()
    assert (g.stream.ttft_s.n, g.stream.ttft_s.p50) == (0, None)
    assert g.stream.ttft_s.reason == "no streaming request succeeded"
    assert g.requests.outcomes["no_output"] == 1


def test_speed_has_its_slow_end_at_p5(run) -> None:
    """20 requests of 1..20 tokens in a second: P5 is the slowest of 20."""
    run.segment(load_end=10.0, end=10.0)
    for tokens in range(1, 21):
        run.request([(0.5, 1), (1.0, tokens)])
    g = run.overall()
    assert g.generation_speed_p5.value == approx(2.0)
    assert g.generation_speed.p50 == approx(11.0)
    assert g.generation_speed.unit == "tokens/s"


def test_server_times_per_request_else_the_counters_mean(run) -> None:
    """F19: the server's own queue and prefill stand beside the client's TTFT."""
    run.segment()
    run.request(FOUR, server_queue_s=0.01, server_prefill_s=0.05)
    run.counted(queue_sum=9.0, queue_count=3.0, decode_sum=6.0, decode_count=3.0)
    g = run.overall()
    assert (g.server_queue_s.p50, g.server_queue_s.source) == (0.01, "per_request")
    assert (g.server_decode_s.mean, g.server_decode_s.n, g.server_decode_s.source) == (2.0, 3, "counters")
    assert g.server_decode_s.p50 is None


def test_draft_and_verify_times_only_where_the_server_tells_them(run) -> None:
    run.arm(absent_columns={"verify_time_s": "this server exports no verification time"})
    run.segment()
    run.request(FOUR, draft_time_s=0.02)
    g = run.overall()
    assert (g.draft_time_s.p50, g.draft_time_s.n, g.draft_time_s.source) == (0.02, 1, "per_request")
    assert (g.verify_time_s.p50, g.verify_time_s.reason) == (None, "this server exports no verification time")


def test_the_servers_time_per_token_is_never_its_gap_between_outputs(run) -> None:
    """C16: 4 outputs of 5 tokens, 40 ms apart: the page's gap mean is 40 ms, its time per token 8 ms."""
    run.segment()
    run.request(FOUR)
    run.counted(
        output_events_sum=0.160, output_events=4.0, tpot_sum=0.008, tpot_count=1.0, ttft_sum=0.09, ttft_count=1.0
    )
    g = run.overall()
    assert (g.server_tpot_s.mean, g.server_tpot_s.n, g.server_tpot_s.source) == (approx(0.008), 1, "counters")
    assert (g.server_ttft_s.mean, g.server_ttft_s.p50) == (approx(0.09), None)
    (task,) = (x for x in run.summary().arms["candidate"].by if x.task_type and not x.stage and not x.input_segment
               and not x.output_segment)  # fmt: skip
    assert (task.server_tpot_s.mean, task.server_tpot_s.reason) == (None, "the server does not tell it per request")
    assert approx(0.040) not in [
        d["mean"] for name, d in g.model_dump().items() if name.startswith("server_") and d["mean"] is not None
    ]


def test_warm_up_is_not_measured(run) -> None:
    """F3: the warm-up herd stays in its own phase."""
    run.segment(0, phase="warmup")
    run.segment(1)
    run.request([(14.0, 1)], segment=0)
    run.request([(0.1, 1)], segment=1)
    assert run.overall().stream.ttft_s.max == approx(0.1)
    assert run.overall().requests.sent == 1
