"""Means and shares over time blocks."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.analyze import mean_bootstrap, share_bootstrap, share_difference

BLOCK = np.repeat(np.arange(25), 40)


def test_mean_over_requests_close_to_the_t_interval_of_equal_blocks() -> None:
    """C18: the mean is per request, and says so in its unit."""
    values = np.random.default_rng(2).normal(10, 1, 1000) + np.random.default_rng(3).normal(0, 1, 25)[BLOCK]
    found = mean_bootstrap(values, BLOCK, seed=1, resamples=4999)
    of_blocks = values.reshape(25, 40).mean(axis=1)
    low, high = scipy.stats.t.interval(0.95, 24, of_blocks.mean(), scipy.stats.sem(of_blocks))
    assert found.value == pytest.approx(values.mean())
    assert (found.n, found.unit) == (1000, "requests")
    assert found.low is not None
    assert found.high is not None
    # never narrower than for independent blocks but for the noise of resampling, at most a third wider here
    assert 0.95 < (found.high - found.low) / (high - low) < 1.35


@given(seed=st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_mean_follows_scale_and_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 1000, 1000).astype(np.float64)
    found = mean_bootstrap(values, BLOCK, seed=4, resamples=199)
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.value <= found.high
    scaled = mean_bootstrap(values * 4, BLOCK, seed=4, resamples=199)
    assert scaled == replace(found, value=found.value * 4, low=found.low * 4, high=found.high * 4)
    order = rng.permutation(1000)
    assert mean_bootstrap(values[order], BLOCK[order], seed=4, resamples=199) == found


def test_no_mean_of_failures_nothing_or_too_few_blocks() -> None:
    """F10: a mean that leaves failures out is not given. F12: None with a reason."""
    failed = mean_bootstrap(np.where(BLOCK == 3, np.inf, 1.0), BLOCK, seed=1)
    assert failed.value is None
    assert failed.reason is not None
    assert "failures" in failed.reason
    for found in (
        mean_bootstrap(np.array([]), np.array([]), seed=1),
        share_bootstrap(np.array([]), np.array([]), seed=1),
    ):
        assert (found.value, found.reason) == (None, "no requests")
    for found in (mean_bootstrap(np.ones(5), np.arange(5), seed=1), share_bootstrap(np.ones(5), np.arange(5), seed=1)):
        assert (found.value, found.low, found.n, found.unit, found.needs_n) == (1.0, None, 5, "blocks", 20)


def test_a_steady_mean_has_no_width() -> None:
    found = mean_bootstrap(np.full(1000, 0.1), BLOCK, seed=1)
    assert (found.low, found.high) == pytest.approx((0.1, 0.1))


def test_share_without_an_event_has_the_rule_of_three() -> None:
    found = share_bootstrap(np.zeros(1000), BLOCK, seed=1)
    assert (found.value, found.low) == (0.0, 0.0)
    assert found.high == pytest.approx(1 - 0.025 ** (1 / 1000))
    assert found.reason == "all requests agree: they count as independent"


def test_a_burst_of_errors_is_less_certain_than_scattered_ones() -> None:
    scattered = (np.arange(1000) % 40 == 0).astype(np.float64)
    burst = (BLOCK == 7).astype(np.float64) * (np.arange(1000) % 40 < 25)
    assert scattered.sum() == burst.sum() == 25
    one, other = share_bootstrap(scattered, BLOCK, seed=1), share_bootstrap(burst, BLOCK, seed=1)
    assert one.value == other.value == 0.025
    assert None not in (one.low, one.high, other.low, other.high)
    assert other.high > 2 * one.high  # type: ignore[operator]
    assert 0 < other.low < one.low < 0.025 < one.high  # type: ignore[operator]


def test_a_hit_is_0_or_1() -> None:
    with pytest.raises(ValueError, match="0 or 1"):
        share_bootstrap(np.full(1000, 0.5), BLOCK, seed=1)


def test_a_difference_of_shares_without_an_event_has_the_width_of_both_rules_of_three() -> None:
    """No failure in either arm is not "no difference at all"."""
    found = share_difference((np.zeros(1000), BLOCK), (np.zeros(500), BLOCK[::2]), seed=1)
    assert found.value == 0
    assert found.low == pytest.approx(-(1 - 0.025 ** (1 / 500)))
    assert found.high == pytest.approx(1 - 0.025 ** (1 / 1000))
    assert (found.n, found.unit, found.reason) == (1500, "requests", "all requests agree: they count as independent")


def test_a_difference_of_shares_is_of_all_requests_and_not_of_block_means() -> None:
    """3 of 75 are 4 %, whatever the sizes of the blocks."""
    block = np.concatenate([np.zeros(51), np.arange(1, 25)]).astype(np.int64)
    hit = np.zeros(75)
    hit[[0, 60, 70]] = 1
    found = share_difference((hit, block), (np.zeros(75), block), seed=1)
    mine, theirs = share_bootstrap(hit, block, seed=1), share_bootstrap(np.zeros(75), block, seed=1)
    assert found.value == pytest.approx(0.04)
    assert mine.low is not None
    assert theirs.high is not None
    assert found.low == pytest.approx(0.04 - np.hypot(0.04 - mine.low, theirs.high))
    few = share_difference((hit[:5], np.arange(5)), (hit[:5], np.arange(5)), seed=1)
    assert (few.low, few.high, few.n, few.unit, few.needs_n) == (None, None, 5, "blocks", 20)


@pytest.mark.parametrize(("mean", "concentration"), [(0.005, 100), (0.02, 50), (0.2, 20)])
def test_a_difference_of_clustered_shares_is_covered(mean: float, concentration: float) -> None:
    """Shares that vary from block to block, as in docs/statistics.md; the candidate's is twice the baseline's."""
    rng, held, runs = np.random.default_rng(11), 0, 200
    for run in range(runs):
        arms = []
        for share in (2 * mean, mean):
            level = rng.beta(share * concentration, (1 - share) * concentration, 25)
            arms.append(((rng.random(1000) < level[BLOCK]).astype(np.float64), BLOCK))
        found = share_difference(arms[0], arms[1], seed=run, resamples=199)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= mean <= found.high
    assert held >= 0.94 * runs
