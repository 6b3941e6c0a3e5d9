"""Nearest rank, smallest samples, the second view."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.analyze.percentiles import PERCENT, SMALLEST_N, Ordered, described, distribution, nearest_rank, rank

values = st.lists(st.floats(0, 1e6, allow_nan=False), min_size=1, max_size=300)


def of(numbers: list[float], failures: int | None = None):
    return distribution(np.array(numbers), per="request", source="client", reason="none", failures=failures)


@pytest.mark.parametrize(
    ("n", "percent", "expected"),
    [(1, 50, 1), (2, 50, 1), (3, 50, 2), (100, 99, 99), (101, 99, 100), (20, 95, 19), (10, 5, 1)],
)
def test_rank_is_the_ceiling_in_integers(n: int, percent: int, expected: int) -> None:
    assert rank(n, percent) == expected


def test_one_hundred_samples_in_any_order() -> None:
    """F2: the percentile is a sample, never above the largest."""
    found = of([float(i) for i in range(100, 0, -1)])
    assert (found.p50, found.p90, found.p95, found.p99, found.max, found.mean) == (50, 90, 95, 99, 100, 50.5)
    assert found.reasons == {}


def test_one_sample_has_a_median_and_no_tail() -> None:
    """F2: 575 ms alone gives P50 = max = 575 and no P99."""
    found = of([0.575])
    assert (found.p50, found.max, found.mean) == (0.575, 0.575, 0.575)
    assert (found.p90, found.p95, found.p99) == (None, None, None)
    assert found.reasons["p99"] == "needs at least 100 samples, there are 1"


def test_no_sample_is_a_reason_not_a_nan() -> None:
    """F12: nothing measured is null with a reason."""
    found = of([])
    assert (found.n, found.mean, found.p50, found.max, found.reason) == (0, None, None, None, "none")


def test_failures_are_infinite_in_the_second_view() -> None:
    """F10: 90 answers at 1..90 s and 10 failures: P90 is the slowest answer, P95 and P99 are infinite."""
    view = of([float(i) for i in range(1, 91)], failures=10).all_sent
    assert view is not None
    assert (view.n, view.p50, view.p90, view.p95, view.p99) == (100, 50, 90, None, None)
    assert view.infinite == ["p95", "p99"]


def test_only_failures() -> None:
    view = of([], failures=3).all_sent
    assert view is not None
    assert (view.n, view.p50, view.infinite) == (3, None, ["p50"])


@settings(max_examples=60, deadline=None)
@given(values)
def test_percentiles_are_monotone_samples_below_the_maximum(numbers: list[float]) -> None:
    found = of(numbers)
    shown = [p for p in (found.p50, found.p90, found.p95, found.p99, found.max) if p is not None]
    assert shown == sorted(shown)
    assert set(shown) <= set(numbers)


@settings(max_examples=60, deadline=None)
@given(values, st.sampled_from([5, 50, 90, 95, 99]))
def test_nearest_rank_is_the_least_sample_with_that_share_at_or_below(numbers: list[float], percent: int) -> None:
    found = nearest_rank(np.sort(np.array(numbers)), percent)
    at_or_below = sum(x <= found for x in numbers)
    below = sum(x < found for x in numbers)
    assert 100 * at_or_below >= percent * len(numbers)
    assert 100 * below < percent * len(numbers)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), min_size=1, max_size=80))
def test_weights_are_repetitions(pairs: list[tuple[int, int]]) -> None:
    pairs = sorted(pairs)
    repeated = of([float(v) for v, w in pairs for _ in range(w)])
    ordered = Ordered(np.array([float(v) for v, _ in pairs]), np.array([w for _, w in pairs]))
    found = described(ordered, per="request", source="client", reason="")
    assert (found.n, found.p50, found.p90, found.p95, found.p99, found.max) == (
        repeated.n, repeated.p50, repeated.p90, repeated.p95, repeated.p99, repeated.max,
    )  # fmt: skip
    assert math.isclose(found.mean or 0.0, repeated.mean or 0.0, abs_tol=1e-9)


@settings(max_examples=60, deadline=None)
@given(values, st.integers(0, 300))
def test_the_second_view_is_the_first_with_infinities_appended(numbers: list[float], failures: int) -> None:
    view = of(numbers, failures=failures).all_sent
    assert view is not None
    everything = np.sort(np.array([*numbers, *[math.inf] * failures]))
    for name, percent in PERCENT.items():
        if view.n < SMALLEST_N[name]:
            assert getattr(view, name) is None
            assert name not in view.infinite
        else:
            expected = nearest_rank(everything, percent)
            assert (name in view.infinite) == math.isinf(expected)
            assert getattr(view, name) == (None if math.isinf(expected) else expected)
