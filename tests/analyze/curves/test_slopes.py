"""Decay with the input length, and the drafter's own limit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.analyze import decay, drafter_limit
from loadgen.analyze.columns import Floats

LENGTHS = np.array([128, 256, 512, 1024, 2048, 4096], dtype=np.float64)


def noisy(curve: Floats, noise: float, seed: int) -> Floats:
    return curve[:, None] * np.exp(noise * np.random.default_rng(seed).standard_normal((len(curve), 3)))


def test_relative_slope_per_doubling_is_exact() -> None:
    found = decay(LENGTHS, noisy(100 * 0.9 ** np.log2(LENGTHS), 0.0, 0))
    assert found.value == pytest.approx(-0.1)
    assert (found.low, found.high) == (pytest.approx(-0.1), pytest.approx(-0.1))
    assert (found.n, found.reason) == (18, None)


def test_absolute_slope_per_1k_tokens_is_exact() -> None:
    """KV use: a share that grows with the input, 0 included."""
    found = decay(LENGTHS, noisy(0.05 * (LENGTHS - 128) / 1000, 0.0, 0), per="1k_tokens", relative=False)
    assert found.value == pytest.approx(0.05)
    assert found.method == "least squares of value on length ÷ 1000"


def test_interval_covers_the_slope() -> None:
    curve = 100 * 0.93 ** np.log2(LENGTHS)
    found = [decay(LENGTHS, noisy(curve, 0.05, seed)) for seed in range(100)]
    inside = sum(f.low is not None and f.high is not None and f.low <= -0.07 <= f.high for f in found)
    assert inside >= 90


def test_a_bent_curve_says_so_and_widens() -> None:
    """Speed 1 ÷ (a + b · length) is flat first and falls later."""
    line, bent = 100 * 0.9 ** np.log2(LENGTHS), 1 / (0.01 + 1e-5 * LENGTHS)
    straight, found = decay(LENGTHS, noisy(line, 0.01, 1)), decay(LENGTHS, noisy(bent, 0.01, 1))
    assert found.reason == "not a straight line: the mean slope over the tested lengths"
    assert None not in (found.low, found.high, straight.low, straight.high)
    assert found.high - found.low > 3 * (straight.high - straight.low)  # type: ignore[operator]


def test_two_lengths_once_have_no_interval() -> None:
    found = decay(LENGTHS[:2], np.array([[100.0], [90.0]]))
    assert found.value == pytest.approx(-0.1)
    assert (found.low, found.high) == (None, None)
    assert found.reason == "not enough data for an interval: two lengths, each visited once"
    none = decay(LENGTHS[:1], np.array([[100.0]]))
    assert none.value is None
    assert none.reason == "not enough data: a slope needs 2 lengths above 0, there are 1"


def test_drafter_limit_is_between_two_lengths() -> None:
    acceptance = noisy(np.array([0.7, 0.71, 0.69, 0.68, 0.0, 0.005]), 0.02, 1)
    found = drafter_limit(LENGTHS, acceptance)
    assert found is not None
    assert (found.last_accepting, found.first_without) == (1024, 2048)
    assert found.acceptance_before == pytest.approx(0.7, abs=0.02)
    assert found.reason.startswith("acceptance is 0.")
    shuffled = [3, 0, 5, 1, 4, 2]
    assert drafter_limit(LENGTHS[shuffled], acceptance[shuffled]) == found


@pytest.mark.parametrize(
    "acceptance",
    [
        [0.7, 0.6, 0.5, 0.4, 0.3, 0.2],  # it decays
        [0.01, 0.01, 0.0, 0.0, 0.0, 0.0],  # it never was there
        [0.7, 0.7, 0.0, 0.7, 0.7, 0.7],  # a failed point
        [0.7, 0.7, 0.7, 0.7, 0.7, math.nan],  # not known is not 0
        [0.05, 0.04, 0.03, 0.02, 0.015, 0.01],
    ],
)
def test_no_limit_where_acceptance_does_not_vanish(acceptance: list[float]) -> None:
    assert drafter_limit(LENGTHS, np.array(acceptance)[:, None]) is None


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.permutations(range(6)), st.floats(1e-3, 1e6))
def test_invariant_to_order_and_scale(seed: int, rows: list[int], scale: float) -> None:
    values = noisy(100 * 0.9 ** np.log2(LENGTHS), 0.05, seed)
    one, other = decay(LENGTHS, values), decay(LENGTHS[rows], scale * values[rows])
    assert (other.value, other.low, other.high) == pytest.approx((one.value, one.low, one.high))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=2, max_size=2), max_size=6),
    st.booleans(),
)
def test_never_crashes_and_says_why(rows: list[list[float]], relative: bool) -> None:
    lengths, values = np.arange(1, len(rows) + 1.0), np.array(rows, dtype=np.float64).reshape(len(rows), 2)
    found = decay(lengths, values, relative=relative)
    assert found.value is not None or found.reason
    for number in (found.value, found.low, found.high):
        assert number is None or math.isfinite(number)
    drafter_limit(lengths, values)
