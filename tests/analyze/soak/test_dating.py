"""Start and size of a drift whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from loadgen.analyze.soak import Change, change_point, drift, trend
from loadgen.analyze.soak.evidence import autoregressive

#: 120 windows of 15 s: half an hour
TIMES = np.arange(120) * 15 + 7.5


def test_a_jump_without_noise_is_dated_between_its_windows() -> None:
    values = np.where(TIMES > 900, 4.0, 6.0)
    found = drift(TIMES, values)
    assert found.shape == "jump"
    assert (found.start_s, found.end_s) == (900, 900)
    assert (found.size, found.size_low, found.size_high, found.before) == pytest.approx((-2, -2, -2, 6))
    assert (found.start_low_s, found.start_high_s) == (892.5, 907.5)


def test_a_ramp_without_noise_has_its_corners() -> None:
    values = 1 + 3 * np.clip((TIMES - 307.5) / 600, 0, 1)
    found = drift(TIMES, values)
    assert found.shape == "ramp"
    assert (found.start_s, found.end_s, found.size, found.before) == pytest.approx((307.5, 907.5, 3, 1))


@pytest.mark.parametrize(
    ("start_s", "end_s", "phi"),
    [(0, 1800, 0.0), (600, 1800, 0.6), (600, 1200, 0.3), (900, 900.001, 0.6)],
    ids=["all", "from", "within", "jump"],
)
def test_the_intervals_hold_the_true_start_and_size(start_s: float, end_s: float, phi: float) -> None:
    """5 points of acceptance, noise of 1 point a window: in at least 36 of 40 series each."""
    truth = -0.05 * np.clip((TIMES - start_s) / (end_s - start_s), 0, 1)
    noise = 0.01 * autoregressive(40, 120, phi, np.random.default_rng([7, round(start_s)]))
    found = [drift(TIMES, 0.7 + truth + one) for one in noise]
    assert sum(d.start_low_s <= start_s <= d.start_high_s for d in found) >= 36
    assert sum(d.size_low <= -0.05 <= d.size_high for d in found) >= 36
    assert np.median([d.size for d in found]) == pytest.approx(-0.05, abs=0.005)


def test_a_noisy_change_may_be_either() -> None:
    """A fall over the whole run in noise as large as itself: that it was sudden cannot be excluded, nor claimed."""
    noise = 0.8 * autoregressive(1, 120, 0.6, np.random.default_rng(12))[0]
    assert drift(TIMES, -2 * TIMES / 1800 + noise).shape == "either"


def test_a_trend_has_its_slope_and_interval() -> None:
    noise = autoregressive(60, 120, 0.5, np.random.default_rng(8))
    found = [trend(TIMES, 0.002 * TIMES + one) for one in noise]
    assert sum(t.low <= 0.002 <= t.high for t in found) >= 55
    assert all(t.p <= 0.01 for t in found)
    assert found[0].n == 120


def test_a_straight_line_has_an_exact_trend() -> None:
    found = trend(TIMES, 3 * TIMES)
    assert (found.slope_per_s, found.low, found.high) == pytest.approx((3, 3, 3))


def test_a_jump_is_found_and_none_where_there_is_none() -> None:
    noise = autoregressive(20, 120, 0.3, np.random.default_rng(9))
    assert sum(change_point(TIMES, one) is None for one in noise) == 20
    found = [change_point(TIMES, one + 6 * (TIMES > 1200)) for one in noise]
    told = [c for c in found if isinstance(c, Change)]
    assert len(told) == 20
    assert all(c.at_low_s <= 1200 <= c.at_high_s for c in told)
    assert sum(c.low <= 6 <= c.high for c in told) >= 18


def test_what_cannot_be_read_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 10 windows"):
        drift(TIMES[:9], np.zeros(9))
    for values in (np.full(120, np.nan), np.zeros(119)):
        with pytest.raises(ValueError, match="one finite value per time"):
            trend(TIMES, values)
    with pytest.raises(ValueError, match="times ascending"):
        change_point(TIMES[::-1], np.zeros(120))
