"""P-values of series of windows: known ranks, invariance, and steady series that are correlated."""

from __future__ import annotations

import numpy as np
import pytest

from loadgen.analyze.soak.evidence import (
    STEADY_SERIES,
    autoregressive,
    correlation,
    jump_statistics,
    p_values,
    ranks,
    trend_statistics,
)


def test_ranks_are_centred_and_ties_share_theirs() -> None:
    assert ranks(np.array([[3.0, 1.0, 2.0], [5.0, 5.0, 1.0]])).tolist() == [[1, -1, 0], [0.5, 0.5, -1]]


def test_the_autocorrelation_of_a_known_series() -> None:
    """Plain lag-1 of 1, 2, 3, 4 less their mean is 0.25; with two fitted numbers (0.25 + 2/4) / (1 - 4/4) is cut at
    0.95, and an alternating series at 0."""
    assert correlation(np.array([[-1.5, -0.5, 0.5, 1.5]] * 2), fitted=1) == pytest.approx(0.95)
    assert correlation(np.array([[1.0, -1.0] * 10])) == pytest.approx(0)
    long = np.zeros((1, 100))
    long[0, :2] = 1, 0.5
    assert correlation(long) == pytest.approx((0.5 / 1.25 + 0.02) / 0.96)


def test_the_trend_statistic_by_hand() -> None:
    """Ranks -1 0 1 -> 1 0 -1 0 … : slope of ranks on time over s / sqrt(Sxx), uncorrelated residuals cut at 0."""
    ranked = ranks(np.array([[1.0, 3.0, 2.0, 5.0, 4.0, 7.0, 6.0, 9.0, 8.0, 10.0]]))
    at = np.arange(10) - 4.5
    slope = float(ranked[0] @ at) / 82.5
    left = ranked[0] - slope * at
    found = trend_statistics(ranked)
    assert found[0] == pytest.approx(slope / np.sqrt(left @ left / 8 / 82.5))


def test_the_jump_statistic_by_hand() -> None:
    """Six lower windows, then six higher: the CUSUM is largest between them."""
    values = np.array([[1.0, 4, 2, 5, 3, 6, 8, 11, 7, 12, 9, 10]])
    ranked = ranks(values)
    left = ranked[0] - np.repeat([-3.0, 3.0], 6)
    found = jump_statistics(ranked)
    assert found[0] == pytest.approx(18 / np.sqrt(3) / np.sqrt(left @ left / 10))


def test_a_rise_and_a_jump_have_the_smallest_p_there_is() -> None:
    n = 120
    noise = np.random.default_rng(3).standard_normal(n)
    rise, jump = np.linspace(0, 20, n) + noise, 20.0 * (np.arange(n) >= 70) + noise
    p = p_values(np.stack([rise, jump, -rise]))
    assert p[0, 0] == p[1, 1] == p[2, 0] == pytest.approx(1 / (STEADY_SERIES + 1))


def test_any_increasing_transformation_of_the_values_is_the_same_evidence() -> None:
    series = autoregressive(20, 60, 0.5, np.random.default_rng(4))
    assert (p_values(np.exp(3 * series)) == p_values(series)).all()
    assert (p_values(-series) == p_values(series)).all()


@pytest.mark.parametrize("n", [40, 120])
@pytest.mark.parametrize("phi", [0.0, 0.5, 0.8])
def test_steady_series_reach_a_small_p_no_more_often_than_it_says(n: int, phi: float) -> None:
    p = p_values(autoregressive(4000, n, phi, np.random.default_rng([5, n])))
    for level in (0.05, 0.01):
        share = (p <= level).mean(axis=0)
        assert (share <= level + 3 * np.sqrt(level / 4000)).all()
