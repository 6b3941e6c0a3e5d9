"""Replay of accepted sequences at shorter draft lengths."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.analyze import RoundLists, replay
from loadgen.analyze.columns import Ragged


def ragged(lists: Sequence[Sequence[int]]) -> Ragged[np.int64]:
    counts = np.array([0, *(len(row) for row in lists)], np.int64)
    return Ragged(np.array([v for row in lists for v in row], np.int64), np.cumsum(counts))


def lists_of(
    accepted: Sequence[Sequence[int]], drafted: Sequence[Sequence[int]], emitted: Sequence[int] | None = None
) -> RoundLists:
    told = [sum(row) + len(row) for row in accepted] if emitted is None else list(emitted)
    return RoundLists(ragged(accepted), ragged(drafted), np.array(told, np.int64), np.arange(len(told)))


def one_at_a_time(places: Sequence[int], emitted: int, k: int) -> int:
    """Rounds of a plain loop over known places."""
    at = rounds = 0
    while at < emitted:
        taken = 0
        while taken < k and at + taken < len(places) and places[at + taken]:
            taken += 1
        at, rounds = at + taken + 1, rounds + 1
    return rounds


def test_by_hand() -> None:
    """k = 3, rounds of 3, 1 and 0 accepted: places A A A ? A R R. At k' = 1 the ? is asked about or not.

    k' = 1: AA A? A R R -> 5 rounds (the ? is a bonus place); k' = 2: AAA, then ? accepted: ?AR.., else ?, AR, R.
    """
    played = replay(lists_of([[3, 1, 0]], [[3, 3, 3]]), np.array([1, 2, 3]))
    assert played.tokens.tolist() == [7]
    # A A | A ? | A R | R; the ? is a place nobody asks about
    assert (played.most[0].tolist(), played.fewest[0].tolist()) == ([4], [4])
    # AAA | ? A R | R, or AAA | ? | A R | R
    assert (played.most[1].tolist(), played.fewest[1].tolist()) == ([4], [3])
    assert (played.most[2].tolist(), played.fewest[2].tolist()) == ([3], [3])


def test_output_ends_within_a_round() -> None:
    """Tokens verified beyond a stop are not emitted: the last round counts, its overshoot does not."""
    lists = lists_of([[2, 4]], [[4, 4]], emitted=[5])
    played = replay(lists, np.array([1, 4]))
    assert played.tokens.tolist() == [5]
    assert played.most[1].tolist() == [2]
    assert played.most[0].tolist() == [3]  # A A | R A | A


def test_rounds_without_a_draft_are_unknown_places() -> None:
    played = replay(lists_of([[1, 0, 1]], [[1, 0, 1]]), np.array([1]))
    assert (played.most[0].tolist(), played.fewest[0].tolist()) == ([3], [3])


def test_unusable_rows() -> None:
    """Lists that contradict each other or the output, and rows without rounds."""
    lists = lists_of([[1, 2], [1], [], [1, 1], [2]], [[2, 2], [2, 2], [], [2, 2], [2]], [5, 2, 1, 9, 0])
    assert lists.usable().tolist() == [True, False, False, False, False]
    with pytest.raises(ValueError, match="do not belong together"):
        replay(lists, np.array([1]))
    used = lists.taken(np.flatnonzero(lists.usable()))
    assert (used.rows, used.accepted.values.tolist()) == (1, [1, 2])
    with pytest.raises(ValueError, match="2 drafts a round cannot be replayed at 1 to 3"):
        replay(used, np.array([1, 3]))


rounds_at = st.integers(1, 5).flatmap(
    lambda k: st.tuples(
        st.just(k),
        st.lists(st.lists(st.integers(0, k), min_size=1, max_size=6), min_size=1, max_size=3),
    )
)


@settings(max_examples=80, deadline=None)
@given(rounds_at, st.data())
def test_bounds_hold_for_every_filling_of_the_unknown_places(
    asked: tuple[int, list[list[int]]], data: st.DataObject
) -> None:
    k, accepted = asked
    lists = lists_of(accepted[:1], [[k] * len(accepted[0])])
    places: list[list[int]] = []
    for a in accepted[0]:
        places += [[1]] * a + [[0] if a < k else [0, 1]]
    shorter = data.draw(st.integers(1, k))
    played = replay(lists, np.array([shorter])) if lists.largest >= shorter else None
    assert played is not None
    fillings = itertools.islice(itertools.product(*places), 512)
    rounds = [one_at_a_time(filling, len(places), shorter) for filling in fillings]
    assert played.fewest[0, 0] == min(rounds)
    assert played.most[0, 0] >= max(rounds)
    assert played.fewest[0, 0] <= played.middle[0, 0] <= played.most[0, 0]


@settings(max_examples=50, deadline=None)
@given(rounds_at)
def test_at_its_own_length_the_run_comes_back(asked: tuple[int, list[list[int]]]) -> None:
    k, accepted = asked
    lists = lists_of(accepted, [[k] * len(row) for row in accepted])
    played = replay(lists, np.array([k]))
    for rounds in (played.fewest, played.middle, played.most):
        assert rounds[0].tolist() == [len(row) for row in accepted]


def test_replay_does_not_depend_on_the_order_of_requests(k_sweeps: Any) -> None:
    lists = k_sweeps[0].joined(5)
    order = np.random.default_rng(1).permutation(lists.rows)
    one, other = replay(lists, np.array([2])), replay(lists.taken(order), np.array([2]))
    assert other.most[0].tolist() == one.most[0][order].tolist()
    assert other.fewest[0].tolist() == one.fewest[0][order].tolist()
