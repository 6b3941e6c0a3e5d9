"""The cost line c(k) = 1 + a + b·k, and the split of a round."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.analyze import fit_cost, split_round
from loadgen.analyze.columns import Floats

KS = np.array([0, 1, 2, 3, 5, 8])


def ratios(a: float, b: float, noise: float = 0.0, seed: int = 0, times: int = 3) -> Floats:
    line = np.where(KS > 0, 1 + a + b * KS, 1.0)
    return line[:, None] * np.exp(noise * np.random.default_rng(seed).standard_normal((len(KS), times)))


def test_line_is_exact() -> None:
    found = fit_cost(KS, ratios(0.1, 0.15))
    assert found.intercept is not None
    assert found.per_draft is not None
    assert (found.intercept.value, found.per_draft.value) == (pytest.approx(0.1), pytest.approx(0.15))
    assert (found.label, found.fits, found.n) == ("estimate", True, 15)
    at = found.at(4)
    assert at is not None
    assert (at.value, at.label) == (pytest.approx(1.7), "estimate")
    off = found.at(0)
    assert off is not None
    assert (off.value, off.low, off.high) == (1.0, 1.0, 1.0)


def test_intervals_cover() -> None:
    hits = np.zeros(3)
    for seed in range(200):
        found = fit_cost(KS, ratios(0.1, 0.15, 0.03, seed))
        at = found.at(4)
        assert found.intercept is not None
        assert found.per_draft is not None
        assert at is not None
        for i, (part, truth) in enumerate(((found.intercept, 0.1), (found.per_draft, 0.15), (at, 1.7))):
            assert part.low is not None
            assert part.high is not None
            hits[i] += part.low <= truth <= part.high
    assert (hits >= 185).all()


def test_of_the_engine_is_the_time_of_its_drafts(k_sweeps: Any) -> None:
    """The engine tells its drafting time; a line through c, which knows nothing of it, finds it."""
    good = 0
    for sweep in k_sweeps:
        line = fit_cost(KS, sweep.step_ratio)
        plain_step = float(np.mean([run.tpot * run.e_decode for run in sweep.runs[0]]))
        steps = [s for run in sweep.runs[5] for s in run.simulation.steps if s.prefill_tokens == 0]
        truth = float(np.mean([s.draft_time_s for s in steps]))
        assert line.per_draft is not None
        good += abs(line.per_draft.value * 5 * plain_step / truth - 1) < 0.25
    assert good >= 19


def test_split_is_an_estimate_of_both_parts() -> None:
    found = split_round(fit_cost(KS, ratios(0.1, 0.15, 0.001)), 4, 0.02, autoregressive=True)
    assert found.draft_time_s == pytest.approx(4 * 0.15 * 0.02, rel=0.02)
    assert found.verify_time_s == pytest.approx(1.1 * 0.02, rel=0.02)
    assert found.draft_low_s is not None
    assert found.draft_high_s is not None
    assert found.draft_low_s < 0.012 < found.draft_high_s
    assert (found.label, "upper bound" in (found.reason or "")) == ("estimate", True)


def curved() -> Floats:
    return ratios(0.1, 0.15, 0.001, 1) + np.where(KS == 8, 1.0, 0.0)[:, None]


@pytest.mark.parametrize(
    ("c", "k", "step_s", "autoregressive", "words"),
    [
        (ratios(0.1, 0.15, 0.001), 4, 0.02, False, "one after the other"),
        (ratios(0.1, 0.15, 0.001), 0, 0.02, True, "nothing to split"),
        (ratios(0.1, 0.15, 0.001), 4, math.nan, True, "not known"),
        (ratios(0.1, 0.15, 0.001, times=1), 4, 0.02, True, "was not shown"),
        (curved(), 4, 0.02, True, "was not shown"),
        (ratios(0.1, 0.0, 0.01), 4, 0.02, True, "does not rise"),
        (np.full((6, 3), np.nan), 4, 0.02, True, "not enough data"),
    ],
)
def test_split_is_refused_with_a_reason(c: Floats, k: int, step_s: float, autoregressive: bool, words: str) -> None:
    found = split_round(fit_cost(KS, c), k, step_s, autoregressive=autoregressive)
    assert (found.draft_time_s, found.draft_low_s, found.verify_time_s) == (None, None, None)
    assert words in (found.reason or "")


def test_points_off_the_line_are_said() -> None:
    found = fit_cost(KS, curved())
    assert (found.fits, found.reason) == (False, "the points do not follow a line")
    assert found.residual is not None
    assert found.residual > 0.1


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.permutations(range(6)))
def test_invariant_to_order(seed: int, rows: list[int]) -> None:
    c = ratios(0.1, 0.15, 0.03, seed)
    one, other = fit_cost(KS, c), fit_cost(KS[rows], c[rows])
    assert one.per_draft is not None
    assert other.per_draft is not None
    assert other.per_draft.value == pytest.approx(one.per_draft.value)
    assert other.per_draft.low == pytest.approx(one.per_draft.low)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=2, max_size=2), max_size=6))
def test_never_crashes_and_says_why(rows: list[list[float]]) -> None:
    found = fit_cost(np.arange(len(rows)), np.array(rows, dtype=np.float64).reshape(len(rows), 2))
    assert found.per_draft is not None or found.reason
    split_round(found, 2, 0.02, autoregressive=True)
