"""The chunk ledgers of many requests at once: flat arrays, vectorised (docs/method.md, "Ledger")."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from loadgen.analyze.columns import Bools, Ints, Ragged, float_lists, int_lists
from loadgen.analyze.samples import Samples, samples_of
from loadgen.drive import UNKNOWN_TOKENS

NS_PER_MINUTE = 60_000_000_000


@dataclass(frozen=True)
class Arrivals:
    """Chunks that came together are one arrival (docs/method.md, "Words"); a row's first has no gap.

    `gap_s`: time since the request's previous arrival, weight 1. `token_latency_s`: gap ÷ tokens of the
    arrival, weighted by them. `uncounted`: per row, later arrivals of unknown token count. Minutes count from
    the first chunk of all rows.
    """

    gap_s: Samples
    token_latency_s: Samples
    uncounted: Ints


@dataclass(frozen=True)
class Ledgers:
    """Chunks of all rows, row after row, and what each row's chunks sum to. `at_ns` is CLOCK_MONOTONIC."""

    offsets: Ints
    row: Ints
    at_ns: Ints
    tokens: Ints
    arrivals: Arrivals
    #: per row: token-bearing chunks, their known tokens, chunks of unknown count, largest count, merged on arrival
    chunks: Ints
    known_tokens: Ints
    unknown_chunks: Ints
    largest: Ints
    coalesced: Ints


def ledgers_of(table: pa.Table, sent_ns: Ints) -> Ledgers:
    """`chunk_times_s` are relative to `sent_ns`; they become whole nanoseconds again."""
    times = float_lists(table, "chunk_times_s")
    tokens = int_lists(table, "chunk_tokens", null=UNKNOWN_TOKENS)
    numbers = int_lists(table, "arrival_no")
    row = times.row
    if len(tokens.values) != len(times.values):
        raise ValueError(f"{len(times.values)} chunk times but {len(tokens.values)} chunk token counts")
    at_ns = np.rint(times.values * 1e9).astype(np.int64) + sent_ns[row]
    opens = _opens_arrival(times.offsets, at_ns, numbers)
    known = np.maximum(tokens.values, 0)
    unknown = (tokens.values == UNKNOWN_TOKENS).astype(np.int64)
    rows = len(times.offsets) - 1
    per_row = _sums(times.offsets, opens.astype(np.int64))
    return Ledgers(
        offsets=times.offsets,
        row=row,
        at_ns=at_ns,
        tokens=tokens.values,
        arrivals=_arrivals(row, opens, at_ns, known, unknown, rows),
        chunks=times.counts,
        known_tokens=_sums(times.offsets, known),
        unknown_chunks=_sums(times.offsets, unknown),
        largest=_largest(times.offsets, known, rows),
        coalesced=times.counts - per_row,
    )


def _sums(offsets: Ints, values: Ints) -> Ints:
    return Ragged(values, offsets).sums()


def _opens_arrival(offsets: Ints, at_ns: Ints, numbers: Ragged[np.int64]) -> Bools:
    """True for the first chunk of each arrival. Without arrival numbers an equal stamp is the same arrival."""
    n = len(at_ns)
    label: NDArray[np.int64] = numbers.values if len(numbers.values) == n else at_ns
    opens = np.ones(n, dtype=np.bool_)
    opens[1:] = label[1:] != label[:-1]
    first = offsets[:-1][np.diff(offsets) > 0]
    opens[first] = True
    return opens


def _arrivals(row: Ints, opens: Bools, at_ns: Ints, known: Ints, unknown: Ints, rows: int) -> Arrivals:
    start = np.flatnonzero(opens)
    if not len(start):
        nothing = np.zeros(0)
        return Arrivals(
            gap_s=samples_of(nothing, None, start, start, rows),
            token_latency_s=samples_of(nothing, start, start, start, rows),
            uncounted=np.zeros(rows, np.int64),
        )
    tokens, uncounted = np.add.reduceat(known, start), np.add.reduceat(unknown, start) > 0
    owner, at = row[start], at_ns[start]
    later = np.flatnonzero(owner[1:] == owner[:-1]) + 1
    gap_s, minute = (at[later] - at[later - 1]) / 1e9, (at[later] - at.min()) // NS_PER_MINUTE
    owner, tokens, uncounted = owner[later], tokens[later], uncounted[later]
    counted = ~uncounted & (tokens > 0)
    weights = tokens[counted]
    return Arrivals(
        gap_s=samples_of(gap_s, None, owner, minute, rows),
        token_latency_s=samples_of(gap_s[counted] / weights, weights, owner[counted], minute[counted], rows),
        uncounted=np.bincount(owner[uncounted], minlength=rows),
    )


def _largest(offsets: Ints, known: Ints, rows: int) -> Ints:
    largest = np.zeros(rows, np.int64)
    filled = np.diff(offsets) > 0
    if filled.any():
        largest[filled] = np.maximum.reduceat(known, offsets[:-1][filled])
    return largest
