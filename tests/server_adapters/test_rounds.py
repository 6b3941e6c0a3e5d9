"""Rollback bounds against every history there is, for small counts."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations_with_replacement, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server_adapters.rounds import Rollbacks, from_histogram, from_positions, from_steps

Round = tuple[int, int]  # accepted, drafted


def histories(k: int, rounds: int, shortest: int) -> Iterator[tuple[Round, ...]]:
    """Every multiset of rounds: order does not enter the counts."""
    kinds = [(a, d) for d in range(shortest, k + 1) for a in range(d + 1)]
    return combinations_with_replacement(kinds, rounds)


def accepted_at(history: tuple[Round, ...], k: int) -> tuple[int, ...]:
    return tuple(sum(a > j for a, _ in history) for j in range(k))


@pytest.mark.parametrize("zero_length", [False, True])
@pytest.mark.parametrize(("k", "rounds"), [(1, 0), (1, 5), (2, 4), (2, 6), (3, 4), (4, 3), (5, 2)])
def test_bounds_hold_and_are_attained(k: int, rounds: int, zero_length: bool) -> None:
    truths: dict[tuple[int, tuple[int, ...]], set[int]] = defaultdict(set)
    for history in histories(k, rounds, 0 if zero_length else 1):
        key = sum(d for _, d in history), accepted_at(history, k)
        truths[key].add(sum(a < d for a, d in history))
    for (drafted, positions), truth in truths.items():
        bounds = from_positions(rounds, drafted, positions, zero_length_rounds=zero_length)
        assert (bounds.low, bounds.high) == (min(truth), max(truth))
        assert bounds.determined == (len(truth) == 1)


@pytest.mark.parametrize("zero_length", [False, True])
@pytest.mark.parametrize(("k", "rounds"), [(1, 3), (2, 4), (3, 3), (4, 2)])
def test_exactly_the_counts_of_no_history_raise(k: int, rounds: int, zero_length: bool) -> None:
    possible = {(sum(d for _, d in h), accepted_at(h, k)) for h in histories(k, rounds, 0 if zero_length else 1)}
    for drafted in range(k * rounds + 2):
        for positions in product(range(rounds + 2), repeat=k):
            try:
                from_positions(rounds, drafted, positions, zero_length_rounds=zero_length)
                accepted = True
            except ValueError:
                accepted = False
            assert accepted == ((drafted, positions) in possible)


@pytest.mark.parametrize(
    ("rounds", "drafted", "positions"),
    [(2, 9, (1, 1, 1, 1)), (2, 3, (2, 2)), (2, 4, (1, 2)), (2, 4, (3, 1)), (0, 1, (0,)), (1, 0, (1,))],
)
def test_impossible_counts_raise(rounds: int, drafted: int, positions: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="impossible"):
        from_positions(rounds, drafted, positions)


def test_real_windows() -> None:
    """D14: drafted is not k x rounds; ngram requests of a real vLLM 0.32, truth 2 and 4."""
    first = from_positions(14, 41, (14, 11, 7, 6))
    assert (first.low, first.high) == (1, 3)
    second = from_positions(13, 44, (11, 10, 7, 6))
    assert (second.low, second.high) == (3, 7)


@pytest.mark.parametrize(
    ("histogram", "drafted", "rollbacks"), [((2, 3, 2, 2, 4, 0, 1, 19), 231, 14), ((39, 1, 0, 3), 129, 40)]
)
def test_full_drafts_make_it_exact(histogram: tuple[int, ...], drafted: int, rollbacks: int) -> None:
    """D6: real per-request histograms, (33 - 19)/33 and 40/43."""
    assert from_histogram(histogram, drafted) == Rollbacks(rollbacks, rollbacks)


def test_no_rounds() -> None:
    """D8."""
    assert from_histogram((0, 0, 0, 0, 0), 0) == Rollbacks(0, 0)
    assert from_steps((), ()) == Rollbacks(0, 0)


def test_steps_of_unequal_number_raise() -> None:
    with pytest.raises(ValueError, match="2 accepted entries for 1 rounds"):
        from_steps((1, 2), (4,))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)).map(lambda p: (min(p), max(p))), max_size=30))
def test_per_step_truth_is_inside_the_bounds(history: list[Round]) -> None:
    truth = from_steps([a for a, _ in history], [d for _, d in history])
    histogram = [sum(a == j for a, _ in history) for j in range(5)]
    bounds = from_histogram(histogram, sum(d for _, d in history), zero_length_rounds=True)
    assert truth.determined
    assert bounds.low <= truth.low <= bounds.high
