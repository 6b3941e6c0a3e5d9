"""Ratios of paired blocks and of sums over cases."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.analyze import log_ratio_t, ratio_of_sums_clustered
from loadgen.analyze.statistics.ratios import effective_trials, share_interval
from loadgen.analyze.statistics.serial import inflation, inflation_if_shown, lag1

SPEEDS = st.lists(st.floats(0.1, 1e4), min_size=3, max_size=12)


@given(candidate=SPEEDS, seed=st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_interval_is_the_t_interval_of_the_logarithms(candidate: list[float], seed: int) -> None:
    c = np.array(candidate)
    b = np.random.default_rng(seed).uniform(1, 100, len(c))
    logs = np.log(c) - np.log(b)
    found = log_ratio_t(c, b)
    assert found.value == pytest.approx(math.exp(logs.mean()))
    # correlated blocks: as many fewer, and wider
    inflated = inflation_if_shown(logs)
    low, high = scipy.stats.t.interval(
        0.95, max((len(c) - 1) / inflated, 1.0), logs.mean(), logs.std(ddof=1) * math.sqrt(inflated / len(c)) + 1e-300
    )
    assert (found.low, found.high) == pytest.approx((math.exp(low), math.exp(high)), rel=1e-7)
    assert (found.n, found.unit) == (len(c), "blocks")


def test_exact_numbers() -> None:
    found = log_ratio_t(np.array([1.1, 1.2, 1.3]), np.ones(3))
    low, high = scipy.stats.t.interval(
        0.95, 2, np.log([1.1, 1.2, 1.3]).mean(), scipy.stats.sem(np.log([1.1, 1.2, 1.3]))
    )
    assert found.value == pytest.approx((1.1 * 1.2 * 1.3) ** (1 / 3))
    assert (found.low, found.high) == pytest.approx((math.exp(low), math.exp(high)))
    assert "3 paired" in found.method


@given(candidate=SPEEDS, factor=st.floats(0.1, 10))
@settings(max_examples=40, deadline=None)
def test_swapped_arms_give_reciprocals_and_scale_follows(candidate: list[float], factor: float) -> None:
    c, b = np.array(candidate), np.ones(len(candidate))
    found, swapped, scaled = log_ratio_t(c, b), log_ratio_t(b, c), log_ratio_t(c * factor, b)
    assert (swapped.low, swapped.value, swapped.high) == pytest.approx(
        tuple(1 / x for x in (found.high, found.value, found.low) if x is not None)
    )
    assert scaled.value == pytest.approx((found.value or 0) * factor)


def test_too_few_and_impossible_blocks() -> None:
    """F12: what cannot be computed is None with a reason."""
    two = log_ratio_t(np.array([2.0, 2.0]), np.array([1.0, 1.0]))
    assert (two.value, two.low, two.high, two.needs_n) == (2.0, None, None, 3)
    assert log_ratio_t(np.array([]), np.array([])).value is None
    idle = log_ratio_t(np.array([1.0, 0.0, 1.0]), np.ones(3))
    assert (idle.value, idle.reason) == (None, "1 of 3 blocks have no positive number in both arms")
    with pytest.raises(ValueError, match="one number per block"):
        log_ratio_t(np.ones(3), np.ones(4))


def test_lag1_of_a_trend_is_high_and_of_alternation_negative() -> None:
    trend, alternating = np.arange(20.0), np.tile([1.0, -1.0], 10)
    assert lag1(trend) > 0.8
    assert lag1(alternating) < 0
    assert inflation(trend) == 1 + 6 * 0.8
    assert inflation(alternating) == 1.0
    assert lag1(np.full(20, 0.1)) == 0.0
    mild = alternating + np.repeat(np.arange(5.0), 4) * 0.8
    assert 0 < lag1(mild) < 1.645 / math.sqrt(20)
    assert inflation(mild) > inflation_if_shown(mild) == 1.0


def test_drifting_log_ratios_are_widened_and_said() -> None:
    drift = np.exp(np.linspace(0, 0.2, 20))
    found = log_ratio_t(drift, np.ones(20))
    assert found.method.endswith("they are correlated from block to block")


def test_cases_are_the_observations_not_requests() -> None:
    """Asking every case five times with the same answer adds nothing."""
    rng = np.random.default_rng(1)
    drafted = np.full(30, 100.0)
    accepted = rng.integers(20, 100, 30).astype(np.float64)
    once = ratio_of_sums_clustered(accepted, drafted, np.arange(30))
    repeated = ratio_of_sums_clustered(np.tile(accepted, 5), np.tile(drafted, 5), np.tile(np.arange(30), 5))
    assert repeated.value == once.value == accepted.sum() / 3000
    assert repeated.n == once.n == 30
    assert (repeated.low, repeated.high) == pytest.approx((once.low, once.high))
    as_if_apart = ratio_of_sums_clustered(np.tile(accepted, 5), np.tile(drafted, 5), np.arange(150))
    assert None not in (as_if_apart.low, as_if_apart.high, once.low, once.high)
    assert as_if_apart.high - as_if_apart.low < 0.6 * (once.high - once.low)  # type: ignore[operator]


@given(seed=st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_share_stays_between_0_and_1_and_order_does_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    case = rng.integers(0, 40, 200)
    drafted = rng.integers(0, 50, 200).astype(np.float64)
    accepted = np.floor(drafted * rng.random(200))
    found = ratio_of_sums_clustered(accepted, drafted, case)
    assert found.low is not None
    assert found.value is not None
    assert found.high is not None
    assert 0 <= found.low < found.value < found.high <= 1
    order = rng.permutation(200)
    again = ratio_of_sums_clustered(accepted[order], drafted[order], case[order])
    assert (again.value, again.low, again.high) == pytest.approx((found.value, found.low, found.high))


def test_a_ratio_above_1_gets_a_log_interval() -> None:
    tokens, steps = np.tile([30.0, 20.0], 15), np.full(30, 10.0)
    found = ratio_of_sums_clustered(tokens, steps, np.arange(30))
    assert found.value == 2.5
    assert found.low is not None
    assert found.high is not None
    assert found.low * found.high == pytest.approx(2.5**2)
    # equal denominators: the jackknife is the variance of a mean
    half = scipy.stats.t.ppf(0.975, 29) * scipy.stats.sem(tokens / 10) / 2.5
    assert found.high == pytest.approx(2.5 * math.exp(half))
    below = ratio_of_sums_clustered(-tokens, steps, np.arange(30))
    assert (below.value, below.low, below.reason) == (-2.5, None, "a ratio of 0 or below has no logarithm")


def test_nothing_drafted_too_few_cases_and_perfect_agreement() -> None:
    nothing = ratio_of_sums_clustered(np.zeros(30), np.zeros(30), np.arange(30))
    assert (nothing.value, nothing.reason) == (None, "the denominator is 0")
    few = ratio_of_sums_clustered(np.ones(5), np.full(5, 2.0), np.arange(5))
    assert (few.value, few.low, few.needs_n) == (0.5, None, 20)
    perfect = ratio_of_sums_clustered(np.full(40, 9.0), np.full(40, 9.0), np.arange(40))
    assert (perfect.value, perfect.high) == (1.0, 1.0)
    assert perfect.low == pytest.approx(scipy.stats.binomtest(40, 40).proportion_ci(method="exact").low)
    assert perfect.reason == "every one of 40 cases agrees: each counts as one trial"
    with pytest.raises(ValueError, match="rows do not match"):
        ratio_of_sums_clustered(np.ones(3), np.ones(3), np.arange(2))
    with pytest.raises(ValueError, match="finite"):
        ratio_of_sums_clustered(np.array([np.nan]), np.ones(1), np.arange(1))


@given(n=st.integers(1, 500), data=st.data())
@settings(max_examples=50, deadline=None)
def test_share_interval_of_independent_trials_is_clopper_pearson(n: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, n))
    z = scipy.stats.norm.ppf(0.975)
    exact = scipy.stats.binomtest(hits, n).proportion_ci(0.95, method="exact")
    assert share_interval(hits / n, n, z, 0.95) == pytest.approx((exact.low, exact.high), rel=1e-7, abs=1e-12)


def test_effective_trials() -> None:
    assert effective_trials(0.5, 0.0025, most=1000, when_unseen=7) == pytest.approx(100)
    assert effective_trials(0.5, 1e-9, most=1000, when_unseen=7) == 1000
    assert effective_trials(1.0, 0.0, most=1000, when_unseen=7) == 7
