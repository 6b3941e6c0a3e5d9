"""Percentiles of any group from samples sorted once: the same as sorting the group's own."""

import numpy as np
import pytest

from loadgen.analyze.percentiles import PERCENT, Ordered, nearest_rank, rank
from loadgen.analyze.samples import samples_of

ROWS = 400


def made(n: int, ties: bool):
    """(values, weights, row, minute) of n samples over 400 rows, some of them empty; row ascending."""
    draw = np.random.default_rng(7)
    row = np.sort(draw.integers(0, ROWS - 3, n))
    values = draw.integers(0, 50, n).astype(np.float64) if ties else draw.gamma(2.0, 0.02, n)
    return values, draw.integers(1, 6, n), row, draw.integers(0, 5, n)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("n", [10, 5000, 50_000])
@pytest.mark.parametrize("every", [1, 2, 7, 131])
def test_a_group_reads_what_sorting_it_would_give(n: int, every: int, ties: bool) -> None:
    """F2: exact over many buckets, with ties, weighted and not."""
    values, weights, row, minute = made(n, ties)
    rows = np.arange(0, ROWS, every)
    mine = np.isin(row, rows)
    order = np.argsort(values[mine])
    for used in (None, weights):
        found = samples_of(values, used, row, minute, ROWS).of(rows)
        expected = Ordered(values[mine][order], None if used is None else used[mine][order])
        assert found.n == expected.n
        if found.n:
            assert found.mean == pytest.approx(expected.mean, rel=1e-12)
            for of_rank in (1, found.n, *(rank(found.n, p) for p in PERCENT.values())):
                assert found.sample(of_rank) == expected.sample(of_rank)


@pytest.mark.parametrize("n", [10, 50_000])
def test_medians_of_minutes(n: int) -> None:
    values, _, row, minute = made(n, ties=False)
    rows = np.arange(0, ROWS, 2)
    mine = np.isin(row, rows)
    groups = [values[mine & (minute == m)] for m in range(5)]
    expected = [nearest_rank(np.sort(group), 50) for group in groups if len(group) >= 2]
    found = samples_of(values, None, row, minute, ROWS).of(rows).minute_medians(2)
    assert found.tolist() == expected


def test_rows_without_a_sample() -> None:
    values, weights, row, minute = made(100, ties=False)
    found = samples_of(values, weights, row, minute, ROWS).of(np.array([ROWS - 1]))
    assert (found.n, found.mean, len(found.minute_medians(1))) == (0, 0.0, 0)
