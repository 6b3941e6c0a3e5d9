"""Design blocks: a stage cut into parts that every arm is asked in turn (docs/comparison.md, "Blocks").

The blocks of a stage hold its cases once: closed loops are cut by number of requests, open loops into equal slices of
the same array of due times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil

import numpy as np

from loadgen.plan.answer import ASSUMED
from loadgen.plan.stages import StagePlan
from loadgen.plan.streams import permutation
from loadgen.plan.types import NEVER, ClosedLoop, OpenLoop
from loadgen.scenario import ROUNDS

#: Over all repeats: fewer are too few for the bootstrap of a quantile.
ENOUGH_BLOCKS = 20
#: Longer blocks are cut further: the server may drift within one.
LONGEST_BLOCK_S = 30.0
#: An open loop's slice is not cut shorter than this, or than so many expected arrivals.
SHORTEST_SLICE_S = 1.0
LEAST_ARRIVALS = 1


@dataclass(frozen=True, slots=True)
class Block:
    """One part of a stage; `duration_ns` as in `Segment`."""

    load: OpenLoop | ClosedLoop
    duration_ns: int | None


def cut(stage: StagePlan, blocks: int) -> tuple[Block, ...]:
    """`blocks` parts of the stage's load. Sizes of a closed loop's parts differ by one request at most."""
    if blocks == 1:
        return (Block(stage.load, stage.duration_ns),)
    if isinstance(stage.load, OpenLoop):
        return _slices(stage.load, stage.duration_ns or 0, blocks)
    return _parts(stage.load, stage.duration_ns, blocks)


def _slices(load: OpenLoop, duration_ns: int, blocks: int) -> tuple[Block, ...]:
    ends = [duration_ns * i // blocks for i in range(blocks + 1)]
    at = np.searchsorted(load.due_ns, ends, side="left").tolist()
    at[-1] = len(load.due_ns)
    return tuple(
        Block(replace(load, due_ns=load.due_ns[first:last] - begin, index=load.index[first:last]), end - begin)
        for first, last, begin, end in zip(at, at[1:], ends, ends[1:], strict=False)
    )


def _parts(load: ClosedLoop, duration_ns: int | None, blocks: int) -> tuple[Block, ...]:
    """A time limit is shared, too: what a block does not ask within its share is not asked."""
    assert load.cases is not None, "only a loop that ends by cases is cut"
    timed = duration_ns is not None
    start_ns = load.start_ns // blocks if timed else load.start_ns
    stop_ns = np.where(load.stop_ns == NEVER, NEVER, load.stop_ns // blocks) if timed else load.stop_ns
    ends = [load.cases * i // blocks for i in range(blocks + 1)]
    return tuple(
        Block(
            replace(load, start_ns=start_ns, stop_ns=stop_ns, first_index=load.first_index + a, cases=b - a),
            duration_ns // blocks if duration_ns is not None else None,
        )
        for a, b in pairwise(ends)
    )


def block_count(stage: StagePlan, repeats: int, asked: int | None, mean_tokens: float) -> int:
    """Blocks of one repeat: `asked`, else so many that all repeats have 20 together and none is likely to last longer
    than 30 s, as far as the stage has the requests for it. `mean_tokens`: output tokens of an answer, where
    the length of a block must be guessed."""
    wanted = asked or ceil(ENOUGH_BLOCKS / repeats)
    load = stage.load
    if isinstance(load, OpenLoop):
        seconds = (stage.duration_ns or 0) / 1e9
        most = min(int(seconds / SHORTEST_SLICE_S), len(load.due_ns) // LEAST_ARRIVALS)
    else:
        if not stage.paired or load.cases is None:
            return 1
        slots = len(load.start_ns)
        seconds = load.cases / slots * ASSUMED.seconds(mean_tokens)
        most = load.cases // (ROUNDS * slots)
    if asked is None:
        wanted = max(wanted, ceil(seconds / LONGEST_BLOCK_S))
    return max(1, min(wanted, most))


def arm_orders(arms: Sequence[str], blocks: int, *key: int | str) -> list[tuple[str, ...]]:
    """Who goes first in each block, second, …: random, and balanced.

    Every len(arms) blocks in a row are the rotations of one random order, in random order: in them each arm
    stands in each place once. So over all blocks no arm is in any place more than once more often than another.
    """
    orders: list[tuple[str, ...]] = []
    for number in range(ceil(blocks / len(arms))):
        base = permutation(len(arms), *key, number, "arms").tolist()
        for turn in permutation(len(arms), *key, number, "turns").tolist():
            orders.append(tuple(arms[i] for i in base[turn:] + base[:turn]))
    return orders[:blocks]
