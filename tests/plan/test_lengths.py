"""Token lengths, against scipy's distributions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from loadgen.plan.lengths import draw_lengths, draw_pairs
from loadgen.plan.streams import unit, words
from loadgen.scenario import Empirical, Fixed, LogNormal, Normal, PairedLengths, Uniform

U = unit(words(20_000, 9, "lengths"))
GRID = (np.arange(1000) + 0.5) / 1000


def test_fixed_uniform_and_empirical() -> None:
    assert set(draw_lengths(Fixed(kind="fixed", value=7), U).tolist()) == {7}
    uniform = draw_lengths(Uniform(kind="uniform", low=3, high=6), GRID)
    assert np.bincount(uniform).tolist() == [0, 0, 0, 250, 250, 250, 250]
    empirical = draw_lengths(Empirical(kind="empirical", values=[5, 5, 9, 100]), GRID)
    assert {v: int((empirical == v).sum()) for v in (5, 9, 100)} == {5: 500, 9: 250, 100: 250}


@pytest.mark.parametrize(("low", "high"), [(1, None), (90, 130), (1, 80), (150, 400)])
def test_normal_is_cut_to_its_bounds(low: int, high: int | None) -> None:
    drawn = draw_lengths(Normal(kind="normal", mean=100.0, stddev=30.0, low=low, high=high), GRID)
    top = np.inf if high is None else high + 0.5
    expected = scipy.stats.truncnorm((low - 0.5 - 100) / 30, (top - 100) / 30, 100, 30).ppf(GRID)
    assert np.abs(drawn - expected).max() <= 0.5 + 1e-6
    assert drawn.min() >= low


@pytest.mark.parametrize(("low", "high"), [(1, None), (50, 900), (1, 150)])
def test_lognormal_is_cut_to_its_bounds(low: int, high: int | None) -> None:
    drawn = draw_lengths(LogNormal(kind="lognormal", median=200.0, sigma=0.7, low=low, high=high), GRID)
    cdf = scipy.stats.lognorm(0.7, scale=200).cdf
    first, last = cdf(low - 0.5), 1.0 if high is None else cdf(high + 0.5)
    expected = scipy.stats.lognorm(0.7, scale=200).ppf(first + GRID * (last - first))
    assert np.abs(drawn - expected).max() <= 0.5 + 1e-6


def test_no_spread_is_the_middle() -> None:
    assert set(draw_lengths(Normal(kind="normal", mean=33.4, stddev=0.0), GRID).tolist()) == {33}
    assert set(draw_lengths(LogNormal(kind="lognormal", median=33.0, sigma=0.0), GRID).tolist()) == {33}


def test_extreme_tails_stay_whole_numbers() -> None:
    drawn = draw_lengths(LogNormal(kind="lognormal", median=1e9, sigma=4.0), U)
    assert drawn.min() >= 1
    assert drawn.max() <= 2**40


def test_pairs_stay_together() -> None:
    inputs, outputs = draw_pairs(PairedLengths(pairs=[(10, 1), (20, 2), (30, 3)]), U)
    assert (inputs == outputs * 10).all()
    assert np.bincount(outputs)[1:] / len(U) == pytest.approx([1 / 3] * 3, abs=0.02)
