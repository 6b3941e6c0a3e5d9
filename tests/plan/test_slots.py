"""When the users of a closed loop come and go."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from loadgen.plan import NEVER
from loadgen.plan.slots import Times, plateau, ramp

SECOND = 1_000_000_000


def running(slots: tuple[Times, Times], t_ns: NDArray[np.float64]) -> NDArray[np.int64]:
    start, stop = slots
    alive: NDArray[np.int64] = ((start[:, None] <= t_ns) & (t_ns < stop[:, None])).sum(axis=0)
    return alive


def test_plateau_spreads_its_first_requests() -> None:
    """E17: users that start as one stay one."""
    start, stop = plateau(4, 10 * SECOND)
    assert start.tolist() == [0, 50_000_000, 100_000_000, 150_000_000]
    assert stop.tolist() == [10 * SECOND] * 4
    start, _ = plateau(10, 3600 * SECOND)
    assert start.tolist() == [i * 100_000_000 for i in range(10)]
    start, stop = plateau(2, None)
    assert start.tolist() == [0, 50_000_000]
    assert stop.tolist() == [NEVER, NEVER]
    start, _ = plateau(1000, None)
    assert start.tolist() == [i * 1_000_000 for i in range(1000)]


@pytest.mark.parametrize("concurrency", [1, 3, 64, 1000])
@pytest.mark.parametrize("seconds", [1, 10, 300])
def test_plateau_mean_and_maximum(concurrency: int, seconds: int) -> None:
    """E13: the level is C, and at least 0.98 C in the time-mean of the whole stage."""
    start, stop = plateau(concurrency, seconds * SECOND)
    assert running((start, stop), np.array([seconds * SECOND - 1.0]))[0] == concurrency
    assert (stop - start).sum() >= 0.98 * concurrency * seconds * SECOND


@pytest.mark.parametrize(("a", "b"), [(0, 8), (8, 0), (1, 64), (64, 1), (5, 6), (7, 7)])
def test_ramp_is_linear_in_time(a: int, b: int) -> None:
    slots = ramp(a, b, 100 * SECOND)
    t = np.linspace(0, 100 * SECOND - 1, 1013)
    level = a + (b - a) * t / (100 * SECOND)
    assert np.abs(running(slots, t) - level).max() <= 0.5 + 1e-6
    mean = (slots[1] - slots[0]).sum() / (100 * SECOND)
    assert mean == pytest.approx((a + b) / 2, abs=1e-6)
    half = (np.minimum(slots[1], 50 * SECOND) - np.minimum(slots[0], 50 * SECOND)).sum() / (50 * SECOND)
    if (b - a) % 2 == 0:
        assert half == pytest.approx((3 * a + b) / 4, abs=1e-6)


def test_ramps_start_and_stop_slots_where_the_level_passes_the_half() -> None:
    start, stop = ramp(0, 2, 4 * SECOND)
    assert start.tolist() == [SECOND, 3 * SECOND]
    assert stop.tolist() == [4 * SECOND] * 2
    start, stop = ramp(2, 0, 4 * SECOND)
    assert start.tolist() == [0, 0]
    assert stop.tolist() == [3 * SECOND, SECOND]
