"""Mann-Whitney agrees with scipy, Hodges-Lehmann with all differences."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.analyze import mann_whitney

VALUES = st.lists(st.integers(-30, 30).map(float), min_size=4, max_size=25)


@given(a=VALUES, b=VALUES)
@settings(max_examples=100, deadline=None)
def test_p_shift_and_effect_size(a: list[float], b: list[float]) -> None:
    found = mann_whitney(np.array(a), np.array(b))
    tied = len(set(a + b)) < len(a) + len(b)
    method = "exact" if min(len(a), len(b)) <= 8 and not tied else "asymptotic"
    if len(set(a + b)) == 1:
        assert found.p == 1.0
    else:
        assert found.p == pytest.approx(scipy.stats.mannwhitneyu(a, b, method=method).pvalue, rel=1e-9)
    differences = np.subtract.outer(a, b).ravel()
    assert found.hodges_lehmann.value == np.median(differences)
    if found.hodges_lehmann.low is not None and found.hodges_lehmann.high is not None:
        assert found.hodges_lehmann.low <= np.median(differences) <= found.hodges_lehmann.high
    wins = ((differences > 0).sum() + (differences == 0).sum() / 2) / len(differences)
    assert found.cles.value == pytest.approx(wins)
    assert found.cles.low is not None
    assert found.cles.high is not None
    assert 0 <= found.cles.low <= wins <= found.cles.high <= 1


@given(a=VALUES, b=VALUES)
@settings(max_examples=40, deadline=None)
def test_swapping_mirrors_everything(a: list[float], b: list[float]) -> None:
    one, other = mann_whitney(np.array(a), np.array(b)), mann_whitney(np.array(b), np.array(a))
    assert one.p == other.p
    assert one.cles.value == pytest.approx(1 - (other.cles.value or 0))
    assert one.cles.low == pytest.approx(1 - (other.cles.high or 0))
    assert one.hodges_lehmann.value == pytest.approx(-(other.hodges_lehmann.value or 0))
    assert (one.hodges_lehmann.low is None) == (other.hodges_lehmann.low is None)
    if one.hodges_lehmann.low is not None:
        assert one.hodges_lehmann.low == pytest.approx(-(other.hodges_lehmann.high or 0))


def test_exact_p_without_ties() -> None:
    a, b = np.array([1.1, 2.2, 3.3, 4.4]), np.array([5.5, 6.6, 7.7, 8.8, 9.9])
    assert mann_whitney(a, b).p == pytest.approx(2 / 126)
    assert mann_whitney(a, a + 0.05).p == pytest.approx(scipy.stats.mannwhitneyu(a, a + 0.05, method="exact").pvalue)


def test_interval_of_the_shift_is_that_of_the_sorted_differences() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(1, 1, 12), rng.normal(0, 1, 15)
    found = mann_whitney(a, b).hodges_lehmann
    differences = np.sort(np.subtract.outer(a, b).ravel())
    outside = int(90 - 1.959963984540054 * np.sqrt(12 * 15 * 28 / 12))
    assert (found.low, found.high) == pytest.approx((differences[outside - 1], differences[-outside]))


def test_too_few_windows() -> None:
    """F12: None with a reason."""
    nothing = mann_whitney(np.array([]), np.array([1.0]))
    assert (nothing.p, nothing.cles.value, nothing.hodges_lehmann.value) == (None, None, None)
    few = mann_whitney(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    assert (few.hodges_lehmann.value, few.hodges_lehmann.low, few.cles.low) == (-2.0, None, None)
    assert few.cles.needs_n == 4
    strict = mann_whitney(np.arange(4.0), np.arange(4.0) + 0.5, level=0.9999).hodges_lehmann
    assert (strict.low, strict.needs_n) == (None, 5)
    with pytest.raises(ValueError, match="finite"):
        mann_whitney(np.array([np.inf]), np.array([1.0]))


def test_correlation_widens_intervals_and_raises_p() -> None:
    a, b = np.arange(20.0) + 6, np.arange(20.0)
    plain, wide = mann_whitney(a, b), mann_whitney(a, b, inflated=4.0)
    assert wide.hodges_lehmann.value == plain.hodges_lehmann.value == 6
    for name in ("hodges_lehmann", "cles"):
        one, other = getattr(plain, name), getattr(wide, name)
        assert other.low < one.low < one.value < one.high < other.high
    assert plain.p is not None
    assert wide.p is not None
    # U - 200 = 92.5 after continuity; the ties of 14 pairs hardly change the variance
    assert plain.p < 0.02
    assert wide.p == pytest.approx(2 * scipy.stats.norm.sf(scipy.stats.norm.isf(plain.p / 2) / 2))
