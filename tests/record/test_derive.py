"""Derived numbers of hand-made attempts, exact."""

from collections.abc import Callable
from typing import Any

import pytest

from loadgen.drive import Attempt, Outcome
from loadgen.record.derive import Derived, derive
from server_adapters.base import SpecStats

MS = 1_000_000
S = 1_000_000_000
Make = Callable[..., Attempt]


def derived(attempt: Attempt, k: int | None = 4, artefact: bool | None = False) -> Derived:
    return derive(attempt, k, artefact)


def test_four_tokens_a_chunk_every_40_ms_is_10_ms_a_token(attempt: Make) -> None:
    """B1: a chunk is not a token: 20 tokens in 5 chunks; (160 ms) / (20 − 4)."""
    got = derived(attempt())
    assert got.tpot_s == 0.010
    assert got.ttft_s == 0.100
    assert got.ttft_from_due_s == 0.102
    assert got.total_time_s == 0.260
    assert got.total_time_from_due_s == 0.262
    assert (got.first_tokens, got.first_tokens_assumed) == (4, False)


def test_unknown_first_count_is_assumed_one_and_marked(attempt: Make) -> None:
    chunks = [(S + 100 * MS, None), (S + 140 * MS, None), (S + 180 * MS, None)]
    got = derived(attempt(chunks, output_len=9))
    assert (got.first_tokens, got.first_tokens_assumed) == (1, True)
    assert got.tpot_s == 0.080 / 8


@pytest.mark.parametrize(
    ("chunks", "more", "reason"),
    [
        ([(S + MS, 5)], {}, "no token after the first chunk (5 in all, 5 in it)"),
        ([(S + MS, 1)], {}, "no token after the first chunk (1 in all, 1 in it)"),
        ([(S + MS, 2), (S + MS, 3)], {}, "all output came in one arrival"),
        ([(S + MS, None), (S + 2 * MS, None)], {}, "no honest count of output tokens"),
        ([], {}, "no token came"),
        ([], {"stream": False}, "not streamed"),
    ],
)
def test_tpot_is_absent_with_its_reason(attempt: Make, chunks: Any, more: Any, reason: str) -> None:
    got = derived(attempt(chunks, **more))
    assert got.tpot_s is None
    assert got.absent["tpot_s"] == reason


def test_spans_that_are_not_positive_are_invalid_never_clamped(attempt: Make) -> None:
    """F16: a minimum first-token latency of 0 is a broken stamp, not a fast server."""
    got = derived(attempt([(S, 1), (S - 5, 2)]))
    assert (got.ttft_s, got.total_time_s, got.tpot_s) == (None, None, None)
    assert got.absent["ttft_s"] == "invalid sample: 0 ns is not a positive duration"
    assert got.absent["total_time_s"] == "invalid sample: -5 ns is not a positive duration"
    assert got.absent["tpot_s"] == "invalid sample: -5 ns is not a positive duration"


def test_not_streamed_has_no_ttft_and_its_total_time_is_the_bodys(attempt: Make) -> None:
    got = derived(attempt([], stream=False, output_len=20))
    assert (got.ttft_s, got.ttft_from_due_s, got.ttft_answer_s) == (None, None, None)
    assert got.absent["ttft_s"] == "not streamed"
    assert got.total_time_s == 0.300
    assert got.total_time_from_due_s == 0.302
    assert {got.absent[name] for name in ("chunk_times_s", "chunk_tokens", "coalesced_chunks")} == {"not streamed"}


def test_a_body_that_did_not_end_has_no_total_time(attempt: Make) -> None:
    got = derived(attempt([], stream=False, outcome=Outcome.TIMEOUT))
    assert got.total_time_s is None
    assert got.absent["total_time_s"] == "no whole answer (outcome timeout)"


def test_never_sent(attempt: Make) -> None:
    got = derived(attempt([], sent_ns=None, due_ns=None, outcome=Outcome.REFUSED))
    assert (got.ttft_s, got.total_time_s) == (None, None)
    assert got.absent["ttft_s"] == "no token came"
    assert got.absent["chunk_times_s"] == "not sent"


def test_no_due_time(attempt: Make) -> None:
    got = derived(attempt(due_ns=None))
    assert got.ttft_s == 0.100
    assert got.absent["ttft_from_due_s"] == "no due time"


def test_answer_after_reasoning_has_its_own_clock(attempt: Make) -> None:
    got = derived(attempt(first_answer_ns=S + 180 * MS))
    assert (got.ttft_s, got.ttft_answer_s) == (0.100, 0.180)


def spec(**more: Any) -> SpecStats:
    return SpecStats(**{"rounds": 33, "accepted": 168, "drafted": 231, "k": 7, **more})


def test_rollback_from_a_full_histogram_is_exact(attempt: Make) -> None:
    """Fixture of a real payload, k = 7: 231 = 7 × 33, so 33 − 19 rounds were rolled back."""
    got = derived(attempt(spec=spec(histogram=(2, 3, 2, 2, 4, 0, 1, 19))))
    assert (got.rollback_count, got.rollback_low, got.rollback_high) == (14, 14, 14)
    assert got.draft_len == 7


def test_rollback_bounds_where_drafts_differ_in_length(attempt: Make) -> None:
    """Live n-gram request: D = 14, T = 41, a = [14, 11, 7, 6]: 1..3, truth 2."""
    histogram = (0, 3, 4, 1, 6)
    got = derived(attempt(spec=spec(rounds=14, accepted=38, drafted=41, k=4, histogram=histogram)))
    assert (got.rollback_count, got.rollback_low, got.rollback_high) == (None, 1, 3)
    assert "only bounds" in got.absent["rollback_count"]


def test_rollback_from_rounds_one_by_one_is_exact(attempt: Make) -> None:
    got = derived(attempt(spec=spec(rounds=3, accepted=5, drafted=8, step_accepted=(4, 1, 0), step_drafted=(4, 1, 3))))
    assert (got.rollback_count, got.rollback_low, got.rollback_high) == (1, 1, 1)


ALL_FULL = spec(rounds=3, accepted=6, drafted=12, k=4, step_accepted=(4, 2, 0), step_drafted=(4, 4, 4))
ONE_SHORT = spec(rounds=3, accepted=6, drafted=11, k=4, step_accepted=(4, 2, 0), step_drafted=(4, 4, 3))


@pytest.mark.parametrize(("artefact", "words"), [(True, "by construction"), (None, "method is unknown")])
@pytest.mark.parametrize(("stats", "high"), [(spec(histogram=(2, 3, 2, 2, 4, 0, 1, 19)), 14), (ALL_FULL, 2)])
def test_counts_that_may_be_an_artefact_are_never_exact(
    attempt: Make, stats: SpecStats, high: int, artefact: bool | None, words: str
) -> None:
    """Facts on vLLM, distortion 4: placeholders are counted as drafts, in per-round arrays too."""
    got = derived(attempt(spec=stats), artefact=artefact)
    assert (got.rollback_count, got.rollback_low, got.rollback_high) == (None, 0, high)
    assert words in got.absent["rollback_count"]


def test_a_short_draft_shows_that_an_unknown_method_counts_what_it_drafted(attempt: Make) -> None:
    got = derived(attempt(spec=ONE_SHORT), artefact=None)
    assert (got.rollback_count, got.rollback_low, got.rollback_high) == (2, 2, 2)
    got = derived(attempt(spec=ONE_SHORT), artefact=True)
    assert (got.rollback_count, got.rollback_low, got.rollback_high) == (None, 0, 2)


def test_without_k_a_full_draft_cannot_be_told_from_a_short_one(attempt: Make) -> None:
    shown = spec(rounds=2, accepted=5, drafted=8, k=None, step_accepted=(4, 1), step_drafted=(4, 4))
    got = derived(attempt(spec=shown), k=None, artefact=None)
    assert (got.rollback_count, got.rollback_low, got.rollback_high) == (None, 0, 1)


def test_no_rejection_is_no_rollback_whatever_the_method(attempt: Make) -> None:
    accepted = spec(rounds=2, accepted=8, drafted=8, k=4, step_accepted=(4, 4), step_drafted=(4, 4))
    for artefact in (True, False, None):
        got = derived(attempt(spec=accepted), artefact=artefact)
        assert (got.rollback_count, got.rollback_low, got.rollback_high) == (0, 0, 0)


def test_rounds_without_a_draft_widen_the_bounds_of_structured_output(attempt: Make) -> None:
    """Facts on vLLM, distortion 5: two rounds accepted none of the 2 tokens they had: 1 + 1, or, structured, 2 + 0."""
    stats = spec(rounds=3, accepted=4, drafted=6, k=4, histogram=(2, 0, 0, 0, 1))
    assert derive(attempt(spec=stats), 4, False).rollback_low == 2
    assert derive(attempt(spec=stats), 4, False, zero_length_rounds=True).rollback_low == 1


@pytest.mark.parametrize(
    ("stats", "words"),
    [
        (spec(drafted=None, histogram=(1, 2)), "does not tell how many tokens were drafted"),
        (spec(), "neither rounds by accepted count"),
        (spec(histogram=(1, 1), drafted=1), "contradict each other"),
        (spec(step_accepted=(1,), step_drafted=(1, 2)), "contradict each other"),
        (None, "carried no speculation statistics"),
    ],
)
def test_rollback_is_absent_with_its_reason(attempt: Make, stats: SpecStats | None, words: str) -> None:
    got = derived(attempt(spec=stats))
    assert (got.rollback_count, got.rollback_low, got.rollback_high) == (None, None, None)
    assert words in got.absent["rollback_low"]


def test_draft_length_is_the_requests_else_the_arms(attempt: Make) -> None:
    assert derived(attempt(spec=spec(k=None))).draft_len == 4
    assert derived(attempt(), k=None).draft_len is None
    assert "draft_len" in derived(attempt(), k=None).absent
