"""Intervals of two runs made apart."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from loadgen.analyze import Estimate, Query
from loadgen.verdict import Unpaired

WHERE = (("arm", "candidate"),)


class Told:
    def __init__(self, *numbers: Any, arm: str = "candidate") -> None:
        self.numbers, self.arm = numbers, arm
        self.asked: list[tuple[Query, float]] = []

    def estimate(self, query: Query, level: float) -> Estimate:
        self.asked.append((query, level))
        assert dict(query.where)["arm"] == self.arm
        value, low, high = self.numbers
        reason = "too few" if low is None else None
        return Estimate(value, low, high, 100, "requests", "by hand", "test", reason, level)


def joined(query: Query, mine: tuple[Any, ...], base: tuple[Any, ...]) -> Estimate:
    one, other = Told(*base, arm="baseline"), Told(*mine)
    found = Unpaired(one, other, {"candidate": "baseline"}, lambda where: "net_throughput").estimate(query, 0.95)
    assert {level for _, level in (*one.asked, *other.asked)} <= {0.95, 0.975}
    return found


@pytest.mark.parametrize(
    ("relative", "mine", "base", "expected"),
    [
        ("ratio", (2.0, 1.5, 3.0), (1.0, 0.5, 1.5), (2.0, 1.0, 6.0)),
        ("difference", (2.0, 1.5, 3.0), (1.0, 0.5, 1.5), (1.0, 0.0, 2.5)),
        (None, (2.0, 1.5, 3.0), (nan, nan, nan), (2.0, 1.5, 3.0)),
        ("ratio", (inf, 3.0, inf), (1.0, 0.5, 1.5), (inf, 2.0, inf)),
        ("ratio", (2.0, 1.5, 3.0), (inf, 1.0, inf), (0.0, 0.0, 3.0)),
        ("ratio", (inf, 3.0, inf), (inf, 1.0, inf), (None, None, None)),
        ("difference", (inf, inf, inf), (inf, inf, inf), (None, None, None)),
        ("ratio", (1.0, 0.5, 2.0), (1.0, 0.0, 2.0), (1.0, None, None)),
        ("ratio", (2.0, None, None), (1.0, 0.5, 1.5), (2.0, None, None)),
    ],
)
def test_joining_two_intervals(relative: Any, mine: Any, base: Any, expected: tuple[float | None, ...]) -> None:
    """F12: no NaN: two infinities, or a baseline that may be 0, tell nothing."""
    found = joined(Query("ttft_s", "p95", WHERE, relative), mine, base)
    assert (found.value, found.low, found.high) == expected
    assert found.level == 0.95
    assert (found.low is None) == (found.reason is not None)


@pytest.mark.parametrize(
    ("metric", "asked", "expected"),
    [
        ("speedup", ("net_tokens_per_s", "value"), 2.0),
        ("speedup_net", ("net_tokens_per_s", "value"), 2.0),
        ("speedup_decode", ("tpot_s", "pooled"), 0.5),
        ("speedup_total_time", ("total_time_s", "avg"), 0.5),
    ],
)
def test_speedups_are_ratios_of_one_number_of_each(metric: str, asked: tuple[str, str], expected: float) -> None:
    one, other = Told(1.0, 0.9, 1.1, arm="baseline"), Told(2.0, 1.9, 2.1)
    found = Unpaired(one, other, {"candidate": "baseline"}, lambda where: "net_throughput").estimate(
        Query(metric, "value", WHERE), 0.95
    )
    assert found.value == expected
    assert {(query.metric, query.aggregate) for query, _ in (*one.asked, *other.asked)} == {asked}
    assert found.low is not None
    assert found.high is not None
    assert found.low < expected < found.high


@pytest.mark.parametrize(
    ("kind", "asked", "value", "words"),
    [
        ("net_throughput", ("net_tokens_per_s", "value"), 2.0, "net throughput: ratio of two runs"),
        ("tpot", ("tpot_s", "pooled"), 0.5, "time per token: ratio of two runs"),
        (None, None, None, "closed and open loops have no speedup in common"),
    ],
)
def test_the_load_decides_of_what_a_speedup_is(kind: Any, asked: Any, value: float | None, words: str) -> None:
    """C18: under an open loop both deliver what was asked."""
    one, other = Told(1.0, 0.9, 1.1, arm="baseline"), Told(2.0, 1.9, 2.1)
    found = Unpaired(one, other, {"candidate": "baseline"}, lambda where: kind).estimate(
        Query("speedup", "value", WHERE), 0.95
    )
    assert found.value == value
    assert words in (found.reason if kind is None else found.method)
    assert {(query.metric, query.aggregate) for query, _ in other.asked} == ({asked} if asked else set())


def test_what_each_run_says_of_its_number_is_kept() -> None:
    """F10: also beside an interval."""

    class Noted(Told):
        def estimate(self, query: Query, level: float) -> Estimate:
            return replace(super().estimate(query, level), reason=f"2 requests of {self.arm} left out")

    one, other = Noted(1.0, 0.9, 1.1, arm="baseline"), Noted(2.0, 1.9, 2.1)
    found = Unpaired(one, other, {"candidate": "baseline"}, lambda where: "tpot").estimate(
        Query("ttft_s", "avg", WHERE, "ratio"), 0.95
    )
    assert found.low is not None
    assert found.reason == "2 requests of candidate left out; 2 requests of baseline left out"


def test_what_needs_one_run_says_so() -> None:
    found = joined(Query("c", "value", WHERE), (1.0, 1.0, 1.0), (1.0, 1.0, 1.0))
    assert (found.value, found.reason) == (None, "c needs both arms in one run")


def test_the_joined_interval_covers() -> None:
    """Two independent normal means, known spread: the ratio's interval holds the truth in at least 95 of 100."""
    rng, n = np.random.default_rng(5), 400
    half = 2.2414  # of the normal at 97.5 %, two-sided
    a, b = rng.normal(10, 0.3, n), rng.normal(8, 0.3, n)
    held = 0
    for mine, base in zip(a, b, strict=True):
        low, high = mine - half * 0.3, mine + half * 0.3
        found = joined(
            Query("ttft_s", "p50", WHERE, "ratio"), (mine, low, high), (base, base - half * 0.3, base + half * 0.3)
        )
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 10 / 8 <= found.high
    assert held >= 0.95 * n
