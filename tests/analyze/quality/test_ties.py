"""Margins at a divergence and what counts as a near tie."""

import pytest

from loadgen.analyze import Margin, NearTieLimit, margin, near_tie, near_tie_limit


def test_margin_is_the_wider_of_both_arms() -> None:
    base, cand = {"a": -0.7, "b": -0.75, "c": -3.0}, {"b": -0.6, "a": -0.9}
    assert margin(base, cand, "a", "b").nat == pytest.approx(0.3)
    assert margin(cand, base, "b", "a") == margin(base, cand, "a", "b")


def test_a_token_that_is_not_told_bounds_the_margin() -> None:
    found = margin({"a": -0.1, "c": -2.6}, {"a": -0.2, "b": -0.3}, "a", "b")
    assert found.nat == pytest.approx(2.5)
    assert found.at_least
    assert near_tie(found, NearTieLimit()) is False
    close = margin({"a": -0.1, "c": -0.15}, {"a": -0.2, "b": -0.25}, "a", "b")
    assert near_tie(close, NearTieLimit()) is None, "it may be 0.05 nat or 5"
    assert margin({"c": -1.0}, {"a": -1.0, "b": -1.0}, "a", "b") == Margin(0.0, at_least=True)


@pytest.mark.parametrize(("base", "ours"), [({}, "a"), ({"a": -1.0}, "b")])
def test_margin_needs_two_tokens_and_both_arms(base: dict[str, float], ours: str) -> None:
    with pytest.raises(ValueError, match="two tokens"):
        margin(base, {"a": -1.0}, ours, "b")


def test_limit_is_p99_of_the_floor_but_at_least_a_tenth_of_a_nat() -> None:
    assert near_tie_limit([]) == NearTieLimit(0.1, 0)
    assert near_tie_limit([Margin(0.02)] * 5) == NearTieLimit(0.1, 5)
    assert near_tie_limit([Margin(i / 100) for i in range(1, 201)]) == NearTieLimit(1.98, 200)


def test_near_tie_at_the_limit() -> None:
    limit = NearTieLimit(0.25, 10)
    assert near_tie(Margin(0.25), limit) is True
    assert near_tie(Margin(0.26), limit) is False
    assert near_tie(None, limit) is None
