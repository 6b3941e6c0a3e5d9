"""Margins at a divergence and what counts as a near tie."""

import pytest

from loadgen.analyze import Margin, NearTieLimit, gaps_apart, margin, near_tie, near_tie_limit, with_numerics


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


def test_what_the_candidates_numerics_may_have_made_is_neither_a_near_tie_nor_a_fault() -> None:
    """Up to twice the P99 of how far the arms are apart where both say the same; never beyond 1 nat."""
    apart = [n / 1000 * (-1) ** n for n in range(1, 101)]  # P99 of 100: the 99th smallest
    found = with_numerics(NearTieLimit(0.1, 3), apart)
    assert (found.nat, found.sure_nat) == (0.1, pytest.approx(0.198))
    assert (found.n, found.positions, found.numerics_nat) == (3, 100, 0.099)
    assert [near_tie(Margin(nat), found) for nat in (0.1, 0.11, 0.19, 0.2)] == [True, None, None, False]
    assert not found.too_far
    assert near_tie(Margin(0.11), with_numerics(NearTieLimit(0.1), [0.04] * 20)) is False, "at least the baseline's"
    far = with_numerics(NearTieLimit(0.1), [0.6] * 20)
    assert (far.nat, far.sure_nat, far.too_far) == (0.1, 1.0, True)
    assert (near_tie(Margin(1.0), far), near_tie(Margin(1.01), far)) == (None, False)


def test_a_limit_that_no_rounding_makes_is_told() -> None:
    """Up to a hundred of them their P99 is the largest: one garbled answer of the baseline."""
    limits = [near_tie_limit([Margin(0.02)] * 9 + [Margin(nat)]) for nat in (1.0, 12.0)]
    assert [(limit.nat, limit.too_wide) for limit in limits] == [(1.0, False), (12.0, True)]


def test_without_numerics_a_margin_up_to_a_nat_is_not_known() -> None:
    few = with_numerics(NearTieLimit(0.1), [0.01] * 19)
    assert (few.nat, few.positions, few.numerics_nat) == (0.1, 19, None)
    assert [near_tie(Margin(nat), few) for nat in (0.1, 0.11, 1.0, 1.01)] == [True, None, None, False]
    assert near_tie(Margin(0.5, at_least=True), few) is None
    assert near_tie(Margin(2.0, at_least=True), few) is False


def test_gaps_are_compared_up_to_where_the_arms_choose_differently() -> None:
    base = [("a", {"a": -0.1, "b": -2.0}), ("c", {"c": -0.5, "d": -1.0, "e": -4.0}), ("f", {"f": -0.2, "g": -3.0}),
            ("h", {"h": -0.7, "i": -0.8}), ("j", {"j": 0.0, "k": -5.0})]  # fmt: skip
    other = [("a", {"a": -0.9, "b": -1.0}), ("c", {"c": -0.4, "d": -1.2}), ("f", {"f": -0.2, "h": -3.0}),
             ("i", {"h": -0.8, "i": -0.7}), ("j", {"j": -4.0, "k": -5.0})]  # fmt: skip
    # not the first (prefill), not the third (g is not told), the fourth though they part there, nothing after it
    assert gaps_apart(base, other) == [pytest.approx(0.3), pytest.approx(-0.2)]
    assert gaps_apart([("a", {"a": 0.0, "b": -9999.0})] * 2, [("a", {"a": 0.0, "b": -9999.0})] * 2) == []
