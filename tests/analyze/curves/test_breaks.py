"""Where speculation stops paying."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from loadgen.analyze import stops_paying
from loadgen.analyze.columns import Floats
from loadgen.analyze.curves.breaks import non_increasing

LEVELS = np.array([1, 2, 4, 8, 16, 32, 64, 128], dtype=np.float64)


def log_ratios(truth: float, noise: float, seed: int) -> Floats:
    """Speedup 2.2 at one request, falling in ln(level), 1 at the truth."""
    line = math.log(2.2) * (1 - np.log(LEVELS) / math.log(truth))
    return line[:, None] + noise * np.random.default_rng(seed).standard_normal((8, 3))


@pytest.mark.parametrize("truth", [5.0, 23.0, 90.0])
def test_interval_covers_the_break(truth: float) -> None:
    """H16: the gain of speculation vanishes at some concurrency; where, with its uncertainty."""
    found = [stops_paying(LEVELS, log_ratios(truth, 0.05, seed), seed=seed) for seed in range(20)]
    inside = [(f.low or 0) <= truth <= (f.high or math.inf) for f in found]
    assert sum(inside) >= 18
    assert sum(f.level is not None and abs(math.log2(f.level / truth)) <= 1 for f in found) >= 19


def test_exact_without_noise() -> None:
    found = stops_paying(LEVELS, log_ratios(23.0, 0.0, 0))
    assert found.level == pytest.approx(23.0)
    assert (found.low, found.high) == (pytest.approx(23.0), pytest.approx(23.0))
    assert found.reason is None


@pytest.mark.parametrize(
    ("shift", "words", "low", "high"),
    [(1.0, "speculation pays up to the highest level", 128, None), (-3.0, "does not pay at the lowest", None, 1)],
)
def test_not_within_the_tested_range(shift: float, words: str, low: float | None, high: float | None) -> None:
    found = stops_paying(LEVELS, log_ratios(128.0, 0.02, 1) + shift)
    assert (found.level, found.low, found.high) == (None, low, high)
    assert found.reason is not None
    assert found.reason.startswith("not within the tested range")
    assert words in found.reason


def test_break_near_the_edge_is_not_certain() -> None:
    found = stops_paying(LEVELS, log_ratios(120.0, 0.3, 4))
    assert found.high is None
    assert "above 128" in (found.reason or "") or "not certain" in (found.reason or "")


def test_one_visit_gives_a_level_without_interval() -> None:
    found = stops_paying(LEVELS, log_ratios(23.0, 0.0, 0)[:, :1])
    assert found.level == pytest.approx(23.0)
    assert (found.low, found.high) == (None, None)
    assert found.reason == "not enough data for an interval: every level was visited once"


def test_a_bump_is_smoothed() -> None:
    """H13: one distorted level that breaks the order does not make a second break."""
    values = log_ratios(23.0, 0.0, 0)
    values[2] = -0.05
    found = stops_paying(LEVELS, values)
    assert found.level is not None
    assert 10 < found.level < 30


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=1, max_size=9))
def test_isotonic_curve_is_that_of_scipy(values: list[float]) -> None:
    ours = non_increasing(np.array([values]))[0]
    assert ours == pytest.approx(isotonic_regression(values, increasing=False).x, abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.floats(2, 100), st.permutations(range(8)), st.floats(0.1, 100))
def test_invariant_to_order_and_units(seed: int, truth: float, rows: list[int], unit: float) -> None:
    values = log_ratios(truth, 0.05, seed)
    one, other = stops_paying(LEVELS, values), stops_paying(LEVELS[rows] * unit, values[rows])
    for a, b in ((one.level, other.level), (one.low, other.low), (one.high, other.high)):
        assert (a is None) == (b is None)
        assert a is None or b == pytest.approx(a * unit)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=2, max_size=2), max_size=6))
def test_never_crashes_and_says_why(rows: list[list[float]]) -> None:
    found = stops_paying(np.arange(1, len(rows) + 1.0), np.array(rows, dtype=np.float64).reshape(len(rows), 2))
    assert found.level is not None or found.reason
    for number in (found.level, found.low, found.high):
        assert number is None or math.isfinite(number)
