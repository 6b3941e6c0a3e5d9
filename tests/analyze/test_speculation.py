"""α, the three E, coverage, positions: exact numbers from hand-made rounds."""

import pytest

approx = pytest.approx

ROUNDS = [(3, 4), (0, 4), (4, 4), (2, 4)]


def chunks(*tokens: int) -> list[tuple[float, int]]:
    return [(0.1 + 0.04 * i, n) for i, n in enumerate(tokens)]


def by(run, **labels):
    """The group of the candidate with exactly these labels."""
    keys = ("task_type", "input_segment", "output_segment", "stage", "temperature")
    wanted = {key: labels.get(key) for key in keys}
    (found,) = (g for g in run.summary().arms["candidate"].by if {k: getattr(g, k) for k in keys} == wanted)
    return found


def test_all_numbers_of_one_request(run) -> None:
    """D9: D = 4, T = 16, A = 9; chunks 1 | 4 1 5 3 | 1: one step had no draft."""
    run.segment()
    run.request(chunks(1, 4, 1, 5, 3, 1), **run.speculated(ROUNDS))
    s = run.overall().speculation
    assert (s.rounds.value, s.drafted.value, s.accepted.value) == (4, 16, 9)
    assert (s.acceptance_rate.value, s.acceptance_rate.n) == (approx(9 / 16), 16)
    assert (s.e_verified.value, s.e_verified.n) == (approx(1 + 9 / 4), 4)
    assert s.e_emitted.value == approx((14 - (5 - 4)) / 4)
    assert (s.e_decode.value, s.e_decode.n, s.e_decode.source) == (approx(14 / 5), 5, "chunk")
    assert s.draft_coverage.value == approx(4 / 5)
    assert s.overshoot_tokens.value == 0
    assert s.drafted_per_output_token.value == approx(16 / 15)
    assert [n.value for n in s.per_position] == [approx(3 / 4), approx(3 / 4), approx(2 / 4), approx(1 / 4)]
    assert [n.value for n in s.per_position_conditional] == [approx(3 / 4), approx(1.0), approx(2 / 3), approx(1 / 2)]
    assert s.drafted.source == "per_request"
    assert s.e_emitted.source == "per_request+chunk"
    assert s.representative is True
    assert s.flags == []


def test_overshoot_at_the_length_limit(run) -> None:
    """D22, D11: facts on vLLM: 20 tokens, rounds emitted 2 3 5 5 2 2, accepted 1 2 4 4 1 4: A counted before
    trimming, so E_verified·D − emitted = 22 − 19 = 3."""
    run.segment()
    steps = [(1, 4), (2, 4), (4, 4), (4, 4), (1, 4), (4, 4)]
    run.request(chunks(1, 2, 3, 5, 5, 2, 2), **run.speculated(steps))
    s = run.overall().speculation
    assert s.overshoot_tokens.value == approx(3.0)
    assert s.e_verified.value == approx(22 / 6)
    assert s.e_emitted.value == approx(19 / 6)
    assert s.e_decode.value == approx(19 / 6)
    assert s.e_verified.value == approx(1 + sum(n.value for n in s.per_position))


def test_token_weighted_and_request_weighted_alpha(run) -> None:
    """D7: one long answer at 0.9, many short ones at 0.25."""
    run.segment()
    run.request(chunks(1, 5), **run.speculated([(9, 10)] * 100, k=10))
    for _ in range(3):
        run.request(chunks(1, 5), **run.speculated([(1, 4)]))
    s = run.overall().speculation
    assert s.acceptance_rate.value == approx(903 / 1012)
    assert (s.acceptance_rate_per_request_mean.value, s.acceptance_rate_per_request_mean.n) == (approx(1.65 / 4), 4)


def test_a_request_that_never_drafted_is_no_speculation(run) -> None:
    """D8: out of α, its steps count in the coverage."""
    run.segment()
    run.request(chunks(1, 5), **run.speculated([(4, 4)]))
    run.request(chunks(1, 1, 1, 1), **run.speculated([]))
    s = run.overall().speculation
    assert s.acceptance_rate.value == 1.0
    assert (s.acceptance_rate_per_request_mean.value, s.acceptance_rate_per_request_mean.n) == (1.0, 1)
    assert s.draft_coverage.value == approx(1 / 4)
    assert s.e_decode.value == approx(8 / 4)


def test_nothing_drafted_at_all_is_null_with_a_reason(run) -> None:
    """P1, D10: no draft is not an acceptance of 0."""
    run.segment()
    run.request(chunks(1, 1), **run.speculated([]))
    s = run.overall().speculation
    assert (s.acceptance_rate.value, s.acceptance_rate.reason) == (None, "nothing was drafted")
    assert (s.e_verified.value, s.e_verified.reason) == (None, "no round was made")
    assert (s.rollback_rate.value, s.rollback_rate.reason) == (None, "no round was made")
    assert s.rounds.value == 0


def test_drafted_is_never_k_times_rounds(run) -> None:
    """D14: short drafts: llama.cpp's 87 drafts, 259 drafted, 167 accepted."""
    run.segment()
    steps = [(3, 3)] * 42 + [(2, 3)] * 13 + [(1, 3)] * 15 + [(0, 3)] * 16 + [(0, 1)]
    run.request(chunks(1, 4), **run.speculated(steps, k=3))
    s = run.overall().speculation
    assert s.drafted.value == 259
    assert s.accepted.value == 167
    assert s.acceptance_rate.value == approx(167 / 259)
    assert s.e_verified.value == approx(1 + 167 / 87)


def test_counters_when_responses_tell_nothing(run) -> None:
    """D1, D6: D = 10, T = 40, A = 25; 60 tokens, 2 requests, 33 − … steps from the server's own count."""
    run.segment()
    run.request(chunks(1, 29))
    run.request(chunks(1, 29))
    run.counted(
        drafts=10, draft_tokens=40, accepted_tokens=25, accepted_at=[9, 7, 5, 4], generation_tokens=60,
        output_events=33, ttft_count=2,
    )  # fmt: skip
    s = run.overall().speculation
    assert (s.rounds.value, s.drafted.value, s.accepted.value) == (10, 40, 25)
    assert (s.acceptance_rate.value, s.acceptance_rate.source) == (approx(25 / 40), "counters")
    assert s.e_verified.value == approx(3.5)
    assert (s.e_decode.value, s.e_decode.source) == (approx(58 / 33), "counters")
    assert s.e_emitted.value == approx((58 - 23) / 10)
    assert s.draft_coverage.value == approx(10 / 33)
    assert [n.value for n in s.per_position] == [approx(0.9), approx(0.7), approx(0.5), approx(0.4)]
    assert [n.value for n in s.per_position_conditional] == [approx(0.9), approx(7 / 9), approx(5 / 7), approx(4 / 5)]
    assert s.acceptance_rate_per_request_mean.reason == "counters know no requests"
    assert s.drafted_per_output_token.value == approx(40 / 60)


def test_counters_cannot_be_split_by_task(run) -> None:
    """D5, P8: α of a task type is null with its reason; the ledger still gives its steps and accepted tokens."""
    run.segment()
    run.request(chunks(1, 4, 5))
    run.counted(drafts=2, draft_tokens=8, accepted_tokens=7, accepted_at=[2, 2, 2, 1], generation_tokens=10)
    s = by(run, task_type="code").speculation
    assert s.acceptance_rate.value is None
    assert "cannot be split" in (s.acceptance_rate.reason or "")
    assert (s.accepted.value, s.accepted.source) == (7, "chunk")
    assert (s.e_decode.value, s.e_decode.source) == (approx(4.5), "chunk")
    assert by(run, stage="one").speculation.acceptance_rate.value == approx(7 / 8)


def test_foreign_traffic_in_the_counters_is_said(run) -> None:
    """D17: the server generated more than came to us: its steps are not taken, its α carries a note."""
    run.segment()
    run.request(chunks(1, 4, 5))
    run.counted(
        drafts=20, draft_tokens=80, accepted_tokens=70, accepted_at=[20, 20, 20, 10], generation_tokens=100,
        output_events=20, ttft_count=10,
    )  # fmt: skip
    s = run.overall().speculation
    assert "100 tokens, 10 came to us" in (s.acceptance_rate.reason or "")
    assert (s.e_decode.value, s.e_decode.source) == (approx(9 / 2), "chunk")


def test_merged_chunks_are_left_out_of_the_steps(run) -> None:
    """C19: a chunk of 6 tokens at k = 4 holds two steps; fewer chunks than rounds do, too."""
    run.segment()
    run.request(chunks(1, 5, 3))
    run.request(chunks(1, 6))
    s = run.overall().speculation
    assert s.e_decode.value == approx(8 / 2)
    assert "1 with merged chunks" in (s.e_decode.reason or "")
    assert s.flags == ["server_merged_chunks: 1 of 2 requests have chunks of several steps"]
    run.request(chunks(1, 5), **run.speculated([(1, 4), (1, 4), (0, 4)]))
    assert "2 of 3" in run.overall().speculation.flags[0]


def test_the_servers_step_count_is_preferred(run) -> None:
    """METHOD "Where the time goes": merged chunks inflate the ledger's E, not the server's."""
    run.segment()
    run.request(chunks(1, 8, 3))
    run.counted(generation_tokens=12, output_events=4, ttft_count=1)
    e = run.overall().speculation.e_decode
    assert (e.value, e.source) == (approx(11 / 4), "counters")


def test_token_sized_chunks_tell_no_steps(run) -> None:
    run.arm(chunk_unit="token")
    run.segment()
    run.request(chunks(1, 1, 1))
    e = run.overall().speculation.e_decode
    assert (e.value, e.reason) == (None, "this server sends every token as a chunk of its own: chunks tell no steps")


def test_the_arm_without_speculation(run) -> None:
    """Off is not zero: α and rounds are absent, E_decode is one token a step."""
    run.arm("baseline", speculation=False, k=None, spec_method=None)
    run.segment(arm="baseline")
    run.request(chunks(1, 1, 1, 1), arm="baseline")
    s = run.overall("baseline").speculation
    assert (s.drafted.value, s.drafted.reason) == (None, "speculation is off on this arm")
    assert s.accepted.value is None
    assert s.per_position == []
    assert s.e_decode.value == 1.0
    assert s.rollback_rate.value is None


def test_statistics_missing_on_some_requests_is_said(run) -> None:
    """A24: a stop string gives no statistics: null there, never 0."""
    run.segment()
    run.request(chunks(1, 5), **run.speculated([(4, 4)]))
    run.request(chunks(1, 3))
    s = run.overall().speculation
    assert s.acceptance_rate.value == 1.0
    assert s.acceptance_rate.reason == "1 of 2 ok requests gave no statistics"
    assert s.draft_coverage.value == 1.0


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"input_len_requested": 100}, "1 of 1 prompts are generated"),
        (
            {"sampling": '{"ignore_eos":true,"min_tokens":0}'},
            "1 of 1 answers could not stop by themselves (ignore_eos or min_tokens)",
        ),
        (
            {"sampling": '{"ignore_eos":false,"min_tokens":12}'},
            "1 of 1 answers could not stop by themselves (ignore_eos or min_tokens)",
        ),
    ],
)
def test_not_representative(run, columns: dict[str, object], reason: str) -> None:
    """D26, D27: generated prompts and forced stops are marked, with the reason."""
    run.segment()
    run.request(chunks(1, 5), **run.speculated([(4, 4)]), **columns)
    s = run.overall().speculation
    assert s.representative is False
    assert s.representative_reason == reason


def test_a_repeated_prompt_is_not_representative(run) -> None:
    """H12, D26: the same prompt twice in one pass; in another repeat it is the design."""
    run.segment(0)
    run.segment(1, repeat_idx=1)
    for segment in (0, 1):
        run.request(chunks(1, 5), segment=segment, case_id="a", **run.speculated([(4, 4)]))
    assert run.overall().speculation.representative is True
    run.request(chunks(1, 5), segment=1, case_id="a", **run.speculated([(4, 4)]))
    assert run.overall().speculation.representative_reason == "1 of 3 requests repeat a prompt of the same pass"


def test_groups_by_temperature_and_length(run) -> None:
    """B18: segments by the server's token counts; α by sampling parameters."""
    run.segment()
    run.request(chunks(1, 5), temperature=0.0, input_len=127, **run.speculated([(4, 4)]))
    run.request(chunks(1, 5, 30), temperature=1.0, input_len=128, **run.speculated([(0, 4)]))
    assert by(run, temperature=0.0).speculation.acceptance_rate.value == 1.0
    assert by(run, temperature=1.0).speculation.acceptance_rate.value == 0.0
    assert by(run, input_segment="0-127").requests.sent == 1
    assert by(run, input_segment="128-511").requests.sent == 1
    assert by(run, output_segment="0-31").requests.sent == 1
    assert by(run, task_type="code", output_segment="32-127").requests.sent == 1
    assert by(run, task_type="code", stage="one").requests.sent == 2


def test_counters_of_one_segment_of_two_are_not_the_arms(run) -> None:
    """P1: a family that was not there in one window is absent in the sum; the other stage keeps its own."""
    run.segment(0)
    run.segment(1, start=10.0, full=10.0, load_end=11.0, end=11.0, stage="two", stage_index=1)
    run.request(chunks(1, 4), segment=0)
    run.request(chunks(1, 4), sent=10.0, segment=1)
    run.scrape(0.0, edge="start", segment=0, generation_tokens=0)
    run.scrape(1.0, edge="end", segment=0, generation_tokens=5)
    counted = {"draft_tokens": 4, "accepted_tokens": 3, "generation_tokens": 10}
    run.scrape(10.0, edge="start", segment=1, **{**dict.fromkeys(("drafts", *counted), 0), "generation_tokens": 5})
    run.scrape(11.0, edge="end", segment=1, accepted_at=[1, 1, 1, 0], drafts=1, **counted)
    assert run.overall().speculation.acceptance_rate.value is None
    assert by(run, stage="one").speculation.acceptance_rate.value is None
    assert by(run, stage="two").speculation.acceptance_rate.value == approx(3 / 4)


def test_two_segments_pool_their_counters(run) -> None:
    """D = 1 + 3, A = 3 + 3: α and E over both windows, not means of two."""
    run.segment(0)
    run.segment(1, start=10.0, full=10.0, load_end=11.0, end=11.0, repeat_idx=1)
    run.request(chunks(1, 4), segment=0)
    run.request(chunks(1, 2, 2, 2), sent=10.0, segment=1)
    first = {"drafts": 1, "draft_tokens": 4, "accepted_tokens": 3, "generation_tokens": 5}
    then = {"drafts": 4, "draft_tokens": 16, "accepted_tokens": 6, "generation_tokens": 12}
    run.scrape(0.0, edge="start", segment=0, accepted_at=[0, 0, 0, 0], **dict.fromkeys(first, 0))
    run.scrape(1.0, edge="end", segment=0, accepted_at=[1, 1, 1, 0], **first)
    run.scrape(10.0, edge="start", segment=1, accepted_at=[1, 1, 1, 0], **first)
    run.scrape(11.0, edge="end", segment=1, accepted_at=[4, 1, 1, 0], **then)
    s = run.overall().speculation
    assert (s.rounds.value, s.acceptance_rate.value, s.e_verified.value) == (4, approx(6 / 16), approx(2.5))
    assert [n.value for n in s.per_position] == [1.0, approx(1 / 4), approx(1 / 4), 0.0]


def halves(k: int) -> list[tuple[int, int]]:
    """2^k rounds of k drafts, each position accepted with probability one half given the one before."""
    return [(a, k) for a in range(k) for _ in range(2 ** (k - 1 - a))] + [(k, k)]


def test_a_tokens_probability_is_not_the_acceptance_rate(run) -> None:
    """D13: p = 1/2, k = 3: E[accepted] = Σ i p^i (1 − p) + k p^k = 7/8, so α = 7/24 and E = 15/8, not 1/2 and 2."""
    run.segment()
    run.request(chunks(1, 4), **run.speculated(halves(3), k=3))
    s = run.overall().speculation
    p, k = 0.5, 3
    expected = sum(i * p**i * (1 - p) for i in range(k)) + k * p**k
    assert expected == 7 / 8
    assert s.acceptance_rate.value == approx(expected / k)
    assert s.e_verified.value == approx(1 + expected)


@pytest.mark.parametrize(("k", "alpha"), [(2, 3 / 8), (3, 7 / 24), (4, 15 / 64)])
def test_conditional_acceptance_compares_across_k(run, k: int, alpha: float) -> None:
    """D12: α falls with k though the drafter is the same; the conditional rate stays, all from the same counts."""
    run.segment()
    run.request(chunks(1, 4), **run.speculated(halves(k), k=k))
    s = run.overall().speculation
    assert s.acceptance_rate.value == approx(alpha)
    assert [n.value for n in s.per_position_conditional] == [approx(0.5)] * k
    assert [n.value for n in s.per_position] == [approx(0.5 ** (j + 1)) for j in range(k)]


def test_cumulative_counters_are_never_added_up(run) -> None:
    """D20: five looks at totals that rise by 2 rounds each: 8 rounds between the edges, not a sum of totals."""
    run.segment()
    run.request(chunks(1, 4))
    for i, at in enumerate((0.0, 0.25, 0.5, 0.75, 1.0)):
        edge = {0.0: "start", 1.0: "end"}.get(at)
        run.scrape(
            at, edge=edge, segment=0, accepted_at=[100 + 2 * i] * 4, drafts=100 + 2 * i, draft_tokens=400 + 8 * i,
            accepted_tokens=400 + 8 * i, generation_tokens=50 + 10 * i,
        )  # fmt: skip
    s = run.overall().speculation
    assert (s.rounds.value, s.drafted.value, s.accepted.value) == (8, 32, 32)
    assert [n.n for n in s.per_position] == [8] * 4


def test_perfect_acceptance_of_almost_no_drafts_is_seen(run) -> None:
    """D28: every draft accepted, but one token drafted in 41 of output: α = 1 stands beside 1/41 and coverage 1/39."""
    run.segment()
    run.request(chunks(1, 2, *[1] * 38), **run.speculated([(1, 1)]))
    s = run.overall().speculation
    assert s.acceptance_rate.value == 1.0
    assert (s.drafted_per_output_token.value, s.drafted_per_output_token.n) == (approx(1 / 41), 41)
    assert s.draft_coverage.value == approx(1 / 39)


def test_a_task_at_several_temperatures_is_split_by_them(run) -> None:
    """Acceptance by task type and by sampling parameters: what was sent, top_p and top_k where they vary."""
    run.segment()
    sent = [
        ("code", 0.0, 1.0, -1, 4),
        ("code", 0.7, 1.0, -1, 2),
        ("code", 0.7, 0.9, 20, 1),
        ("short_qa", 0.7, 0.9, 20, 0),
    ]
    for task, temperature, top_p, top_k, accepted in sent:
        columns = {"task_type": task, "temperature": temperature, "top_p": top_p, "top_k": top_k}
        run.request(chunks(1, 5), **columns, **run.speculated([(accepted, 4)]))
    groups = {
        (g.task_type, g.temperature, g.top_p, g.top_k): g.speculation.acceptance_rate.value
        for g in run.summary().arms["candidate"].by
        if g.temperature is not None
    }
    assert groups == {
        (None, 0.0, None, None): 1.0,
        ("code", 0.0, None, None): 1.0,
        (None, 0.7, None, None): approx(3 / 12),
        ("code", 0.7, None, None): approx(3 / 8),
        (None, 0.7, 0.9, 20): approx(1 / 8),
        (None, 0.7, 1.0, -1): approx(2 / 4),
    }
    conditions = run.overall().conditions
    assert (conditions.temperature, conditions.top_p, conditions.top_k) == ([0.0, 0.7], [0.9, 1.0], [-1, 20])
