"""Arrow columns as numpy arrays. A null is NaN in a float array, 0 beside a False in an integer one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
S = TypeVar("S", bound=np.generic)
T = TypeVar("T", np.int64, np.float64)


@dataclass(frozen=True)
class Ragged(Generic[T]):
    """Lists of different lengths, one after the other: row i is `values[offsets[i]:offsets[i + 1]]`."""

    values: NDArray[T]
    offsets: Ints

    @property
    def counts(self) -> Ints:
        return np.diff(self.offsets)

    @property
    def row(self) -> Ints:
        """(len(values),) the row of each value."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.counts)

    @property
    def place(self) -> Ints:
        """(len(values),) the 0-based place of each value in its row."""
        return np.arange(len(self.values)) - np.repeat(self.offsets[:-1], self.counts)

    def sums(self) -> NDArray[T]:
        """(rows,) the sum of each row, 0 for an empty one."""
        upto = np.concatenate([np.zeros(1, self.values.dtype), np.cumsum(self.values)])
        total: NDArray[T] = upto[self.offsets[1:]] - upto[self.offsets[:-1]]
        return total

    def at(self, rows: Ints) -> Ints:
        """Indices into `values` of all values of `rows`, in order."""
        return flat(self.offsets, rows)


def flat(offsets: Ints, rows: Ints) -> Ints:
    """Indices of the concatenation of `offsets[r] : offsets[r + 1]` for r in rows."""
    counts = offsets[rows + 1] - offsets[rows]
    before = np.cumsum(counts) - counts
    return np.repeat(offsets[rows] - before, counts) + np.arange(int(counts.sum()))


def known(values: Floats) -> list[float]:
    """The different values, ascending, without NaN."""
    return [float(v) for v in np.unique(values[~np.isnan(values)])]


def _column(table: pa.Table, name: str) -> Any:
    return table.column(name).combine_chunks()


def floats(table: pa.Table, name: str) -> Floats:
    column = pc.cast(_column(table, name), pa.float64())
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def ints(table: pa.Table, name: str) -> tuple[Ints, Bools]:
    """(values with 0 for null, which are not null)."""
    column = _column(table, name)
    known = np.asarray(pc.is_valid(column).to_numpy(zero_copy_only=False), dtype=np.bool_)
    filled = pc.fill_null(pc.cast(column, pa.int64()), 0)
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.int64), known


def bools(table: pa.Table, name: str) -> Bools:
    column = pc.fill_null(_column(table, name), False)
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.bool_)


def strings(table: pa.Table, name: str) -> NDArray[np.object_]:
    """Objects: str, or None for null."""
    column = pc.cast(_column(table, name), pa.string())
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=object)


def matches(table: pa.Table, name: str, pattern: str) -> Bools:
    """Which strings hold a match of the regular expression; null holds none."""
    found = pc.fill_null(pc.match_substring_regex(_column(table, name), pattern), False)
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.bool_)


def seconds_between(later: tuple[Ints, Bools], earlier: tuple[Ints, Bools]) -> Floats:
    """Differences of nanosecond stamps in seconds, subtracted as integers; NaN where either is missing.

    A duration that is not positive is an invalid sample: NaN too, never clamped.
    """
    span = later[0] - earlier[0]
    return np.where(later[1] & earlier[1] & (span > 0), span / 1e9, np.nan)


def labels(table: pa.Table, name: str) -> Ints:
    """Strings as numbers: equal for equal strings."""
    codes = pc.dictionary_encode(_column(table, name)).indices
    return np.asarray(pc.fill_null(codes, -1).to_numpy(zero_copy_only=False), dtype=np.int64)


def int_lists(table: pa.Table, name: str, null: int = 0) -> Ragged[np.int64]:
    """A list column; a null row is an empty list, a null inside a list is `null`."""
    values, offsets = _lists(table, name)
    filled = pc.fill_null(pc.cast(values, pa.int64()), null)
    return Ragged(np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.int64), offsets)


def float_lists(table: pa.Table, name: str) -> Ragged[np.float64]:
    values, offsets = _lists(table, name)
    cast = pc.cast(values, pa.float64())
    return Ragged(np.asarray(cast.to_numpy(zero_copy_only=False), dtype=np.float64), offsets)


def _lists(table: pa.Table, name: str) -> tuple[Any, Ints]:
    column = _column(table, name)
    counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
    return pc.list_flatten(column), offsets


Spans = list[tuple[int, int]]


def spans(offsets: Ints, rows: Ints) -> Spans:
    """`offsets[r] : offsets[r + 1]` of ascending rows, neighbours joined."""
    breaks = np.flatnonzero(np.diff(rows) != 1) + 1
    first, last = np.concatenate([rows[:1], rows[breaks]]), np.concatenate([rows[breaks - 1], rows[-1:]])
    return list(zip(offsets[first].tolist(), offsets[last + 1].tolist(), strict=True))


def taken(values: NDArray[S], parts: Spans) -> NDArray[S]:
    """Their concatenation; without a copy where it is one piece."""
    if len(parts) == 1:
        return values[slice(*parts[0])]
    return np.concatenate([values[:0], *(values[start:end] for start, end in parts)])
