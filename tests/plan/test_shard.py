"""H14: any number of workers drive the same plan, each its own part of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.plan import ClosedLoop, Executor, OpenLoop, Segment, shard

QUICK = settings(deadline=None, max_examples=60)


def segment(load: OpenLoop | ClosedLoop) -> Segment:
    executor: Executor = "arrival_rate" if isinstance(load, OpenLoop) else "concurrency"
    return Segment(0, "only", "measure", "s", 0, 0, 0, 0, executor, None, None, None, load)


def closed(slots: int, cases: int | None, first: int = 0, step: int = 1) -> Segment:
    start = np.arange(slots, dtype=np.int64)
    return segment(ClosedLoop(start, start + 100, first, step, cases, "first"))


def parts_of(whole: Segment, n: int) -> list[OpenLoop | ClosedLoop]:
    return [shard(whole, i, n).load for i in range(n)]


@QUICK
@given(st.lists(st.integers(0, 10**12)), st.integers(1, 40), st.integers(1, 50))
def test_open_loop_parts_are_the_whole(due: list[int], n: int, most: int) -> None:
    due_ns = np.array(sorted(due), dtype=np.int64)
    index = np.arange(len(due), dtype=np.int64)
    parts = [p for p in parts_of(segment(OpenLoop(due_ns, index, most, "drop")), n) if isinstance(p, OpenLoop)]
    assert len(parts) == n
    assert sum(p.max_in_flight for p in parts) == most
    assert sorted(np.concatenate([p.index for p in parts]).tolist()) == index.tolist()
    for part in parts:
        assert np.array_equal(part.due_ns, due_ns[part.index])
        assert (np.diff(part.index) > 0).all()
        assert part.max_in_flight > 0 or len(part.index) == 0
    if n <= most:
        assert [p.index.tolist() for p in parts] == [index[i::n].tolist() for i in range(n)]


@QUICK
@given(st.integers(1, 40), st.integers(0, 200), st.integers(1, 50))
def test_closed_loop_parts_are_the_whole(slots: int, cases: int, n: int) -> None:
    parts = [p for p in parts_of(closed(slots, cases), n) if isinstance(p, ClosedLoop)]
    assert sorted(np.concatenate([p.start_ns for p in parts]).tolist()) == list(range(slots))
    taken = [[p.first_index + k * p.index_step for k in range(p.cases or 0)] for p in parts]
    assert sorted(i for part in taken for i in part) == list(range(cases))
    assert all(len(p.start_ns) > 0 or p.cases == 0 for p in parts), "cases without a slot would never be sent"
    assert all(np.array_equal(p.stop_ns, p.start_ns + 100) for p in parts)


@QUICK
@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 100))
def test_a_part_can_be_parted_again(n: int, m: int, cases: int) -> None:
    taken = []
    for part in (shard(closed(64, cases), i, n) for i in range(n)):
        for load in parts_of(part, m):
            assert isinstance(load, ClosedLoop)
            taken += [load.first_index + k * load.index_step for k in range(load.cases or 0)]
    assert sorted(taken) == list(range(cases))


def test_unbounded_loops_take_every_nth_index() -> None:
    loads = parts_of(closed(7, None), 3)
    facts = [(p.first_index, p.index_step, p.cases, p.start_ns.tolist()) for p in loads if isinstance(p, ClosedLoop)]
    assert facts == [(0, 3, None, [0, 3, 6]), (1, 3, None, [1, 4]), (2, 3, None, [2, 5])]


@pytest.mark.parametrize(("i", "n"), [(0, 0), (3, 3), (-1, 2)])
def test_no_such_shard(i: int, n: int) -> None:
    with pytest.raises(ValueError, match="no shard"):
        shard(closed(2, 5), i, n)
