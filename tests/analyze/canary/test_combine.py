"""Two arms' estimates to one: ratio, difference, bounds."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from loadgen.analyze import Estimate
from loadgen.analyze.canary.combine import between, difference_of, ratio_of, share_of
from loadgen.analyze.statistics.ratios import ratio_of_sums_clustered


def known(value: float, low: float, high: float, n: int = 24) -> Estimate:
    return Estimate(value, low, high, n, "blocks", "by hand", "counters")


NOTHING = Estimate(None, None, None, 3, "blocks", "", "counters", "idle")


def test_a_ratio_adds_distances_in_squares() -> None:
    found = ratio_of(known(0.4, 0.2, 0.8), known(0.8, 0.4, 1.6, n=30))
    # log distances of both arms are log 2 to either side
    reach = math.exp(math.sqrt(2) * math.log(2))
    assert (found.low, found.value, found.high) == pytest.approx((0.5 / reach, 0.5, 0.5 * reach))
    assert (found.n, found.reason) == (24, None)
    alone = ratio_of(known(0.4, 0.2, 0.8), known(0.8, 0.8, 0.8))
    assert (alone.low, alone.high) == pytest.approx((0.25, 1.0))


def test_a_canary_that_accepts_nothing_has_a_ratio_of_0() -> None:
    """G15: the worst canary of all must not come out as one without data."""
    found = ratio_of(known(0.0, 0.0, 0.02), known(0.8, 0.7, 0.9))
    assert (found.low, found.value) == (0.0, 0.0)
    assert found.high == pytest.approx(0.02 / 0.7)
    almost = ratio_of(known(0.01, 0.0, 0.02), known(0.8, 0.8, 0.8))
    assert (almost.low, almost.value) == (0.0, pytest.approx(0.0125))
    assert almost.high == pytest.approx(0.025)


@pytest.mark.parametrize("combine", [ratio_of, difference_of])
def test_what_one_arm_lacks_is_said_by_its_name(combine: object) -> None:
    for canary, baseline, name in ((NOTHING, known(1, 1, 1), "canary"), (known(1, 1, 1), NOTHING, "baseline")):
        found = combine(canary, baseline)  # type: ignore[operator]
        assert (found.value, found.low, found.high, found.n, found.reason) == (None, None, None, 3, f"{name}: idle")
    only_value = replace(known(1, 1, 1), low=None, reason="too few")
    assert combine(only_value, known(1, 1, 1)).reason == "canary: too few"  # type: ignore[operator]


def test_no_ratio_to_a_baseline_that_may_be_0() -> None:
    assert ratio_of(known(0.4, 0.2, 0.8), known(0.1, 0.0, 0.2)).reason == (
        "baseline: its interval holds 0, so there is no ratio"
    )


def test_a_difference_adds_distances_in_squares() -> None:
    found = difference_of(known(0.10, 0.07, 0.16, n=100), known(0.05, 0.02, 0.09, n=200))
    assert (found.low, found.value, found.high) == pytest.approx((0.05 - 0.05, 0.05, 0.05 + math.hypot(0.06, 0.03)))
    assert found.n == 300


def test_a_share_that_was_never_seen_counts_every_request() -> None:
    """0 of 240 in 24 blocks: the upper limit is that of 240 requests, not of 24 blocks."""
    blocks = np.arange(24)
    never = share_of(np.zeros(24), np.full(24, 10.0), blocks, "blocks", "counters")
    assert (never.value, never.low, never.n) == (0.0, 0.0, 240)
    assert never.high == pytest.approx(1 - 0.025 ** (1 / 240), rel=1e-3)
    assert never.reason == "all requests agree: they count as independent"
    some = share_of((blocks % 3 == 0).astype(float), np.full(24, 10.0), blocks, "blocks", "counters")
    plain = ratio_of_sums_clustered((blocks % 3 == 0).astype(float), np.full(24, 10.0), blocks, share=True)
    assert (some.value, some.low, some.high, some.n) == (plain.value, plain.low, plain.high, 240)
    few = share_of(np.zeros(3), np.ones(3), np.arange(3), "blocks", "counters")
    assert (few.low, few.n) == (None, 3)


def test_bounds_reach_from_the_one_to_the_other() -> None:
    found = between(known(0.3, 0.25, 0.35), known(0.5, 0.45, 0.55))
    assert (found.low, found.value, found.high, found.reason) == (0.25, 0.3, 0.55, "at least; at most 0.5")
    assert between(known(0.3, 0.25, 0.35), known(0.3, 0.25, 0.35)).reason is None
