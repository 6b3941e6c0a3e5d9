"""The knee: where it is by construction, and nowhere where there is none."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.analyze import Knee, knee
from loadgen.analyze.columns import Floats
from server_adapters.rehearsal import EngineConfig, Roofline

LEVELS = np.array([1, 2, 4, 8, 16, 32, 64, 128], dtype=np.float64)
Loop = Callable[..., object]


def repeats(curve: Floats, noise: float, seed: int, times: int = 3) -> Floats:
    """(L, times) with log-normal noise."""
    return curve[:, None] * np.exp(noise * np.random.default_rng(seed).standard_normal((len(curve), times)))


def grid_steps(found: Knee, truth: float) -> float:
    assert found.level is not None, found.reason
    return abs(math.log2(found.level / truth))


@pytest.fixture(scope="session")
def simulated(loop) -> list[tuple[float, Knee]]:  # type: ignore[no-untyped-def]
    """Truth and knee of 20 seeds: engines that run at most 6, 12 or 24 requests at once."""
    found = []
    for seed in range(20):
        slots = (6, 12, 24)[seed % 3]
        config = EngineConfig(max_num_seqs=slots, jitter=0.1)
        visits = [
            [
                loop(0, int(n), 10 * seed + r, cases=max(12, int(1.5 * n)), max_tokens=10, config=config)
                for r in range(2)
            ]
            for n in LEVELS[:7]
        ]
        rates = np.array([[run.throughput for run in row] for row in visits])
        latency = np.array([[run.latency for run in row] for row in visits])
        found.append((float(slots), knee(LEVELS[:7], rates, latency, seed=seed)))
    return found


def test_knee_of_the_engine_is_within_one_grid_step(simulated: list[tuple[float, Knee]]) -> None:
    """H13: each level is measured by itself; the knee is where the engine runs no more requests at once."""
    assert sum(found.level is not None and grid_steps(found, truth) <= 1 for truth, found in simulated) >= 19
    assert sum(found.level is not None and grid_steps(found, truth) <= 0.25 for truth, found in simulated) >= 19


def test_the_engine_is_saturated_from_about_the_knee_on(simulated: list[tuple[float, Knee]]) -> None:
    for truth, found in simulated:
        assert found.saturated is not None
        start, end = found.saturated
        assert 0.7 * truth < start < 2 * truth
        assert end == 64


def test_measured_power_agrees_with_the_curve(simulated: list[tuple[float, Knee]]) -> None:
    """Throughput ÷ latency, from other data, peaks at a neighbouring level."""
    assert all(found.peak_power is not None and grid_steps(found, found.peak_power) <= 1 for _, found in simulated)


def roofline_curve(levels: Floats, k: int) -> Floats:
    """Rounds per second of a steady batch of 8 drafts a round: bound by memory, then by arithmetic."""
    roofline = Roofline("h200", "70b", "1b")
    tokens = [(int(n * (k + 1)), int(n * 200)) for n in levels]
    steps = [roofline.forward_s(roofline.target, new, new * 200, context) for new, context in tokens]
    return levels / np.array(steps)


def test_knee_of_a_roofline_is_where_twice_the_load_brings_less_than_half_more() -> None:
    """A bend that is not a kink: the elasticity of the fine curve falls to 1/2 at the truth."""
    fine = np.unique(np.geomspace(1, 512, 2000).astype(int)).astype(np.float64)
    elasticity = np.gradient(np.log(roofline_curve(fine, 8)), np.log(fine))
    truth = float(fine[np.argmax(elasticity < 0.5)])
    assert 10 < truth < 40
    near = [knee(LEVELS, repeats(roofline_curve(LEVELS, 8), 0.03, seed), seed=seed) for seed in range(20)]
    assert sum(found.level is not None and grid_steps(found, truth) <= 0.5 for found in near) >= 19


@pytest.mark.parametrize("truth", [3.0, 10.0, 30.0])
def test_interval_covers_the_asymptotes_crossing(truth: float) -> None:
    """Smooth saturation n ÷ (1 + n/t): its asymptotes cross at t, where its elasticity is 1/2."""
    curve = LEVELS / (1 + LEVELS / truth)
    found = [knee(LEVELS, repeats(curve, 0.03, seed), seed=seed) for seed in range(20)]
    inside = sum(f.low is not None and f.high is not None and f.low <= truth <= f.high for f in found)
    assert inside >= 18
    assert all(grid_steps(f, truth) <= 1 for f in found)


def test_throughput_may_fall_beyond_the_knee() -> None:
    curve = np.minimum(LEVELS, 16.0) * np.where(LEVELS > 16, (16 / LEVELS) ** 0.3, 1.0)
    found = knee(LEVELS, repeats(curve, 0.02, 1))
    assert grid_steps(found, 16) < 0.3


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("slope", [1.0, 0.8])
def test_no_knee_on_a_line(noise: float, slope: float) -> None:
    for seed in range(6):
        found = knee(LEVELS, repeats(LEVELS**slope, noise, seed), seed=seed)
        assert found.level is None
        assert found.saturated is None
        assert found.reason is not None
        assert found.reason.startswith("no knee")


@pytest.mark.parametrize("noise", [0.02, 0.1, 1.0])
def test_no_false_knee_in_noise_alone(noise: float) -> None:
    levels = [knee(LEVELS, repeats(np.full(8, 500.0), noise, seed), seed=seed).level for seed in range(20)]
    assert levels.count(None) >= 19


def test_says_which_side_the_knee_is_on() -> None:
    rising = knee(LEVELS, repeats(LEVELS, 0.01, 1))
    assert rising.reason == "no knee within the tested range: throughput still rises at 128 (tested 1 to 128)"
    assert (rising.level, rising.low, rising.high) == (None, 128, None)
    flat = knee(LEVELS, repeats(np.full(8, 9.0), 0.01, 1))
    assert flat.reason == "no knee within the tested range: throughput no longer rises at 1 (tested 1 to 128)"
    assert (flat.level, flat.low, flat.high) == (None, None, 1)


def test_one_visit_a_level_has_an_interval_from_the_scatter() -> None:
    curve = np.minimum(LEVELS, 20.0)
    found = knee(LEVELS, repeats(curve, 0.02, 3, times=1))
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 20 <= found.high
    few = knee(LEVELS[2:7], repeats(curve, 0.0, 0, times=1)[2:7])
    assert grid_steps(few, 20) < 0.3
    assert (few.low, few.high) == (None, None)
    assert "not enough data for an interval" in (few.reason or "")


def test_distorted_level_widens_the_interval() -> None:
    """H13: one level that a client or a neighbour distorted makes the knee less certain, not another knee."""
    curve = repeats(np.minimum(LEVELS, 20.0), 0.01, 1)
    bent = curve.copy()
    bent[3] *= 0.75
    clean, found = knee(LEVELS, curve), knee(LEVELS, bent)
    assert clean.low is not None
    assert clean.high is not None
    assert found.low is None or found.high is None or found.high / found.low > clean.high / clean.low
    assert found.level is None or grid_steps(found, 20) <= 1


def test_drift_from_pass_to_pass_is_no_noise() -> None:
    curve = repeats(np.minimum(LEVELS, 20.0), 0.01, 1)
    still, drifting = knee(LEVELS, curve), knee(LEVELS, curve * np.array([1.0, 1.4, 0.7]))
    assert (drifting.level, drifting.low, drifting.high) == pytest.approx((still.level, still.low, still.high))


@pytest.mark.parametrize(
    "values",
    [
        np.full((8, 3), np.nan),
        np.zeros((8, 3)),
        np.full((8, 3), np.inf),
        np.ones((8, 0)),
        -np.ones((8, 2)),
    ],
)
def test_absent_values_are_reasons(values: Floats) -> None:
    found = knee(LEVELS, values)
    assert (found.level, found.n) == (None, 0)
    assert "not enough data: a knee needs 4 levels" in (found.reason or "")


def test_absent_observations_are_counted() -> None:
    curve = repeats(np.minimum(LEVELS, 20.0), 0.02, 1)
    curve[2] = np.nan
    curve[5, 1] = np.nan
    found = knee(LEVELS, curve)
    assert grid_steps(found, 20) < 0.5
    assert found.n == 20
    assert found.reason == "4 of 24 observations are absent, all of 4"


def test_wrong_shapes_are_errors() -> None:
    with pytest.raises(ValueError, match="values expected"):
        knee(LEVELS, np.ones(8))
    with pytest.raises(ValueError, match="given twice"):
        knee(np.ones(8), np.ones((8, 2)))
    with pytest.raises(ValueError, match="differ in shape"):
        knee(LEVELS, np.ones((8, 2)), np.ones((8, 3)))


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 1000),
    truth=st.floats(3, 60),
    scale=st.floats(1e-3, 1e6),
    stretch=st.floats(0.1, 50),
    data=st.data(),
)
def test_invariant_to_order_and_scale(
    seed: int, truth: float, scale: float, stretch: float, data: st.DataObject
) -> None:
    values = repeats(np.minimum(LEVELS, truth), 0.02, seed)
    one = knee(LEVELS, values, 1 / values)
    rows, columns = data.draw(st.permutations(range(8))), data.draw(st.permutations(range(3)))
    other = knee(LEVELS[rows] * stretch, scale * values[rows][:, columns], 1 / values[rows][:, columns])
    assert (one.level is None) == (other.level is None)
    for a, b in ((one.level, other.level), (one.low, other.low), (one.high, other.high)):
        assert (a is None) == (b is None)
        assert a is None or b == pytest.approx(a * stretch, rel=0.02)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=2, max_size=2), max_size=9),
    st.integers(1, 3),
)
def test_never_crashes_and_says_why(rows: list[list[float]], first: int) -> None:
    values = np.array(rows, dtype=np.float64).reshape(len(rows), 2)
    found = knee(np.arange(first, first + len(rows), dtype=np.float64), values)
    assert found.level is not None or found.reason
    for number in (found.level, found.low, found.high):
        assert number is None or math.isfinite(number)
