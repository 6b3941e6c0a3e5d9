"""Which number is the speedup under this load, and why (docs/method.md, "Speedup")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from loadgen.analyze.columns import Ints
from loadgen.analyze.pairs import Pair
from loadgen.analyze.sides import BlockKey, Side, block_key

CLOSED = "concurrency"
CLOSED_WHY = "closed loop at equal concurrency: net throughput says what the servers could do"
#: An open loop whose requests in flight grew by more than this, and by more than so many, from the middle to the end
#: of the load did not keep up
GREW, BY = 1.5, 3.0


SpeedupOf = Literal["net_throughput", "tpot"]
SPEEDUP_NAMES: Mapping[SpeedupOf, str] = {"net_throughput": "net throughput", "tpot": "time per token"}
SPEEDUP_MIXED = (
    "closed and open loops have no speedup in common (net throughput of the one, time per token of the other): "
    "name a stage"
)


@dataclass(frozen=True)
class SpeedupKind:
    """`mixed`: closed and open stages, of which `kind` is that of the closed ones: there is no one speedup of both."""

    kind: SpeedupOf
    why: str
    mixed: bool = False

    @property
    def name(self) -> str:
        return SPEEDUP_NAMES[self.kind]


def kind_of(pair: Pair) -> SpeedupKind:
    """Closed loops: net throughput; open ones, and a part of the requests of a stage: time per output token."""
    blocks = pair.blocks if len(pair.blocks) else np.unique(pair.baseline.block[pair.base_rows])
    closed = np.isin(blocks, _closed_blocks(pair.baseline))
    if not pair.whole and not all(_everything(side, rows, pair.blocks) for side, rows in pair.sides):
        why = (
            "a task or length of a mixed load gets the throughput that the mix gives it, so time per token is compared"
        )
        return SpeedupKind("tpot", why)
    if len(blocks) and closed.all():
        return SpeedupKind("net_throughput", CLOSED_WHY)
    if not closed.any():
        return SpeedupKind("tpot", _open(pair))
    return SpeedupKind("net_throughput", CLOSED_WHY, mixed=True)


def kind_alone(side: Side, rows: Ints, whole: bool) -> SpeedupOf | None:
    """The same of one arm, whose load it was; None: closed and open stages."""
    blocks = np.unique(side.block[rows])
    closed = np.isin(blocks, _closed_blocks(side))
    if not closed.any() or (not whole and not _everything(side, rows, blocks)):
        return "tpot"
    return "net_throughput" if closed.all() else None


def _everything(side: Side, rows: Ints, blocks: Ints) -> bool:
    """The selection leaves out no request of its blocks (a task that is alone in its stage)."""
    inside = np.isin(side.block, blocks)
    return int(inside.sum()) == int(inside[rows].sum())


def _closed_blocks(side: Side) -> Ints:
    executors = {w.phase.stage_index: (w.phase.executor, w.phase.concurrency) for w in side.data.windows}
    is_closed = [executors.get(key[0], ("", None)) for key in side.keys]
    return np.array(
        [i for i, (kind, level) in enumerate(is_closed) if kind == CLOSED and level is not None], dtype=np.int64
    )


def _open(pair: Pair) -> str:
    if any(w.phase.executor == CLOSED for w in pair.baseline.data.windows if block_key(w) in _keys(pair)):
        return "a ramp of users has no one concurrency: time per token and total time are compared"
    behind = [side.name for side in (pair.baseline, pair.candidate) if fell_behind(side, pair.blocks)]
    if behind:
        who = " and ".join(behind)
        return (
            f"the load is set by arrivals and {who} did not keep up with it: time per token and total time are compared"
        )
    return (
        "the load is set by arrivals and both arms kept up, so both deliver what was asked: time per token is compared"
    )


def _keys(pair: Pair) -> set[BlockKey]:
    return {pair.baseline.keys[i] for i in np.unique(pair.baseline.block[pair.base_rows])}


def fell_behind(side: Side, blocks: Ints) -> bool:
    """Requests in flight at the end of the load against those in its middle, mean over the blocks."""
    frame = side.frame
    middle: list[int] = []
    last: list[int] = []
    keys = {side.keys[i] for i in blocks}
    for window in side.data.windows:
        if window.steady is None or block_key(window) not in keys:
            continue
        rows = (frame.segment == window.phase.segment) & frame.sent[1]
        start, end = window.steady
        for found, at in ((middle, (start + end) // 2), (last, end)):
            found.append(int(((frame.sent[0][rows] <= at) & (frame.end[0][rows] > at)).sum()))
    if not middle:
        return False
    one, other = float(np.mean(middle)), float(np.mean(last))
    return other > GREW * one and other > one + BY
