"""Part i of n of a segment: the same load for any number of workers."""

from __future__ import annotations

from dataclasses import replace

from loadgen.plan.types import ClosedLoop, OpenLoop, Segment


def shard(segment: Segment, i: int, n: int) -> Segment:
    """What worker `i` (from 0) of `n` drives. The parts are disjoint, in order, and together the whole.

    Open loop: arrivals i, i + n, …; `max_in_flight` is split, the remainder to the first. Closed loop:
    slots i, i + n, … with the indices and the number of cases that belong to them. Where there are fewer slots
    (or places in flight) than workers, only so many workers get work: the others' parts are empty.

    ValueError: not 0 ≤ i < n.
    """
    if not 0 <= i < n:
        raise ValueError(f"no shard {i} of {n}")
    load = segment.load
    if isinstance(load, OpenLoop):
        return replace(segment, load=_open(load, i, n))
    return replace(segment, load=_closed(load, i, n))


def _open(load: OpenLoop, i: int, n: int) -> OpenLoop:
    working = min(n, load.max_in_flight)
    taken = slice(i, None, working) if i < working else slice(0, 0)
    places = load.max_in_flight // n + (i < load.max_in_flight % n)
    return replace(load, due_ns=load.due_ns[taken], index=load.index[taken], max_in_flight=places)


def _closed(load: ClosedLoop, i: int, n: int) -> ClosedLoop:
    working = max(1, min(n, len(load.start_ns)))
    taken = slice(i, None, working) if i < working else slice(0, 0)
    cases = load.cases
    if cases is not None:
        cases = max(0, (cases - i + working - 1) // working) if i < working else 0
    return replace(
        load,
        start_ns=load.start_ns[taken],
        stop_ns=load.stop_ns[taken],
        first_index=load.first_index + i * load.index_step,
        index_step=load.index_step * working,
        cases=cases,
    )
