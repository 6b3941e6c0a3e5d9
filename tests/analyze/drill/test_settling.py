"""When latency is back: chance alone does not make a perfect switch look late, and a real transient is found."""

from __future__ import annotations

import numpy as np
import pytest

from loadgen.analyze.drill.settling import settled

N, WINDOW, STEP_NS = 120, 10, 250_000_000


def at_s(values: np.ndarray, window: int = WINDOW) -> float | None:
    sent = np.arange(len(values)) * STEP_NS
    return settled("tpot_s", sent, values, 0, len(values) * STEP_NS, window).at_s.value


def drawn(seed: int, correlated: float) -> np.ndarray:
    """Log-normal latencies of a steady server, each sharing `correlated` with the one before."""
    noise = np.random.default_rng(seed).standard_normal(N)
    for i in range(1, N):
        noise[i] = correlated * noise[i - 1] + np.sqrt(1 - correlated**2) * noise[i]
    return 0.03 * np.exp(0.3 * noise)


@pytest.mark.parametrize(("correlated", "most"), [(0.0, 0.03), (0.3, 0.06)])
def test_a_switch_that_changes_nothing_is_seldom_called_late(correlated: float, most: float) -> None:
    late = [(at_s(drawn(seed, correlated)) or 0.0) > 0 for seed in range(300)]
    assert np.mean(late) <= most


def test_a_transient_of_two_windows_is_always_seen() -> None:
    """20 requests, 5 s: the first window whose median is the steady level's begins at the 15th or later."""
    for seed in range(50):
        values = drawn(seed, 0.0)
        values[: 2 * WINDOW] *= 4
        found = at_s(values)
        assert found is not None
        assert found >= 3.5


def test_a_constant_latency_is_back_at_once_and_a_long_load_is_no_burden() -> None:
    assert at_s(np.full(N, 0.03)) == 0.0
    assert at_s(0.03 * np.exp(0.1 * np.random.default_rng(1).standard_normal(20_000))) is not None
