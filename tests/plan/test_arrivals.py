"""When an open loop's requests are due."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray

from loadgen.plan.arrivals import arrivals

SECOND = 1_000_000_000


def cumulative(t_s: NDArray[np.float64], a: float, b: float, seconds: float) -> NDArray[np.float64]:
    """Λ(t) written anew: the area under the ramp."""
    return a * t_s + (b - a) * t_s**2 / (2 * seconds)


def test_uniform_arrivals_are_evenly_spaced() -> None:
    due = arrivals("uniform", 4.0, 4.0, 2 * SECOND, 1.0, 0, "arrivals", 0)
    assert due.tolist() == [125_000_000 + i * 250_000_000 for i in range(8)]
    assert due.dtype == np.int64


def test_ramp_is_linear_in_time_not_in_request_number() -> None:
    """Peers' ramps are linear in request index: 7.1/s instead of half the rate at half time."""
    due = arrivals("uniform", 0.0, 100.0, 60 * SECOND, 1.0, 0, "arrivals", 0)
    assert len(due) == 3000
    assert np.searchsorted(due, 30 * SECOND) == 750
    around = np.searchsorted(due, [29.5 * SECOND, 30.5 * SECOND])
    assert around[1] - around[0] == 50


@pytest.mark.parametrize(("a", "b"), [(0.0, 50.0), (50.0, 0.0), (5.0, 40.0), (40.0, 5.0), (20.0, 20.0)])
def test_uniform_count_is_the_area_under_the_rate_at_every_time(a: float, b: float) -> None:
    due = arrivals("uniform", a, b, 30 * SECOND, 1.0, 0, "arrivals", 0)
    t = np.linspace(0, 30, 997)
    count = np.searchsorted(due, t * SECOND, side="right")
    assert np.abs(count - cumulative(t, a, b, 30.0)).max() <= 0.5 + 1e-6


@pytest.mark.parametrize(("a", "b"), [(40.0, 40.0), (0.0, 80.0), (80.0, 0.0), (20.0, 60.0)])
def test_poisson_is_poisson_also_under_a_ramp(a: float, b: float) -> None:
    """E13, and a peer whose gaps repeat once a worker: dispersion 4.06 there, 1 here; gaps exponential (KS)."""
    p_values, dispersions, sizes = [], [], set()
    for seed in range(20):
        due = arrivals("poisson", a, b, 100 * SECOND, 1.0, seed, "arrivals", 0)
        s = cumulative(due / SECOND, a, b, 100.0)
        p_values.append(scipy.stats.kstest(np.diff(s), "expon").pvalue)
        counts = np.bincount((s // 40).astype(int), minlength=100)
        dispersions.append(counts.var(ddof=1) / counts.mean())
        assert len(np.unique(np.diff(due))) > 0.99 * (len(due) - 1)
        sizes.add(len(due))
    assert min(p_values) > 0.01 / 20
    low, high = scipy.stats.chi2.ppf([0.005, 0.995], 20 * 99) / (20 * 99)
    assert low < np.mean(dispersions) < high
    assert len(sizes) > 10, "a Poisson process is not rescaled to a fixed count"


@pytest.mark.parametrize("shape", [0.2, 0.5, 1.0, 4.0, 25.0])
def test_gamma_burstiness_is_the_shape_of_the_gaps(shape: float) -> None:
    due = arrivals("gamma", 0.3, 0.3, 100_000 * SECOND, shape, 5, "arrivals", 0)
    gaps = np.diff(due) / SECOND * 0.3
    gaps = gaps[gaps > 1e-6]  # whole nanoseconds: the shortest gaps of strong bursts are rounded
    below = scipy.stats.gamma(shape, scale=1 / shape).cdf(1e-6)
    law = scipy.stats.gamma(shape, scale=1 / shape)
    assert scipy.stats.kstest(gaps, lambda x: (law.cdf(x) - below) / (1 - below)).pvalue > 0.01
    gaps = np.diff(due) / SECOND * 0.3
    assert gaps.mean() == pytest.approx(1, abs=4 * np.sqrt(1 / shape / len(gaps)))
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(1 / shape, rel=0.1)


def test_bursty_arrivals_keep_the_asked_rate_from_the_start() -> None:
    """A renewal process that starts with a whole gap delivers (CV² − 1)/2 = 4.5 arrivals too many here."""
    counts = [len(arrivals("gamma", 10.0, 10.0, 4 * SECOND, 0.1, seed, "arrivals", 0)) for seed in range(600)]
    assert np.mean(counts) == pytest.approx(40, abs=3 * np.std(counts) / np.sqrt(600))


def test_all_kinds_are_ascending_and_inside_the_stage() -> None:
    for kind in ("uniform", "poisson", "gamma"):
        due = arrivals(kind, 0.0, 80.0, 10 * SECOND, 0.3 if kind == "gamma" else 1.0, 3, "arrivals", 1)
        assert (np.diff(due) >= 0).all()
        assert due[0] >= 0
        assert due[-1] < 10 * SECOND


def test_stages_do_not_share_their_chance() -> None:
    first, second = (arrivals("poisson", 50.0, 50.0, 10 * SECOND, 1.0, 3, "arrivals", i) for i in (0, 1))
    assert not set(first.tolist()) & set(second.tolist())
