"""Go on or end the run: at, below and above every limit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.control import Decision, Live, decide
from loadgen.scenario import Limits

QUIET = Live(sent=0, output_tokens=0, cost=None, recent_ended=0, recent_failures=0, server_waiting=())
FREE = Limits("disposable")
GO_ON = Decision("continue")


@pytest.mark.parametrize(
    ("live", "limits", "reason"),
    [
        (
            {"sent": 2001},
            Limits("production", max_requests=2000),
            "2,001 requests were sent; safety.max_requests is 2,000",
        ),
        (
            {"output_tokens": 1_000_001},
            Limits("production", max_output_tokens=1_000_000),
            "1,000,001 output tokens have come; safety.max_output_tokens is 1,000,000",
        ),
        (
            {"cost": 5.25},
            Limits("production", max_cost=5.0),
            "the output has cost 5.25; safety.max_cost is 5",
        ),
        (
            {"recent_ended": 50, "recent_failures": 10},
            Limits("production", abort_error_share=0.2),
            "10 of the last 50 requests failed (20%); safety.abort_error_share is 20%",
        ),
        (
            {"server_waiting": (0.0, 40.0, 33.0, 50.0)},
            Limits("production", abort_waiting=32),
            "the server's queue was 40, 33, 50 requests in the last 3 scrapes; safety.abort_waiting is 32",
        ),
    ],
)
def test_the_sentence_says_what_was_seen_and_what_the_limit_is(
    live: dict[str, object], limits: Limits, reason: str
) -> None:
    assert decide(replace(QUIET, **live), limits) == Decision("abort", reason)  # type: ignore[arg-type]


@given(limit=st.integers(1, 10**9), over=st.integers(-5, 5))
def test_totals_end_the_run_above_their_cap(limit: int, over: int) -> None:
    """A plan of exactly the cap finishes; one more ends it."""
    expected = "abort" if over > 0 else "continue"
    n = max(0, limit + over)
    assert decide(replace(QUIET, sent=n), replace(FREE, max_requests=limit)).action == expected
    assert decide(replace(QUIET, output_tokens=n), replace(FREE, max_output_tokens=limit)).action == expected
    assert decide(replace(QUIET, cost=float(n)), replace(FREE, max_cost=float(limit))).action == expected


def test_an_unknown_cost_ends_nothing() -> None:
    assert decide(QUIET, replace(FREE, max_cost=0.01)) == GO_ON


@given(ended=st.integers(0, 50), data=st.data(), percent=st.integers(1, 100))
def test_errors_end_the_run_at_their_share_of_at_least_twenty(ended: int, data: st.DataObject, percent: int) -> None:
    failures = data.draw(st.integers(0, ended))
    decision = decide(
        replace(QUIET, recent_ended=ended, recent_failures=failures), replace(FREE, abort_error_share=percent / 100)
    )
    assert (decision.action == "abort") == (ended >= 20 and failures * 100 >= percent * ended)


@pytest.mark.parametrize(
    ("ended", "failures", "action"),
    [
        (19, 19, "continue"),
        (20, 20, "abort"),
        (20, 4, "abort"),
        (20, 3, "continue"),
        (50, 10, "abort"),
        (50, 9, "continue"),
    ],
)
def test_a_share_of_errors_at_its_boundaries(ended: int, failures: int, action: str) -> None:
    live = replace(QUIET, recent_ended=ended, recent_failures=failures)
    assert decide(live, replace(FREE, abort_error_share=0.2)).action == action


@pytest.mark.parametrize(
    ("waiting", "action"),
    [
        ((), "continue"),
        ((99.0, 99.0), "continue"),
        ((33.0, 33.0, 33.0), "abort"),
        ((33.0, 32.0, 33.0), "continue"),
        ((99.0, 99.0, 99.0, 32.0), "continue"),
        ((0.0, 33.0, 33.0, 33.0), "abort"),
    ],
)
def test_a_queue_ends_the_run_when_three_scrapes_in_a_row_are_above(waiting: tuple[float, ...], action: str) -> None:
    assert decide(replace(QUIET, server_waiting=waiting), replace(FREE, abort_waiting=32)).action == action


@given(
    sent=st.integers(0, 10**9),
    tokens=st.integers(0, 10**12),
    cost=st.none() | st.floats(0, 1e9),
    failures=st.integers(0, 50),
    waiting=st.lists(st.floats(0, 1e6), max_size=6),
)
def test_without_limits_nothing_ends_the_run(
    sent: int, tokens: int, cost: float | None, failures: int, waiting: list[float]
) -> None:
    live = Live(sent, tokens, cost, recent_ended=50, recent_failures=failures, server_waiting=tuple(waiting))
    assert decide(live, FREE) == GO_ON


@given(sent=st.integers(0, 4000), failures=st.integers(0, 50), waiting=st.lists(st.floats(0, 100), max_size=5))
def test_more_load_or_more_trouble_never_turns_abort_into_continue(
    sent: int, failures: int, waiting: list[float]
) -> None:
    limits = Limits("production", max_requests=2000, abort_error_share=0.2, abort_waiting=32)
    live = replace(QUIET, sent=sent, recent_ended=50, recent_failures=failures, server_waiting=tuple(waiting))
    worse = replace(live, sent=sent + 1, recent_failures=50, server_waiting=tuple(w + 1 for w in waiting))
    if decide(live, limits).action == "abort":
        assert decide(worse, limits).action == "abort"
