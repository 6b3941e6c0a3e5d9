"""Samples that every group shares: laid out by value once per arm, then read for any set of requests, exactly.

A percentile is found in two steps: the weights of the group's samples summed by bucket (a range of values that
holds some thousand samples of the arm), then by sorting the group's samples of the one bucket it falls in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadgen.analyze.columns import Bools, Floats, Ints, Spans, spans, taken
from loadgen.analyze.percentiles import rank

#: Samples in a bucket, about; at most so many buckets; samples looked at to place the edges of one
_BUCKET, _BUCKETS, _LOOKED_AT = 4096, 2048, 64


@dataclass(frozen=True)
class Samples:
    """Bucket after bucket (`starts`): `values` with `weights` (None: all 1), `row` and `minute` of each.
    Row after row (`offsets`): `bucket_of`, `weight_of` and `minute_of` each. `total`: Σ value × weight of a row.
    """

    starts: Ints
    values: Floats
    weights: Ints | None
    row: NDArray[np.int32]
    minute: NDArray[np.int32]
    offsets: Ints
    bucket_of: NDArray[np.uint16]
    weight_of: Ints | None
    minute_of: NDArray[np.int32]
    total: Floats

    def of(self, rows: Ints) -> Selection:
        """Of ascending rows. Quick where they are neighbours."""
        at = spans(self.offsets, rows)
        upto = _upto(taken(self.bucket_of, at), None if self.weight_of is None else taken(self.weight_of, at))
        n = int(upto[-1]) if len(upto) else 0
        chosen = np.zeros(len(self.total), dtype=np.bool_)
        chosen[rows] = True
        return Selection(n, float(self.total[rows].sum()) / n if n else 0.0, at, upto, chosen, self)

    def minute_medians(self, at: Spans, chosen: Bools, smallest_n: int) -> Iterator[float]:
        """Of unweighted samples only. `at`: where the chosen rows' samples stand, row after row."""
        minute_of = taken(self.minute_of, at)
        buckets, minutes = len(self.starts) - 1, int(minute_of.max()) + 1
        codes = minute_of * np.int64(buckets) + taken(self.bucket_of, at)
        table = np.bincount(codes, minlength=minutes * buckets).reshape(minutes, buckets).cumsum(axis=1)
        for minute, upto in enumerate(table):
            if upto[-1] >= smallest_n:
                yield self.find(upto, rank(int(upto[-1]), 50), chosen, minute)

    def find(self, upto: Ints, of_rank: int, chosen: Bools, minute: int | None = None) -> float:
        """The value of that 1-based rank among the chosen rows; `upto`: their weights up to each bucket's end."""
        bucket = int(np.searchsorted(upto, of_rank))
        before = int(upto[bucket - 1]) if bucket else 0
        span = slice(self.starts[bucket], self.starts[bucket + 1])
        mine = chosen[self.row[span]]
        if minute is not None:
            mine &= self.minute[span] == minute
        values = self.values[span][mine]
        if self.weights is None:
            return float(np.sort(values)[of_rank - before - 1])
        order = np.argsort(values)
        return float(values[order][np.searchsorted(np.cumsum(self.weights[span][mine][order]), of_rank - before)])


@dataclass(frozen=True)
class Selection:
    """The samples of a group: how many (Σ weights), their mean, and any of them by rank."""

    n: int
    mean: float
    _at: Spans
    _upto: Ints
    _chosen: Bools
    _of: Samples

    def sample(self, of_rank: int) -> float:
        return self._of.find(self._upto, of_rank, self._chosen)

    def minute_medians(self, smallest_n: int) -> Floats:
        """Median of each minute that holds at least `smallest_n` of the samples. Of unweighted samples only."""
        if self.n == 0:
            return np.zeros(0)
        return np.array(list(self._of.minute_medians(self._at, self._chosen, smallest_n)), dtype=np.float64)


def samples_of(values: Floats, weights: Ints | None, row: Ints, minute: Ints, rows: int) -> Samples:
    """`row` ascending; `rows`: how many there are, also without a sample."""
    edges = _edges(values)
    bucket_of = np.searchsorted(edges, values, side="right").astype(np.uint16)
    order = np.argsort(bucket_of, kind="stable")
    small_row, small_minute = row.astype(np.int32), minute.astype(np.int32)
    weighted: Floats = values if weights is None else values * weights
    return Samples(
        starts=np.concatenate([[0], np.cumsum(np.bincount(bucket_of, minlength=len(edges) + 1))]),
        values=values[order],
        weights=None if weights is None else weights[order],
        row=small_row[order],
        minute=small_minute[order],
        offsets=np.searchsorted(row, np.arange(rows + 1)),
        bucket_of=bucket_of,
        weight_of=weights,
        minute_of=small_minute,
        total=np.bincount(row, weights=weighted, minlength=rows).astype(np.float64),
    )


def _edges(values: Floats) -> Floats:
    """Values that part the samples into buckets of about equal size; one bucket needs none."""
    buckets = min(max(len(values) // _BUCKET, 1), _BUCKETS)
    some = np.sort(values[:: max(len(values) // (buckets * _LOOKED_AT), 1)])
    return some[np.arange(1, buckets) * len(some) // buckets]


def _upto(bucket: NDArray[np.uint16], weights: Ints | None) -> Ints:
    """Weights up to the end of each bucket; sums of whole numbers are exact in floating point here."""
    upto: Ints = np.cumsum(np.bincount(bucket, weights=weights)).astype(np.int64)
    return upto
