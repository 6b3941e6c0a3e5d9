"""The circuit breaker: when it opens, when it looks, and what it decides."""

from __future__ import annotations

import pytest

from loadgen.control import Breaker, Closed, Dead, Look, Trip


def test_failures_in_a_row_open_it_once() -> None:
    """J2"""
    trip = Trip(3)
    assert [trip.note("dead", at) for at in (10, 20, 30, 40)] == [False, False, True, False]
    assert (trip.count, trip.first_ns) == (4, 10)


def test_a_success_between_them_starts_anew_and_a_refusal_says_nothing() -> None:
    trip = Trip(3)
    for sign, at in (("dead", 1), ("dead", 2), ("alive", 3), ("dead", 4), ("none", 5), ("dead", 6)):
        assert not trip.note(sign, at)  # type: ignore[arg-type]
    assert (trip.count, trip.first_ns) == (2, 4)
    assert trip.note("dead", 7)


def test_a_server_that_is_alive_and_fails_all_is_looked_at_less_and_less() -> None:
    trip, opened = Trip(2), []
    for n in range(1, 15):
        if trip.note("dead", n):
            opened.append(n)
            trip.release(was_alive=True)
    assert opened == [2, 6, 14]
    trip.note("alive", 15)
    assert trip.limit == 2


def test_after_a_death_it_is_as_ready_as_before() -> None:
    trip = Trip(2)
    trip.note("dead", 1)
    trip.note("dead", 2)
    trip.release(was_alive=False)
    assert (trip.limit, trip.count, trip.first_ns, trip.open) == (2, 0, None, False)


def test_an_engine_that_is_alive_closes_it_at_once() -> None:
    breaker = Breaker(first_s=100.0, wait_s=30.0)
    assert breaker.begin() == Look(0.0, trial=False)
    assert breaker.seen(True, 100.5) == Closed(None)
    assert breaker.detected_s is None


def test_a_dead_one_is_looked_at_with_growing_waits_until_it_serves() -> None:
    breaker = Breaker(first_s=100.0, wait_s=60.0)
    assert breaker.seen(False, 100.5) == Look(0.25, trial=True)
    assert breaker.detected_s == pytest.approx(0.5)
    waits, at = [], 101.0
    for _ in range(7):
        step = breaker.seen(False, at)
        assert isinstance(step, Look)
        assert step.trial
        waits.append(step.wait_s)
        at += step.wait_s
    assert waits == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0]
    assert breaker.seen(True, 123.0) == Closed(23.0)


def test_it_gives_up_when_its_time_is_over_and_looks_once_at_the_end_of_it() -> None:
    breaker = Breaker(first_s=0.0, wait_s=1.0)
    breaker.seen(False, 2.0)  # detected after 2 s: waits until 3 s
    step = breaker.seen(False, 2.9)
    assert isinstance(step, Look)
    assert step.wait_s == pytest.approx(0.1)
    assert breaker.seen(False, 3.0) == Dead(3.0)


def test_no_time_to_wait_is_dead_at_once() -> None:
    assert Breaker(first_s=0.0, wait_s=0.0).seen(False, 0.25) == Dead(0.25)
