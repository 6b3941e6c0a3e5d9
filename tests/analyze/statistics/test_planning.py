"""Sample sizes, power, repeats and multiple comparisons."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.analyze import (
    blocks_for_precision,
    bonferroni,
    coefficient_of_variation,
    holm,
    log_ratio_t,
    min_requests_for_quantile,
    power_of_ratio,
)


def test_binomial_minima() -> None:
    assert (min_requests_for_quantile(0.95), min_requests_for_quantile(0.99)) == (90, 459)
    assert min_requests_for_quantile(0.5) == 7
    for q in (0.5, 0.9, 0.95, 0.99, 0.999):
        n = min_requests_for_quantile(q)
        assert q**n <= 0.01 < q ** (n - 1)
    with pytest.raises(ValueError, match="between 0 and 1"):
        min_requests_for_quantile(95)


@pytest.mark.parametrize(
    ("spread", "blocks", "effect", "tests"), [(0.05, 20, 0.05, 1), (0.1, 20, 0.1, 4), (0.1, 5, 0.2, 1)]
)
def test_power_is_that_of_the_t_test(spread: float, blocks: int, effect: float, tests: int) -> None:
    critical = scipy.stats.t.ppf(1 - 0.025 / tests, blocks - 1)
    expected = scipy.stats.nct.sf(critical, blocks - 1, math.log1p(effect) * math.sqrt(blocks) / spread)
    assert power_of_ratio(spread, blocks, effect, tests=tests) == pytest.approx(expected, abs=1e-9)


def test_power_is_what_happens() -> None:
    rng = np.random.default_rng(5)
    shown = 0
    for _ in range(400):
        low = log_ratio_t(np.exp(rng.normal(math.log(1.05), 0.08, 20)), np.ones(20)).low
        shown += low is not None and low > 1
    assert shown / 400 == pytest.approx(power_of_ratio(0.08, 20, 0.05), abs=0.06)


@given(spread=st.floats(0.01, 0.5), effect=st.floats(0.01, 0.5))
@settings(max_examples=30, deadline=None)
def test_power_rises_with_blocks_and_effect(spread: float, effect: float) -> None:
    power = power_of_ratio(spread, 20, effect)
    assert 0.025 <= power <= 1 + 1e-9
    assert power_of_ratio(spread, 30, effect) >= power - 1e-9
    assert power_of_ratio(spread, 20, effect * 1.2) >= power - 1e-9
    assert power_of_ratio(spread, 20, effect, tests=4) <= power + 1e-9


def test_power_without_spread_or_effect() -> None:
    assert (power_of_ratio(0.0, 20, 0.05), power_of_ratio(0.0, 20, 0.0)) == (1.0, 0.0)
    assert power_of_ratio(0.1, 20, 0.0) == pytest.approx(0.025)
    with pytest.raises(ValueError, match="two blocks"):
        power_of_ratio(0.1, 1, 0.05)


@given(spread=st.floats(0.0, 0.3), half_width=st.floats(0.01, 0.3))
@settings(max_examples=40, deadline=None)
def test_blocks_for_precision_is_the_smallest_that_does(spread: float, half_width: float) -> None:
    n = blocks_for_precision(spread, half_width)

    def reach(blocks: int) -> float:
        return math.exp(scipy.stats.t.ppf(0.975, blocks - 1) * spread / math.sqrt(blocks)) - 1

    assert reach(n) <= half_width * (1 + 1e-9)
    assert n == 3 or reach(n - 1) > half_width * (1 - 1e-9)


def test_precision_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        blocks_for_precision(0.1, 0.0)


def test_coefficient_of_variation() -> None:
    found = coefficient_of_variation(np.array([10.0, 10.2, 9.9, 10.1, 9.8]))
    k = math.sqrt(0.025) / 10
    assert (found.value, found.n, found.unit) == (pytest.approx(k), 5, "repeats")
    limits = [k / math.sqrt(((u + 2) / 5 - 1) * k * k + u / 4) for u in scipy.stats.chi2.ppf([0.975, 0.025], 4)]
    assert (found.low, found.high) == pytest.approx(tuple(limits))


def test_coefficient_of_variation_covers() -> None:
    covered = 0
    for seed in range(400):
        found = coefficient_of_variation(np.random.default_rng(seed).normal(10, 1, 5))
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 0.1 <= found.high
    assert 0.92 <= covered / 400 <= 0.975


def test_coefficient_of_variation_of_too_little() -> None:
    """F12: one sample has no standard deviation."""
    one = coefficient_of_variation(np.array([10.0]))
    assert (one.value, one.needs_n) == (None, 2)
    assert coefficient_of_variation(np.array([-1.0, 1.0])).reason == "the mean is not above 0"
    wild = coefficient_of_variation(np.array([1.0, 1.0, 1.0, 1.0, 100.0]))
    assert wild.infinite == ("high",)
    assert wild.published().high is None
    with pytest.raises(ValueError, match="finite"):
        coefficient_of_variation(np.array([np.nan, 1.0]))


def test_bonferroni_and_holm() -> None:
    assert bonferroni(0.95, 4) == pytest.approx(0.9875)
    assert holm(np.array([0.01, 0.04, 0.03, 0.005])).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([0.9, 0.8])).tolist() == [1.0, 1.0]
    assert holm(np.array([])).tolist() == []
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm(np.array([1.5]))
    with pytest.raises(ValueError, match="m >= 1"):
        bonferroni(0.95, 0)


@given(p=st.lists(st.floats(0, 1), min_size=1, max_size=10))
@settings(max_examples=50, deadline=None)
def test_holm_lies_between_p_and_bonferroni_and_keeps_the_order(p: list[float]) -> None:
    given_p = np.array(p)
    adjusted = holm(given_p)
    assert np.all(adjusted >= given_p)
    assert np.all(adjusted <= np.minimum(given_p * len(p), 1) + 1e-15)
    order = np.argsort(given_p, kind="stable")
    assert np.all(np.diff(adjusted[order]) >= 0)
