"""Chunk gaps and token latencies of chosen requests with their design block, thinned where there are very many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from loadgen.analyze.columns import Floats, Ints
from loadgen.analyze.samples import Samples
from loadgen.analyze.sides import Side

#: Samples that the interval of a percentile is made from, at most; the percentile itself is of all of them
AT_MOST = 100_000


@dataclass(frozen=True)
class Drawn:
    """`values` with the `block` and `row` of each. `n`: samples there are; `thinned`: every n-th by value was drawn."""

    values: Floats
    block: Ints
    row: Ints
    n: int

    @property
    def thinned(self) -> bool:
        return len(self.values) < self.n


def samples_named(side: Side, name: str) -> Samples:
    arrivals = side.frame.ledgers.arrivals
    return arrivals.gap_s if name == "chunk_gap_s" else arrivals.token_latency_s


def streams(side: Side, rows: Ints) -> Ints:
    return rows[side.frame.ok[rows] & side.frame.stream[rows]]


def drawn(side: Side, rows: Ints, name: str) -> Drawn:
    """Of the ok streams among `rows`; weights become repeats, at even distances of the cumulative weight."""
    samples = samples_named(side, name)
    chosen = np.zeros(side.frame.n, dtype=np.bool_)
    chosen[streams(side, rows)] = True
    mine = np.flatnonzero(chosen[samples.row])
    order = mine[np.argsort(samples.values[mine], kind="stable")]
    weights = np.ones(len(order), np.int64) if samples.weights is None else samples.weights[order]
    total = int(weights.sum())
    step = max(-(-total // AT_MOST), 1)
    places = np.arange(step // 2, total, step)
    at = order[np.searchsorted(np.cumsum(weights), places, side="right")]
    row = samples.row[at].astype(np.int64)
    return Drawn(samples.values[at], side.block[row], row, total)
