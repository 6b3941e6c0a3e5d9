"""When latency is back: chance alone does not make a perfect switch look late, and a real transient is found."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from loadgen.analyze.drill.settling import median_below, settled
from loadgen.analyze.summary import N

WINDOW, STEP_NS = 10, 250_000_000


def at_s(values: np.ndarray, window: int = WINDOW) -> N:
    sent = np.arange(len(values)) * STEP_NS
    return settled("tpot_s", sent, values, (0, len(values) * STEP_NS), window).at_s


def drawn(seed: int, correlated: float, n: int) -> np.ndarray:
    """Log-normal latencies of a steady server, each sharing `correlated` with the one before."""
    noise = np.random.default_rng(seed).standard_normal(n)
    for i in range(1, n):
        noise[i] = correlated * noise[i - 1] + np.sqrt(1 - correlated**2) * noise[i]
    return 0.03 * np.exp(0.3 * noise)


@pytest.mark.parametrize(
    ("n", "correlated", "most"),
    [(40, 0.0, 0.01), (40, 0.3, 0.02), (120, 0.5, 0.06), (400, 0.0, 0.01), (400, 0.5, 0.06)],
)
def test_a_switch_that_changes_nothing_seldom_has_a_time(n: int, correlated: float, most: float) -> None:
    """Of 300 steady loads each, fixed seeds; docs/drill.md says these shares. It takes a pass; only a test can fail it
    (test_lateness.py)."""
    late = [(at_s(drawn(seed, correlated, n)).value or 0.0) > 0 for seed in range(300)]
    assert np.mean(late) <= most


def test_a_transient_of_two_windows_at_four_times_the_level_is_always_seen() -> None:
    """20 requests, 5 s: the first window with a steady median begins at the 15th or later."""
    for seed in range(50):
        values = drawn(seed, 0.0, 120)
        values[: 2 * WINDOW] *= 4
        found = at_s(values).value
        assert found is not None
        assert 3.5 <= found <= 4.5


def test_a_constant_latency_is_back_at_once() -> None:
    assert at_s(np.full(120, 0.03)).value == 0.0


def test_a_narrow_band_says_how_much_it_covers_and_too_narrow_a_one_says_nothing() -> None:
    found = at_s(drawn(1, 0.0, 40))
    assert found.reason == "a band that covers at least 89%"
    few = at_s(drawn(1, 0.0, 40), window=4)
    assert (few.value, few.reason) == (
        None, "not enough data: 20 requests in the second half tell too little of windows of 4 requests"
    )  # fmt: skip


@pytest.mark.parametrize(("place", "n", "window"), [(1, 4, 3), (2, 4, 3), (2, 5, 4), (3, 5, 2)])
def test_the_chance_is_that_of_all_orders(place: int, n: int, window: int) -> None:
    """Counted over every way in which the window's values can lie among the reference's."""
    least, hits, all_ = (window + 1) // 2, 0, 0
    for chosen in combinations(range(n + window), window):  # the ranks of the window's values
        reference = [rank for rank in range(n + window) if rank not in chosen]
        hits += sum(rank < reference[place - 1] for rank in chosen) >= least
        all_ += 1
    assert median_below(place, n, window) == pytest.approx(hits / all_)
