"""Bucket edges, and counts in them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from loadgen.scenario import Scenario

#: Seven in each decade from 1 ms to 100 s, each at most 1.43 times the last, and up to the ten minutes an answer takes.
#: One set for every latency of every arm, so that quantiles of two of them differ by the samples alone.
LATENCY_EDGES_S: tuple[float, ...] = (
    *(round(m * 10.0**e, 9) for e in range(-3, 2) for m in (1, 1.4, 2, 2.7, 3.6, 5, 7)),
    *(100.0, 200.0, 300.0, 600.0),
)
#: k + 1 tokens come with a round at most; longer chunks are merged ones.
MOST_TOKENS = 17
#: Label of all that has none of its own.
OTHER = "other"
_LATENCIES = ("ttft_s", "tpot_s", "total_time_s", "ttft_from_due_s", "total_time_from_due_s", "non_stream_total_time_s")


def latency_edges(scenario: Scenario) -> tuple[float, ...]:
    """With the scenario's limits among them: a share "within the limit" needs an edge exactly there."""
    slos = scenario.slos
    limits = {limit for limit in (slos.ttft_s, slos.tpot_s, slos.total_time_s) if limit is not None}
    for threshold in scenario.parsed_thresholds:
        if threshold.metric in (*_LATENCIES, "chunk_gap_s"):
            limits |= {c.limit for c in threshold.conditions if c.relative is None and c.limit > 0}
    return tuple(sorted({*LATENCY_EDGES_S, *limits}))


def token_edges(k: int | None) -> tuple[float, ...]:
    """1 … k + 1."""
    return tuple(float(n) for n in range(1, min((k or 0) + 1, MOST_TOKENS) + 1))


@dataclass(slots=True)
class Exemplar:
    """One request of a bucket. `at_s` is Unix time."""

    value: float
    request_id: str
    at_s: float


@dataclass(slots=True)
class Counted:
    """`counts[i]`: values in (edge i − 1, edge i], the last one beyond every edge. Exemplars by bucket."""

    edges: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0
    exemplars: dict[int, Exemplar] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.edges) + 1)

    def __reduce__(self) -> tuple[type[Counted], tuple[tuple[float, ...], list[int], float, dict[int, Exemplar]]]:
        return Counted, (self.edges, self.counts, self.total, self.exemplars)

    @property
    def n(self) -> int:
        return sum(self.counts)

    def add(self, value: float) -> int:
        """The bucket it fell into."""
        bucket = bisect_left(self.edges, value)
        self.counts[bucket] += 1
        self.total += value
        return bucket

    def add_all(self, values: NDArray[np.float64]) -> None:
        found = np.bincount(np.searchsorted(self.edges, values, side="left"), minlength=len(self.counts))
        self.counts = [a + b for a, b in zip(self.counts, found.tolist(), strict=True)]
        self.total += float(values.sum())

    def merge(self, other: Counted) -> None:
        """Raises ValueError where the edges differ: such counts do not add up."""
        if self.edges != other.edges:
            raise ValueError("histograms with different edges do not add up")
        self.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        self.total += other.total
        self.exemplars |= other.exemplars

    def cumulative(self) -> list[int]:
        return np.cumsum(self.counts).tolist()  # type: ignore[no-any-return]


def quantile(edges: Sequence[float], cumulative: Sequence[float], q: float) -> float | None:
    """As PromQL's histogram_quantile: linear within the bucket, the last edge where it is beyond; None of nothing."""
    if not cumulative or not cumulative[-1]:
        return None
    rank = q * cumulative[-1]
    bucket = bisect_left(cumulative, rank)
    if bucket >= len(edges):
        return edges[-1]
    low, below = (edges[bucket - 1], cumulative[bucket - 1]) if bucket else (0.0, 0)
    return low + (edges[bucket] - low) * (rank - below) / (cumulative[bucket] - below)


def bounded(names: Iterable[str], most: int) -> dict[str, str]:
    """Name → label: the first `most` keep theirs, all others are `OTHER`, so that no scenario makes labels without
    end."""
    found = list(dict.fromkeys(names))
    return {name: name if i < most else OTHER for i, name in enumerate(found)}
