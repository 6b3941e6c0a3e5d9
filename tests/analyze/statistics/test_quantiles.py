"""Quantiles and their ratios: values, intervals, and what is said where there is too little."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.analyze import quantile_bootstrap, quantile_ratio_bootstrap
from loadgen.analyze.percentiles import nearest_rank
from loadgen.analyze.statistics.resample import SortedSample, draw_weights, stretch, stretched
from loadgen.analyze.statistics.types import Floats, Ints

SEEDS = st.integers(0, 2**32)
QUANTILES = st.sampled_from([0.05, 0.5, 0.9, 0.95])


def run_of(seed: int, blocks: int = 24, requests: int = 30) -> tuple[Floats, Ints]:
    rng = np.random.default_rng(seed)
    level = rng.normal(scale=0.1, size=(blocks, 1))
    return np.exp(level + rng.normal(scale=0.3, size=(blocks, requests))).ravel(), np.repeat(
        np.arange(blocks), requests
    )


def test_value_is_the_pooled_nearest_rank_not_a_mean_of_blocks() -> None:
    """F1: quantiles of blocks are not averaged. F2: the value is one of the samples."""
    values, block = np.arange(1.0, 1001.0), np.arange(1000) // 50
    for q, percent in ((0.5, 50), (0.95, 95), (0.99, 99)):
        found = quantile_bootstrap(values, block, q, seed=1)
        assert found.value == nearest_rank(values, percent) == 10 * percent
        assert (found.n, found.unit) == (1000, "requests")


def test_p99_9_has_an_exact_rank() -> None:
    assert SortedSample.of(np.arange(1.0, 10_001.0), np.zeros(10_000)).quantile(Fraction("0.999")) == 9990.0


def test_one_sample_has_a_median_and_no_tail() -> None:
    """F2: of one sample of 575 ms no P99 is told, let alone one above the maximum."""
    one, block = np.array([0.575]), np.array([0])
    assert quantile_bootstrap(one, block, 0.5, seed=1).value == 0.575
    tail = quantile_bootstrap(one, block, 0.99, seed=1)
    assert (tail.value, tail.low, tail.high, tail.needs_n) == (None, None, None, 100)
    assert tail.reason == "not enough data: needs at least 100 requests, there are 1"


def test_no_requests_is_no_value() -> None:
    """F12: an empty sample is None with a reason."""
    found = quantile_bootstrap(np.array([]), np.array([]), 0.5, seed=1)
    assert (found.value, found.low, found.high, found.n) == (None, None, None, 0)
    assert found.reason is not None


@pytest.mark.parametrize(
    ("blocks", "requests", "n", "unit", "needs_n"),
    [(19, 100, 19, "blocks", 20), (20, 22, 440, "requests", 459), (22, 20, 440, "requests", 459)],
)
def test_p99_below_its_minimum_has_a_value_and_no_interval(
    blocks: int, requests: int, n: int, unit: str, needs_n: int
) -> None:
    values, block = run_of(1, blocks, requests)
    found = quantile_bootstrap(values, block, 0.99, seed=1)
    assert found.value is not None
    assert (found.low, found.high, found.n, found.unit, found.needs_n) == (None, None, n, unit, needs_n)
    assert found.reason is not None
    assert found.reason.startswith("not enough data")
    ratio = quantile_ratio_bootstrap(values, block, values, block, 0.99, seed=1)
    assert (ratio.value, ratio.low, ratio.n, ratio.unit, ratio.needs_n) == (1.0, None, n, unit, needs_n)


def test_a_tail_that_is_too_thin_has_no_upper_limit() -> None:
    """Latency rises all through the run: 460 requests are then worth too few for an upper limit of P99."""
    values, block = run_of(3, 20, 23)
    values = values * np.exp(block / 10)
    found = quantile_bootstrap(values, block, 0.99, seed=1)
    assert found.value is not None
    assert found.low is not None
    assert found.low < found.value
    assert found.high == math.inf
    assert found.needs_n is not None
    assert found.needs_n > 460
    assert found.reason is not None
    assert found.reason.startswith("not enough data for an upper limit")
    assert found.published().high is None


def test_failures_are_infinite_and_stay_out_of_what_is_published() -> None:
    """F10: failed requests are slower than all others, not absent. F12: nothing infinite is published."""
    values, block = run_of(4, 25, 40)
    failed = np.where(np.arange(1000) % 40 == 0, np.inf, values)
    found = quantile_bootstrap(failed, block, 0.99, seed=1)
    assert (found.value, found.low, found.high) == (math.inf, math.inf, math.inf)
    assert found.infinite == ("value", "low", "high")
    published = found.published()
    assert (published.value, published.low, published.high) == (None, None, None)
    assert published.reason == "value and low and high among failed requests"
    median = quantile_bootstrap(failed, block, 0.5, seed=1)
    assert median.published() is median
    assert replace(found, reason=None).published().reason is not None


def test_failures_are_named_beside_another_reason() -> None:
    """F10: too few blocks for an interval does not hide that the value itself is among failures."""
    values, block = run_of(4, 5, 40)
    failed = np.where(np.arange(200) % 10 == 0, np.inf, values)
    for found in (
        quantile_bootstrap(failed, block, 0.95, seed=1),
        quantile_ratio_bootstrap(failed, block, values, block, 0.95, seed=1),
    ):
        assert found.value == math.inf
        reason = found.published().reason
        assert reason is not None
        assert reason.startswith("value among failed requests; not enough data: an interval needs at least 20 blocks")


def test_no_interval_beside_a_ratio_that_does_not_exist() -> None:
    """F10: where the baseline failed there is nothing to be a multiple of, and no [0, 0] either."""
    values, block = run_of(5, 25, 40)
    for baseline, why in ((np.full(1000, np.inf), "among its failed requests"), (np.zeros(1000), "is 0")):
        found = quantile_ratio_bootstrap(values, block, baseline, block, 0.95, seed=1)
        assert (found.value, found.low, found.high) == (None, None, None)
        assert why in str(found.reason)


def test_ratio_with_failures() -> None:
    values, block = run_of(5, 25, 40)
    failed = np.where(np.arange(1000) % 20 == 0, np.inf, values)
    slower = quantile_ratio_bootstrap(failed, block, values, block, 0.99, seed=1)
    assert (slower.value, slower.low, slower.high) == (math.inf, math.inf, math.inf)
    faster = quantile_ratio_bootstrap(values, block, failed, block, 0.99, seed=1)
    assert (faster.value, faster.low, faster.high) == (None, None, None)
    assert faster.reason == "the baseline's quantile falls among its failed requests"
    unknown = quantile_ratio_bootstrap(failed, block, failed, block, 0.99, seed=1)
    assert (unknown.value, unknown.low, unknown.high) == (None, None, None)
    zero = quantile_ratio_bootstrap(values, block, np.zeros(1000), block, 0.5, seed=1)
    assert (zero.value, zero.reason) == (None, "the baseline's quantile is 0")


def test_blocks_of_one_arm_only_are_left_out_and_said() -> None:
    values, block = run_of(6, 24, 30)
    all_but_one = block != 23
    found = quantile_ratio_bootstrap(values[all_but_one], block[all_but_one], values, block, 0.5, seed=1)
    assert (found.value, found.low, found.high, found.n) == (1.0, 1.0, 1.0, 23)
    assert found.reason == "30 requests in blocks that only one arm has are left out"


def test_unpaired_arms_are_resampled_apart() -> None:
    values, block = run_of(7, 24, 30)
    found = quantile_ratio_bootstrap(values, block, values, block + 100, 0.5, seed=1, paired=False)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 1.0 < found.high
    apart = quantile_ratio_bootstrap(values, block, values, block + 100, 0.5, seed=1)
    assert (apart.value, apart.n) == (None, 0)


def test_wrong_input_is_refused() -> None:
    values, block = run_of(8)
    with pytest.raises(ValueError, match="not a number"):
        quantile_bootstrap(np.where(block == 0, np.nan, values), block, 0.5, seed=1)
    with pytest.raises(ValueError, match="one block number per value"):
        quantile_bootstrap(values, block[1:], 0.5, seed=1)
    with pytest.raises(ValueError, match="below 0"):
        quantile_ratio_bootstrap(-values, block, values, block, 0.5, seed=1)
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantile_bootstrap(values, block, 95, seed=1)


@given(seed=SEEDS, q=QUANTILES, n=st.integers(1, 400), blocks=st.integers(1, 30))
@settings(max_examples=40, deadline=None)
def test_ranks_of_resamples_are_those_of_copied_blocks(seed: int, q: float, n: int, blocks: int) -> None:
    rng = np.random.default_rng(seed)
    values, block = rng.integers(0, 50, n).astype(np.float64), rng.integers(0, blocks, n)
    sample, share = SortedSample.of(values, block), Fraction(str(q))
    weights = draw_weights(sample.blocks, 5, seed)
    for row, rank in zip(weights, sample.ranks(weights, share), strict=True):
        copied = np.sort(np.repeat(sample.values, row[sample.block_of]))
        at = max(math.ceil(share * len(copied)), 1)
        assert sample.values[rank - 1] == copied[at - 1]


@given(seed=SEEDS, q=QUANTILES)
@settings(max_examples=12, deadline=None)
def test_interval_holds_the_value_and_follows_order_and_scale(seed: int, q: float) -> None:
    values, block = run_of(seed)
    found = quantile_bootstrap(values, block, q, seed=2, resamples=199)
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.value <= found.high
    order = np.random.default_rng(seed).permutation(len(values))
    assert quantile_bootstrap(values[order], block[order], q, seed=2, resamples=199) == found
    assert quantile_bootstrap(values, block * 3 + 7, q, seed=2, resamples=199) == found
    scaled = quantile_bootstrap(values * 8, block, q, seed=2, resamples=199)
    assert scaled == replace(found, value=found.value * 8, low=found.low * 8, high=found.high * 8)
    cubed = quantile_bootstrap(values**3, block, q, seed=2, resamples=199)
    assert (cubed.low, cubed.high) == pytest.approx((found.low**3, found.high**3))
    assert quantile_bootstrap(values, block, q, seed=2, resamples=199) == found


@given(seed=SEEDS)
@settings(max_examples=12, deadline=None)
def test_quantiles_and_their_limits_are_monotone(seed: int) -> None:
    """F2: P50 <= P90 <= P95 <= maximum; a higher level is never narrower."""
    values, block = run_of(seed)
    found = [quantile_bootstrap(values, block, q, seed=2, resamples=199) for q in (0.5, 0.9, 0.95)]
    ordered = [e.value for e in found if e.value is not None]
    assert ordered == sorted(ordered)
    assert ordered[-1] <= values.max()
    usual, strict = (quantile_bootstrap(values, block, 0.9, seed=2, resamples=199, level=at) for at in (0.95, 0.99))
    assert usual.low is not None
    assert strict.low is not None
    assert usual.high is not None
    assert strict.high is not None
    assert strict.low <= usual.low
    assert usual.high <= strict.high


@given(seed=SEEDS, factor=st.sampled_from([0.25, 0.5, 2.0, 4.0]))
@settings(max_examples=10, deadline=None)
def test_ratio_scales_with_the_candidate(seed: int, factor: float) -> None:
    values, block = run_of(seed)
    other, _ = run_of(seed + 1)
    one = quantile_ratio_bootstrap(values, block, other, block, 0.95, seed=2, resamples=199)
    scaled = quantile_ratio_bootstrap(values * factor, block, other, block, 0.95, seed=2, resamples=199)
    assert one.value is not None
    assert one.low is not None
    assert one.high is not None
    assert one.low <= one.value <= one.high
    assert scaled == replace(one, value=one.value * factor, low=one.low * factor, high=one.high * factor)


def test_correlated_blocks_widen_the_interval() -> None:
    values, block = run_of(9, 40, 25)
    slow = np.where(block < 20, values * 1.3, values)
    shuffled = np.random.default_rng(1).permutation(40)[block]
    in_order = quantile_bootstrap(slow, block, 0.5, seed=1)
    mixed = quantile_bootstrap(slow, shuffled, 0.5, seed=1)
    assert in_order.value == mixed.value
    assert None not in (in_order.low, in_order.high, mixed.low, mixed.high)
    assert in_order.high - in_order.low > 1.5 * (mixed.high - mixed.low)  # type: ignore[operator]


def test_stretch_is_the_t_quantile_over_the_normal_one() -> None:
    assert stretch(20, 0.95) == pytest.approx(2.093024054408263 / 1.959963984540054 * math.sqrt(20 / 19))


def test_stretched_ranks() -> None:
    ranks = np.array([400, 500, 600])
    assert stretched(ranks, 500, 1000, 1.0).tolist() == [400, 500, 600]
    assert stretched(ranks, 500, 1000, 2.0).tolist() == [308, 500, 692]
    wider_above = stretched(ranks, 500, 1000, 2.0, skew=0.2)
    assert wider_above[0] > 308
    assert wider_above[2] > 692
    # the last sample, stretched: beyond the sample
    assert stretched(np.array([1000]), 990, 1000, 1.5).tolist() == [1001]
