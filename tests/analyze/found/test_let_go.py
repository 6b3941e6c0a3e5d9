"""What runs and waits on a server against what is ours: no more than we have in flight, or somebody else's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.analyze.found.let_go import STALE_NS, InFlight, foreign, goes_on

S = 1_000_000_000


def ours(*spans: tuple[int, int]) -> InFlight:
    sent, ended = (np.sort(np.array(side, dtype=np.int64) * S) for side in zip(*spans, strict=True))
    return InFlight(sent, ended)


@pytest.mark.parametrize(
    ("begin", "end", "most"), [(0, 0, 1), (0, 4, 2), (5, 9, 2), (6, 9, 1), (11, 20, 0), (10, 20, 1), (0, 30, 3)]
)
def test_most_in_flight(begin: int, end: int, most: int) -> None:
    """Edges count: what ends at a moment is in flight at it."""
    assert ours((0, 5), (3, 10), (21, 25), (22, 30), (25, 26)).most(begin * S, end * S) == most


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), min_size=1), st.integers(0, 20), st.integers(0, 6))
def test_most_in_flight_is_what_counting_gives(spans: list[tuple[int, int]], begin: int, length: int) -> None:
    whole = [(a, a + n) for a, n in spans]
    counted = [sum(a <= t <= b for a, b in whole) for t in range(begin, begin + length + 1)]
    assert ours(*whole).most(begin * S, (begin + length) * S) == max(counted)


def test_what_just_ended_may_still_be_on_the_page() -> None:
    mine = ours((0, 10), (0, 10), (0, 100))
    last = 10 * S + STALE_NS
    assert foreign([(last, 3.0), (last + 1, 1.0), (50 * S, None)], mine) == 0
    assert foreign([(last, 4.0), (last + S, 2.0), (50 * S, 2.0)], mine) == 3


def test_it_goes_on_where_every_later_look_says_so() -> None:
    mine = ours((0, 100))
    looks = [(i * S, 5.0) for i in range(11)]
    assert goes_on(looks, mine)
    assert goes_on([(0, 1.0), (S, None), *looks[2:]], mine), "the first half may be old"
    assert not goes_on([*looks[:8], (8 * S, 1.0), *looks[9:]], mine), "once it was ours alone"
    assert not goes_on([*looks[:6], *((at, None) for at, _ in looks[6:])], mine), "one look is too few"
    assert not goes_on(looks[:1], mine)
    assert not goes_on([], mine)
