"""Numbers as people read them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.report import percent, ratio, seconds
from loadgen.report.format import significant, sparkline


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (0.00123, "0.00123"), (0.0123, "0.0123"), (0.123, "0.123"), (1.234, "1.23"), (12.34, "12.3"),
        (123.4, "123"), (1234.5, "1,234"), (-12.34, "-12.3"),
    ],
)  # fmt: skip
def test_three_significant_digits(value: float, text: str) -> None:
    assert significant(value) == text


@given(st.floats(min_value=1e-6, max_value=1e6))
def test_shown_value_is_within_half_a_percent(value: float) -> None:
    assert math.isclose(float(significant(value).replace(",", "")), value, rel_tol=0.0051)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.0605, "60.5\u00a0ms"), (3e-6, "3.00\u00a0µs"), (1.5, "1.50\u00a0s"), (600.0, "10.0\u00a0min")],
)
def test_seconds_take_the_unit_that_fits(value: float | None, text: str) -> None:
    assert seconds(value) == text


def test_absent_is_a_dash_never_zero() -> None:
    assert percent(None) == ratio(None) == "–"
    assert percent(0.0) == "0.0\u00a0%"


def test_sparkline_leaves_gaps_for_absent_values() -> None:
    assert sparkline([0.0, None, 0.5, 1.0], low=0, high=1) == "▁ ▅█"
    assert sparkline([]) == ""
    assert sparkline([2.0, 2.0]) == "▁▁"
