"""Power: the noncentral chi-square agrees with scipy, samples needed are enough, a missing correction has its size."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.analyze import (
    QualityTest,
    chi_square_power,
    largest_without_correction,
    samples_needed,
    two_sample_distance,
    without_correction,
)


@given(shift=st.floats(0, 300), df=st.floats(0.5, 200), level=st.sampled_from((0.05, 0.002, 0.0002)))
@settings(max_examples=60, deadline=None)
def test_noncentral_chi_square(shift: float, df: float, level: float) -> None:
    critical = scipy.stats.chi2.isf(level, df)
    exact = scipy.stats.ncx2.sf(critical, df, shift) if shift > 0 else level
    assert chi_square_power(shift, df, level) == pytest.approx(exact, abs=1e-7)


@pytest.mark.parametrize(("shift", "df", "level"), [(-1, 3, 0.05), (1, 0, 0.05), (1, 3, 1.0)])
def test_what_makes_no_sense_is_refused(shift: float, df: float, level: float) -> None:
    with pytest.raises(ValueError, match="expected"):
        chi_square_power(shift, df, level)


def test_samples_needed_are_the_fewest_that_do() -> None:
    n = samples_needed(0.1, 30, 0.002, 0.9)
    assert chi_square_power(n / 2 * 0.1, 30, 0.002) >= 0.9 > chi_square_power((n - 1) / 2 * 0.1, 30, 0.002)
    assert n == 933
    with pytest.raises(ValueError, match="above 0"):
        samples_needed(0.0, 30, 0.002, 0.9)


def test_detectable_distance_is_what_the_chi_square_finds() -> None:
    """A null of g chi-square(h) with g = 0.002, h = 25."""
    found = QualityTest("x", 0.5, 0.0, "distance", 9, 9, 1, 0, 200, 0.05, 2 * 0.002 * 0.05, True)
    distance = found.detectable(0.002)
    assert distance is not None
    assert chi_square_power(distance / 0.002, 25, 0.002) == pytest.approx(0.9)
    more = found.detectable(0.002, power=0.99)
    assert more is not None
    assert more > distance


def test_without_correction_by_hand() -> None:
    """p = (0.6, 0.3, 0.1), q = (0.3, 0.3, 0.4): 0.7 is accepted; the rest comes from p again."""
    p, q = np.array([0.6, 0.3, 0.1]), np.array([0.3, 0.3, 0.4])
    wrong = without_correction(p, q)
    assert wrong == pytest.approx([0.3 + 0.3 * 0.6, 0.3 + 0.3 * 0.3, 0.1 + 0.3 * 0.1])
    assert two_sample_distance(p, wrong) == pytest.approx(0.12**2 / 0.54 + 0.09**2 / 0.345 + 0.03**2 / 0.115)


DISTRIBUTION = st.lists(st.floats(0.01, 1), min_size=4, max_size=4).map(lambda x: np.array(x) / sum(x))


@given(p=DISTRIBUTION, q=DISTRIBUTION)
@settings(max_examples=50, deadline=None)
def test_without_correction_is_a_distribution_and_right_only_for_a_perfect_draft(p: np.ndarray, q: np.ndarray) -> None:
    wrong = without_correction(p, q)
    assert wrong.sum() == pytest.approx(1)
    assert (wrong >= 0).all()
    assert without_correction(p, p) == pytest.approx(p)
    assert two_sample_distance(p, wrong) == pytest.approx(two_sample_distance(wrong, p))
    kept = np.minimum(p, q)
    right = kept + (1 - kept.sum()) * np.maximum(p - q, 0) / max(np.maximum(p - q, 0).sum(), 1e-300)
    assert right == pytest.approx(p, abs=1e-9)


@given(
    p=st.lists(st.floats(0.001, 1), min_size=2, max_size=6),
    q=st.lists(st.floats(0.0, 1), min_size=6, max_size=6),
)
def test_no_missing_correction_is_larger_than_the_largest(p: list[float], q: list[float]) -> None:
    target, draft = np.array(p), np.array(q[: len(p)]) + 1e-9
    target, draft = target / target.sum(), draft / draft.sum()
    found = two_sample_distance(target, without_correction(target, draft))
    assert found <= largest_without_correction() + 1e-9


def test_the_largest_is_reached() -> None:
    """A draft that says only tokens which the target says 63 % of the time: kept there, redrawn elsewhere."""
    alpha = 0.634
    target, draft = np.array([alpha, 1 - alpha]), np.array([1.0, 0.0])
    found = two_sample_distance(target, without_correction(target, draft))
    # e = p + (0.232044, -0.232044): 0.232044^2 / 0.750022 + 0.232044^2 / 0.249978
    assert found == pytest.approx(0.071790 + 0.215397, abs=1e-5)
    assert found == pytest.approx(largest_without_correction(), abs=1e-5)
