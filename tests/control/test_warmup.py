"""Warm-up ends when three windows agree, or at its limit, and says which."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.control import Settling, WarmUpWindow, settle


def windows(*seconds: float | None) -> list[WarmUpWindow]:
    return [WarmUpWindow(8, 8, s) for s in seconds]


@pytest.mark.parametrize(
    ("seconds", "over", "settled"),
    [
        ([0.02], False, False),
        ([0.02, 0.02], False, False),
        ([0.02, 0.0205, 0.0209], True, True),
        ([0.02, 0.0205, 0.0211], False, False),
        ([0.09, 0.03, 0.02, 0.02, 0.02], True, True),
        ([0.02, 0.02, None], False, False),
        ([0.02, 0.03, 0.02, 0.03, 0.02, 0.03], True, False),
    ],
)
def test_three_windows_in_a_row_must_agree(seconds: list[float | None], over: bool, settled: bool) -> None:
    found = settle(windows(*seconds), 0.05, 6)
    assert (found.over, found.settled) == (over, settled)


def test_the_limit_says_why_it_is_not_settled() -> None:
    found = settle(windows(0.02, 0.03, 0.02, 0.03), 0.05, 4)
    assert found.reason == "not settled after 4 windows: the last three differ by 50.0%, and 5% is asked for"
    assert found.spread == pytest.approx(0.5)
    assert settle(windows(None, None, None), 0.05, 3).reason.endswith("the last three windows had no tokens")
    assert settle(windows(0.02, 0.02), 0.05, 2).reason.endswith("there were fewer than three windows")


def test_a_stated_amount_is_enough() -> None:
    assert settle(windows(0.02), 0.05, 1) == Settling(True, None, None, "as much warm-up as the scenario says")


@given(st.lists(st.none() | st.floats(0, 10, allow_nan=False), min_size=1, max_size=12), st.integers(1, 12))
def test_it_always_ends(seconds: list[float | None], most: int) -> None:
    found = settle(windows(*seconds), 0.05, most)
    assert found.over or len(seconds) < most
    assert found.over == (found.settled is not False) or len(seconds) >= most
