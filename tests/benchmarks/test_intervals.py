"""The intervals of the benchmarks, on samples whose answer is known."""

import numpy as np
import pytest
from intervals import abba, growth, mean_interval, quantile_interval, ratio_interval, shift_interval
from scrape_lag import block_differences


def test_a_quantile_is_a_sample_and_its_interval_holds_it() -> None:
    low, value, high = quantile_interval(np.arange(1.0, 1001.0), 0.99)
    assert value == 990.0
    assert (low, high) == (983.0, 997.0)  # binomial(1000, 0.99): 2.5 % at 983, 97.5 % at 996, and one more
    assert quantile_interval(np.array([3.0]), 0.99) == (3.0, 3.0, 3.0)
    with pytest.raises(ValueError, match="no sample"):
        quantile_interval(np.array([]), 0.5)


def test_the_interval_of_a_median_covers_it_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    found = [quantile_interval(rng.exponential(1.0, 101), 0.5) for _ in range(400)]
    covered = np.mean([low <= np.log(2) <= high for low, _, high in found])
    assert 0.93 <= covered <= 0.995


def test_a_ratio_of_equal_runs_is_exact() -> None:
    assert ratio_interval([12.0, 12.0], [8.0, 8.0]) == (1.5, 1.5, 1.5)
    low, ratio, high = ratio_interval([10.0, 14.0], [8.0, 8.0])
    assert (low, ratio, high) == (1.25, 1.5, 1.75)
    with pytest.raises(ValueError, match="no run"):
        ratio_interval([], [1.0])


def test_the_interval_of_a_mean_is_students() -> None:
    assert mean_interval([1.0, 3.0]) == pytest.approx((2 - 12.7062, 2, 2 + 12.7062), abs=1e-4)
    assert mean_interval([2.0, 2.0, 2.0]) == (2.0, 2.0, 2.0)
    with pytest.raises(ValueError, match="two values"):
        mean_interval([1.0])


def test_a_drift_along_a_line_is_no_difference_of_blocks() -> None:
    """Runs at 1, 2, 3, … in the order A B B A: both kinds have the same mean in every block."""
    order = abba("a", "b", 4)
    of = {kind: [float(i) for i, k in enumerate(order) if k == kind] for kind in "ab"}
    assert block_differences(of["a"], of["b"]) == [0.0, 0.0]
    assert block_differences([1.0, 1.0], [1.5, 2.5]) == [1.0]
    with pytest.raises(ValueError, match="no ABBA blocks"):
        block_differences([1.0], [1.0])


def test_a_shift_is_found_and_chance_is_not() -> None:
    rng = np.random.default_rng(2)
    first, second = rng.normal(10, 1, 2000), rng.normal(10, 1, 2000)
    low, _, high = shift_interval(first, second)
    assert low < 0 < high
    low, shift, high = shift_interval(first, second + 1)
    assert 0.8 < low < shift < high < 1.2


def test_growth_is_of_quarters_of_the_time() -> None:
    """Dense samples early do not count for more time."""
    at = [*np.linspace(0, 1, 50), 2, 3, 4, 5, 6, 7, 8, 9, 10]
    levels = [*[1.0] * 50, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert growth(at, levels) == (3.5, 9.0, 10.0)
    assert growth(at, [99.0, *levels[1:]])[2] == 10.0  # warm-up is left out
    with pytest.raises(ValueError, match="fewer than 8"):
        growth([0, 1], [1, 1])


def test_the_order_lets_a_drift_fall_on_both() -> None:
    assert abba("a", "b", 2) == ["a", "b", "b", "a"]
    assert abba("a", "b", 3) == ["a", "b", "b", "a"] * 2
    assert abba("a", "b", 1) == ["a", "b", "b", "a"]
