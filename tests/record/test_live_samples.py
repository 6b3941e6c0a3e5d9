"""What control is told of an ended request is what the record says of it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from loadgen.control import LIVE_TIMES, Sample
from loadgen.drive import Attempt, Outcome
from loadgen.drive.live import KEPT, Recent, sample_of
from loadgen.record.derive import derive

MakeAttempt = Callable[..., Attempt]
S, MS = 10**9, 10**6


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"chunks": [(S + 100 * MS, 5)]},
        {"chunks": [(S + 100 * MS, None), (S + 140 * MS, None)], "output_len": 7},
        {"chunks": [(S + 100 * MS, 2), (S + 100 * MS, 3)]},
        {"chunks": [], "output_len": None},
        {"due_ns": None},
        {"sent_ns": S + 100 * MS},
        {"stream": False, "first_token_ns": None, "last_token_ns": None},
    ],
    ids=["stream", "one chunk", "uncounted", "one arrival", "nothing", "no due time", "no duration", "whole"],
)
def test_times_are_those_of_the_record(attempt: MakeAttempt, changes: dict[str, Any]) -> None:
    one = attempt(**changes)
    derived = derive(one, None, None)
    expected = {name: getattr(derived, name, None) for name in LIVE_TIMES}
    if not one.stream:
        expected = {**dict.fromkeys(LIVE_TIMES), "non_stream_total_time_s": derived.total_time_s}
    assert sample_of(one) == Sample(0, "short_qa", False, tuple(expected.values()))


@pytest.mark.parametrize(
    ("outcome", "error_class", "told"),
    [
        (Outcome.STREAM_ERROR, None, True),
        (Outcome.TRUNCATED, None, True),
        (Outcome.CLIENT_FAULT, None, True),
        (Outcome.ABORTED, "drain", True),
        (Outcome.ABORTED, "user_stop", False),
        (Outcome.ABORTED, "policy", False),
    ],
)
def test_failures_count_as_infinite_and_our_own_stops_not_at_all(
    attempt: MakeAttempt, outcome: Outcome, error_class: str | None, told: bool
) -> None:
    """F10, F17: the all-sent view of the final percentiles; what our own drain cut is no error."""
    ours = None if error_class == "drain" else True
    failed = {"outcome": outcome, "error_class": error_class}
    streamed, whole = sample_of(attempt(**failed)), sample_of(attempt(stream=False, **failed))
    assert streamed == (Sample(0, "short_qa", ours, (*(inf,) * 5, None)) if told else None)
    assert whole == (Sample(0, "short_qa", ours, (*(None,) * 5, inf)) if told else None)


def test_between_two_reports_a_bounded_uniform_sample_is_kept(attempt: MakeAttempt) -> None:
    """F14: whatever the rate, a report stays small; early and late requests are kept alike."""
    recent = Recent(seed=3)
    for i in range(20 * KEPT):
        recent.add(attempt(segment=i))
    taken = recent.take()
    assert len(taken) == KEPT
    assert sum(s.segment < 10 * KEPT for s in taken) == pytest.approx(KEPT / 2, abs=4 * (KEPT / 4) ** 0.5)
    assert len(pickle.dumps(taken)) < 40_000
    assert recent.take() == ()


def test_warm_up_is_not_told(attempt: MakeAttempt) -> None:
    recent, one = Recent(), attempt()
    recent.add(replace(one, case=replace(one.case, phase="warmup")))
    assert recent.take() == ()
    recent.add(one)
    assert len(recent.take()) == 1
