"""What is tried again: every order is as likely, and one of them in so many confirms by chance."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.control import RETRIAL_LEVEL, SENDS, Trial, chance_of, controls_for


def played(trial: Trial, shows: list[bool]) -> Trial:
    """`shows`: what each try shows, whatever was sent."""
    while trial.next is not None:
        trial.note(shows[trial.done])
    return trial


@given(st.integers(1, 500))
def test_all_that_is_tried_again_keeps_its_level(suspects: int) -> None:
    controls = controls_for(suspects)
    assert suspects * chance_of(controls) <= RETRIAL_LEVEL
    assert controls == SENDS or suspects * chance_of(controls - 1) > RETRIAL_LEVEL


def test_the_numbers_of_the_docs() -> None:
    assert [controls_for(n) for n in (1, 10, 100)] == [9, 16, 27]
    assert chance_of(9) == 1 / comb(14, 5) == 1 / 2002


def test_what_an_anomaly_has_no_effect_on_is_confirmed_as_seldom_as_chance_says() -> None:
    """Of all the orders of a trial exactly one is confirmed by a given course of the server, if it fails five times."""
    course = [True] * SENDS + [False] * 3
    orders = [tuple(i in sent for i in range(8)) for sent in combinations(range(8), SENDS)]
    assert sum(played(Trial(order), course).confirmed for order in orders) == 1
    assert not any(played(Trial(order), [True] * 8).confirmed for order in orders)
    assert not any(played(Trial(order), [False] * 8).confirmed for order in orders)


@pytest.mark.parametrize("failing", [0.05, 0.5, 0.9])
def test_healthy_servers_that_fail_often_are_not_confirmed(failing: float) -> None:
    """1 in 252 at most, with five tries without; failures come in bursts."""
    chance, confirmed, tries = np.random.default_rng(3), 0, 0
    for run in range(4000):
        state, shows = chance.random() < failing, []
        for _ in range(10):
            state = state if chance.random() < 0.7 else bool(chance.random() < failing)
            shows.append(bool(state))
        trial = played(Trial.drawn(5, round(100 * failing), run), shows)
        confirmed += trial.confirmed
        tries += trial.done
    assert confirmed <= 4000 / 252 + 3 * np.sqrt(4000 / 252)
    assert tries < 4000 * 4, "the first that speaks against it ends a trial"


def test_what_shows_each_time_is_confirmed_and_one_miss_ends_it() -> None:
    trial = Trial.drawn(9, 1)
    while (sent := trial.next) is not None:
        trial.note(sent)
    assert (trial.confirmed, trial.done) == (True, 14)
    assert Counter(trial.order) == {True: 5, False: 9}
    missed = Trial((True, False, True))
    missed.note(True)
    missed.note(True)
    assert (missed.next, missed.confirmed, missed.done) == (None, False, 2)


def test_orders_are_drawn_from_the_seed_and_evenly() -> None:
    assert Trial.drawn(9, 1, 2) == Trial.drawn(9, 1, 2) != Trial.drawn(9, 1, 3)
    first = [Trial.drawn(5, i).order for i in range(2000)]
    for place in range(10):
        assert abs(np.mean([order[place] for order in first]) - 0.5) < 0.05
