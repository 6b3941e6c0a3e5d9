"""The distributions agree with scipy."""

import math

import pytest
import scipy.stats
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loadgen.analyze.statistics.distributions import (
    beta_cdf,
    beta_quantile,
    chi_square_quantile,
    gamma_cdf,
    normal_cdf,
    normal_quantile,
    t_cdf,
    t_power,
    t_quantile,
)

PROBABILITIES = st.floats(0.0005, 0.9995)


@given(p=PROBABILITIES, df=st.floats(1, 1e5))
@example(p=0.49609375, df=2476.0)
@settings(max_examples=100, deadline=None)
def test_t_quantile_is_that_of_scipy(p: float, df: float) -> None:
    assert t_quantile(p, df) == pytest.approx(scipy.stats.t.ppf(p, df), rel=1e-9, abs=1e-12)


@given(p=PROBABILITIES)
@settings(max_examples=50, deadline=None)
def test_normal_quantile_is_that_of_scipy_and_inverts_its_cdf(p: float) -> None:
    assert normal_quantile(p) == pytest.approx(scipy.stats.norm.ppf(p), rel=1e-9, abs=1e-12)
    assert normal_cdf(normal_quantile(p)) == pytest.approx(p, rel=1e-12)


@given(p=PROBABILITIES, a=st.floats(0.5, 1e4), b=st.floats(0.5, 1e4))
@settings(max_examples=100, deadline=None)
def test_beta_quantile_is_that_of_scipy(p: float, a: float, b: float) -> None:
    assert beta_quantile(p, a, b) == pytest.approx(scipy.stats.beta.ppf(p, a, b), rel=1e-9)


@given(p=PROBABILITIES, df=st.integers(1, 2000))
@settings(max_examples=100, deadline=None)
def test_chi_square_quantile_is_that_of_scipy(p: float, df: int) -> None:
    assert chi_square_quantile(p, df) == pytest.approx(scipy.stats.chi2.ppf(p, df), rel=1e-9)


@pytest.mark.parametrize("df", [1, 2, 4, 19, 99, 1000])
@pytest.mark.parametrize("shift", [0.5, 2.0, 5.0])
def test_power_is_the_tail_of_the_noncentral_t(df: int, shift: float) -> None:
    critical = t_quantile(0.975, df)
    assert t_power(critical, df, shift) == pytest.approx(scipy.stats.nct.sf(critical, df, shift), abs=1e-9)


@given(x=st.floats(0.001, 0.999), a=st.floats(0.5, 500), b=st.floats(0.5, 500))
@settings(max_examples=50, deadline=None)
def test_beta_cdf_mirrors(x: float, a: float, b: float) -> None:
    assert beta_cdf(x, a, b) + beta_cdf(1 - x, b, a) == pytest.approx(1, abs=1e-9)


def test_ends_of_the_supports() -> None:
    assert (beta_cdf(0, 2, 3), beta_cdf(1, 2, 3), gamma_cdf(0, 2)) == (0.0, 1.0, 0.0)
    assert t_quantile(0.5, 7) == 0.0
    assert t_cdf(-1.0, 1) == pytest.approx(0.25)
    assert gamma_cdf(3.0, 1.0) == pytest.approx(1 - math.exp(-3))
