"""The best draft length, and which cannot be told from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.analyze import best_k
from loadgen.analyze.columns import Floats

KS = np.array([0, 1, 2, 3, 5, 8])
NET = np.array([100.0, 150.0, 180.0, 195.0, 190.0, 160.0])


def visits(net: Floats, noise: float, seed: int, drift: float = 0.0) -> Floats:
    random = np.random.default_rng(seed)
    logs = noise * random.standard_normal((len(net), 3)) + drift * random.standard_normal(3)
    return net[:, None] * np.exp(logs)


def test_best_of_the_engine_is_the_true_best_or_within_its_interval(k_sweeps: Any) -> None:
    """The truth is the best of all seeds together, 40 visits a draft length."""
    pooled = np.mean([np.log(sweep.net) for sweep in k_sweeps], axis=(0, 2))
    truth = int(KS[pooled.argmax()])
    assert 1 < truth < 8, "the best lies inside the tested draft lengths"
    found = [best_k(KS, sweep.net) for sweep in k_sweeps]
    assert sum(f.k == truth or truth in (f.candidates or ()) for f in found) >= 19
    assert all(f.over_off is not None and f.over_off > 1.5 and 0 not in (f.candidates or ()) for f in found)


def test_drift_between_repeats_does_not_blur_the_comparison() -> None:
    clear = best_k(KS, visits(NET, 0.01, 1, drift=0.3))
    blurred = best_k(KS, visits(NET, 0.01, 1, drift=0.3), paired=False)
    assert clear.paired
    assert set(clear.candidates or ()) <= {3, 5}
    assert len(blurred.candidates or ()) > len(clear.candidates or ())


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.1])
def test_the_true_best_is_among_the_candidates(noise: float) -> None:
    found = [best_k(KS, visits(NET, noise, seed)) for seed in range(200)]
    assert sum(3 in (f.candidates or ()) for f in found) >= 190


def test_clear_cases_have_one_candidate() -> None:
    found = best_k(KS, visits(NET, 0.0, 1))
    assert (found.k, found.low, found.high, found.candidates) == (3, 3, 3, (3,))
    assert found.value == pytest.approx(195)
    assert found.over_off == pytest.approx(1.95)
    assert found.reason is None


def test_off_is_said_where_it_is_best() -> None:
    """D28: drafting that costs more than it brings, however high acceptance is."""
    losing = np.array([100.0, 95.0, 90.0, 85.0, 70.0, 50.0])
    assert best_k(KS, visits(losing, 0.001, 1)).reason == "off is best"
    unsure = best_k(KS, visits(losing, 0.05, 3))
    assert unsure.k == 0
    assert (unsure.reason or "").startswith("off is best, but not told from k = 1")
    level = best_k(KS, visits(np.array([100.0, 101, 99, 90, 80, 70]), 0.03, 2))
    assert 0 in (level.candidates or ())


def test_one_visit_has_a_best_and_no_interval() -> None:
    found = best_k(KS, NET[:, None])
    assert (found.k, found.low, found.high, found.candidates) == (3, None, None, None)
    assert found.reason == "not enough data for a comparison: every draft length was visited once"


def test_incomplete_repeats_are_kept_and_not_paired() -> None:
    net = visits(NET, 0.01, 1)
    net[2, 1] = np.nan
    found = best_k(KS, net)
    assert found.n == 17
    assert not found.paired
    assert found.reason == "repeats are incomplete: not compared within themselves; 1 of 18 observations are absent"


def test_nothing_measured() -> None:
    found = best_k(KS, np.full((6, 2), np.nan))
    assert (found.k, found.value, found.candidates) == (None, None, None)
    assert (found.reason or "").startswith("nothing was measured")
    assert best_k(KS[:1], NET[:1, None]).reason == "only one draft length was measured; off is best"


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.permutations(range(6)), st.permutations(range(3)), st.floats(1e-3, 1e6))
def test_invariant_to_order_and_scale(seed: int, rows: list[int], columns: list[int], scale: float) -> None:
    net = visits(NET, 0.05, seed)
    one, other = best_k(KS, net), best_k(KS[rows], scale * net[rows][:, columns])
    assert (one.k, one.candidates) == (other.k, other.candidates)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=2, max_size=2), max_size=6))
def test_never_crashes_and_says_why(rows: list[list[float]]) -> None:
    found = best_k(np.arange(len(rows)), np.array(rows, dtype=np.float64).reshape(len(rows), 2))
    assert found.k is not None or found.reason
    assert found.candidates is None or found.k in found.candidates
