"""The whole family of a soak: false alarms of steady servers, and what is found where something changes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import beta

from loadgen.analyze.soak import FAMILY_LEVEL, MIN_WINDOWS, Series, judge
from loadgen.analyze.soak.evidence import autoregressive, p_values
from loadgen.analyze.soak.family import family_p

RUNS, SERIES, WINDOWS = 2000, 12, 120
TIMES = np.arange(WINDOWS) * 15 + 7.5


def _correlated(phi: float) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda chance: autoregressive(RUNS * SERIES, WINDOWS, phi, chance)


def _mixed(chance: np.random.Generator) -> np.ndarray:
    """Each series of a run with a correlation of its own."""
    each = [autoregressive(RUNS, WINDOWS, phi, chance) for phi in np.linspace(0, 0.8, SERIES)]
    return np.stack(each, axis=1).reshape(RUNS * SERIES, WINDOWS)


@pytest.mark.parametrize(
    "steady", [_correlated(0.0), _correlated(0.4), _correlated(0.8), _mixed], ids=["0", "0.4", "0.8", "mixed"]
)
def test_steady_servers_alarm_in_at_most_one_of_a_hundred_runs(steady: Callable[..., np.ndarray]) -> None:
    """2000 runs of 12 series each: the 95 % upper limit of the share of runs with any alarm is below 1 %."""
    p = p_values(steady(np.random.default_rng(20))).reshape(RUNS, SERIES, 2)
    alarms = sum(bool((family_p(run) <= FAMILY_LEVEL).any()) for run in p)
    assert beta.ppf(0.95, alarms + 1, RUNS - alarms) <= 0.01


def _series(name: str, values: np.ndarray, worse: int = -1, reason: str | None = None) -> Series:
    return Series(name, "1", worse, TIMES[: len(values)], values, "per_request", reason)


def _family(**changed: np.ndarray) -> list[Series]:
    chance = np.random.default_rng(21)
    steady = {f"s{i}": autoregressive(1, WINDOWS, 0.4, chance)[0] for i in range(SERIES - len(changed))}
    return [_series(name, values) for name, values in (steady | changed).items()]


def test_a_slow_fall_of_acceptance_is_found_among_steady_series() -> None:
    """5 points over 30 minutes, windows that vary by 1.5 points with correlation 0.3."""
    noise = 0.015 * autoregressive(30, WINDOWS, 0.3, np.random.default_rng(22))
    found = 0
    for one in noise:
        *others, alpha = judge(_family(alpha=0.7 - 0.05 * TIMES / 1800 + one))
        assert not any(o.drift for o in others)
        if alpha.drift is not None:
            found += 1
            assert alpha.drift.size_high < 0
            assert alpha.trend is not None
            assert alpha.trend.slope_per_s < 0
    assert found >= 27


def test_a_leak_of_memory_is_found_and_dated() -> None:
    """Flat to minute 10, then 1 MB/s: the start within a window or two."""
    noise = 2e6 * autoregressive(1, WINDOWS, 0.7, np.random.default_rng(23))[0]
    *_, memory = judge(_family(memory=4e9 + 1e6 * np.maximum(TIMES - 600, 0) + noise))
    assert memory.drift is not None
    assert memory.p == pytest.approx(2 * SERIES / 20_001)
    assert memory.drift.shape == "ramp"
    assert memory.drift.start_s == pytest.approx(600, abs=30)
    assert memory.drift.size == pytest.approx(1.2e9, rel=0.02)


@pytest.mark.parametrize(("families", "finer"), [(4, 1), (6, 2)])
def test_the_level_is_the_whole_soaks(families: int, finer: int) -> None:
    """With more arms and stages each p counts more; where 20,000 steady series could not reach the level, more are
    made."""
    steps = np.where(TIMES > 900, 8.0, 0.0)
    noise = autoregressive(1, WINDOWS, 0.0, np.random.default_rng(25))[0]
    *_, clear = judge(_family(clear=steps + noise), families=families)
    assert clear.p == pytest.approx(families * 2 * SERIES / (finer * 20_000 + 1))
    assert clear.drift is not None


def test_what_is_enough_for_one_arm_is_not_for_four() -> None:
    noise = autoregressive(1, WINDOWS, 0.0, np.random.default_rng(26))[0]
    grown = [_series("s", noise + size * TIMES / 1800) for size in np.arange(0, 4, 0.02)]
    alone, weak = next(
        (found, one) for one in grown for found in judge([one]) if FAMILY_LEVEL / 4 < (found.p or 0) <= FAMILY_LEVEL
    )
    (one_of_four,) = judge([weak], families=4)
    assert (alone.drift is not None, one_of_four.drift) == (True, None)
    assert one_of_four.p == pytest.approx(4 * (alone.p or 0))


def test_what_cannot_be_judged_says_why_and_charges_the_others_nothing() -> None:
    steady = np.random.default_rng(24).standard_normal(WINDOWS)
    rare = np.zeros(WINDOWS)
    rare[[3, 50]] = 0.5
    short, none = _series("short", steady[:20], reason="the server stopped"), _series("none", steady[:0], reason="why")
    found = judge([_series("steady", steady), _series("rare", rare), short, none])
    assert [j.reason for j in found] == [
        None,
        "2 of 120 windows differ from the most frequent value: too few to tell a drift",
        f"the server stopped; a drift needs at least {MIN_WINDOWS} windows with a value, there are 20",
        "why",
    ]
    assert [j.p is None for j in found] == [False, True, True, True]
    assert found[0].p == judge([_series("steady", steady)])[0].p
    assert judge([]) == ()


def test_a_series_that_wanders_says_so() -> None:
    """A slow wave beside the drift is beyond the correlation that the tests promise for."""
    wave = np.sin(TIMES / 300)
    (found,) = judge([_series("memory", 20 * TIMES / 1800 + wave)])
    assert found.drift is not None
    assert found.reason is not None
    assert found.reason.startswith("beside the drift, windows follow each other at a correlation of 0.9")
