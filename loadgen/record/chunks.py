"""Ledgers of many attempts as list columns: buffers are joined, no chunk becomes a Python object."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from loadgen.drive import UNKNOWN_TOKENS, Ledger
from loadgen.record.derive import NS_PER_S

LEDGER_COLUMNS = ("chunk_times_s", "chunk_tokens", "arrival_no", "chunk_bytes", "coalesced_chunks")


def ledger_columns(ledgers: Sequence[Ledger | None], sent_ns: Sequence[int | None]) -> dict[str, pa.Array[Any]]:
    """`LEDGER_COLUMNS`, a row a ledger. Null where it is None (not streamed); `chunk_times_s`, seconds from
    `sent_ns`, also where that is."""
    tokens = _joined([None if ledger is None else ledger.tokens for ledger in ledgers], np.int32)
    numbers = _joined([None if ledger is None else ledger.arrival_no for ledger in ledgers], np.int32)
    unknown = tokens.values == UNKNOWN_TOKENS
    return {
        "chunk_times_s": _times(ledgers, sent_ns),
        "chunk_tokens": tokens.column(pa.array(tokens.values, mask=unknown if unknown.any() else None)),
        "arrival_no": numbers.column(pa.array(numbers.values)),
        "chunk_bytes": _sizes(ledgers),
        "coalesced_chunks": _coalesced(numbers),
    }


class _Joined:
    """Lists end to end: row i is `values[offsets[i]:offsets[i + 1]]`, and null where `null[i]`."""

    def __init__(self, values: npt.NDArray[Any], lengths: npt.NDArray[np.int32], null: npt.NDArray[np.bool_]) -> None:
        self.values = values
        self.lengths = lengths
        self.null = null
        self.offsets = np.zeros(len(lengths) + 1, np.int32)
        np.cumsum(lengths, out=self.offsets[1:])

    def column(self, values: pa.Array[Any]) -> pa.Array[Any]:
        mask = pa.array(self.null) if self.null.any() else None
        return pa.ListArray.from_arrays(pa.array(self.offsets, pa.int32()), values, mask=mask)


def _joined(lists: Sequence[array[int] | None], kind: type[np.int32] | type[np.int64]) -> _Joined:
    there = [one for one in lists if one is not None]
    lengths = np.array([0 if one is None else len(one) for one in lists], np.int32)
    null = np.array([one is None for one in lists], np.bool_)
    return _Joined(np.frombuffer(b"".join(there), kind), lengths, null)


def _times(ledgers: Sequence[Ledger | None], sent_ns: Sequence[int | None]) -> pa.Array[Any]:
    timed = [
        None if ledger is None or sent is None else ledger.arrival_ns
        for ledger, sent in zip(ledgers, sent_ns, strict=True)
    ]
    stamps = _joined(timed, np.int64)
    sent = np.array([0 if sent is None else sent for sent in sent_ns], np.int64)
    return stamps.column(pa.array((stamps.values - np.repeat(sent, stamps.lengths)) / NS_PER_S))


def _sizes(ledgers: Sequence[Ledger | None]) -> pa.Array[Any]:
    sizes = _joined([None if ledger is None else ledger.size for ledger in ledgers], np.int32)
    return sizes.column(pa.array(sizes.values))


def _coalesced(numbers: _Joined) -> pa.Array[Any]:
    """`Ledger.coalesced` of every row. Arrival numbers never fall, so that every distinct one is one run."""
    repeated = np.zeros(len(numbers.values) + 1, np.int64)
    np.cumsum(numbers.values[1:] == numbers.values[:-1], out=repeated[2:])
    begins, ends = numbers.offsets[:-1], numbers.offsets[1:]
    inside = repeated[ends] - repeated[np.minimum(begins + 1, ends)]
    return pa.array(inside.astype(np.int32), mask=numbers.null)
