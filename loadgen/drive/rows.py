"""Payloads with choices in columns, and the ledger they make: docs/method.md, "Per request"."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from loadgen.drive.types import UNKNOWN_TOKENS, Exchange, Ledger
from server_adapters.base import Chunk, ChunkRun

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Bearing:
    """The token-bearing chunks of a stream. `told`: tokens of the ledger, None where the server told no counts."""

    ledger: Ledger = field(default_factory=Ledger)
    told: int | None = None
    id_tokens: int = 0
    first_token_ns: int | None = None
    first_answer_ns: int | None = None
    last_token_ns: int | None = None
    first_tokens: int | None = None


class Rows:
    """What of each payload the ledger needs, kept until it is known how this stream tells its counts: 34 bytes a row.

    Counts are below 2**31: adapters refuse others. `ends`: bytes of the body up to the end of the payload's event.
    `completion_tokens`: cumulative, -1 = not told.
    """

    __slots__ = ("answers", "completion_tokens", "ends", "ids", "outputs", "sizes")

    def __init__(self) -> None:
        self.ends = array("q")
        self.sizes = array("q")
        self.ids = array("q")
        self.completion_tokens = array("q")
        self.outputs = bytearray()
        self.answers = bytearray()

    def add(self, chunk: Chunk, end: int, size: int) -> None:
        self.ends.append(end)
        self.sizes.append(size)
        self.ids.append(len(chunk.token_ids or ()))
        self.completion_tokens.append(-1 if chunk.completion_tokens is None else chunk.completion_tokens)
        self.outputs.append(chunk.has_output)
        self.answers.append(bool(chunk.answer or chunk.tool))

    def add_run(self, run: ChunkRun, ends: Ints, sizes: Iterable[int]) -> None:
        self.ends.frombytes(ends.tobytes())
        self.sizes.extend(sizes)
        self.ids.extend(run.ids)
        self.completion_tokens.extend(run.completion_tokens)
        self.outputs += run.outputs
        self.answers += run.answers

    def bearing(self, exchange: Exchange) -> Bearing:
        """Which payloads bear tokens, how many, and when they came (`Ledger`)."""
        if not self.ends:
            return Bearing()
        ids = _ints(self.ids)
        id_tokens = int(ids.sum())
        continuous = self._continuous()
        counted = continuous or id_tokens > 0
        if continuous:
            tokens = _risen(_ints(self.completion_tokens), ids)
        else:
            tokens = ids if counted else _flags(self.outputs) * np.int64(UNKNOWN_TOKENS)
        ends, sizes, answers = _ints(self.ends), _ints(self.sizes), bytes(self.answers)
        if np.count_nonzero(tokens) < len(tokens):
            bears = tokens != 0
            tokens, ends, sizes, answers = (
                tokens[bears],
                ends[bears],
                sizes[bears],
                _flags(self.answers)[bears].tobytes(),
            )
        told = int(tokens.sum()) if counted else None
        if not len(tokens):
            return Bearing(told=told, id_tokens=id_tokens)
        arrivals = _arrivals(exchange, ends)
        answer_at = answers.find(1)
        return Bearing(
            ledger=_ledger(arrivals, tokens, sizes),
            told=told,
            id_tokens=id_tokens,
            first_token_ns=int(arrivals[0]),
            first_answer_ns=None if answer_at < 0 else int(arrivals[answer_at]),
            last_token_ns=int(arrivals[-1]),
            first_tokens=int(tokens[0]) if counted else None,
        )

    def _continuous(self) -> bool:
        """Continuous usage: the first chunk with output brought the count with it (or, where none
        has output, the first chunk)."""
        return self.completion_tokens[max(self.outputs.find(1), 0)] >= 0


def _risen(told: Ints, ids: Ints) -> Ints:
    """Tokens of each chunk where usage is continuous.

    Ids may be hidden while usage rises (reasoning), and usage may lag behind ids: both tell of tokens. A chunk bears
    max(usage - sum so far, ids, 0), so the sum so far is max(usage, sum before + ids). Its lead over the sum
    of ids alone is the running maximum of usage's, and never below 0.
    """
    by_ids = ids.cumsum()
    lead = np.maximum.accumulate(told - by_ids)
    so_far = by_ids + np.maximum(lead, 0)
    so_far[1:] -= so_far[:-1].copy()
    return so_far


def _arrivals(exchange: Exchange, ends: Ints) -> Ints:
    """Stamp of the piece that holds the last byte of each event."""
    arrivals: Ints = _ints(exchange.piece_ns)[_ints(exchange.piece_end).searchsorted(ends)]
    return arrivals


def _ledger(arrivals: Ints, tokens: Ints, sizes: Ints) -> Ledger:
    numbers = np.zeros(len(arrivals), dtype=np.int64)
    (arrivals[1:] != arrivals[:-1]).cumsum(out=numbers[1:])
    return Ledger(array("q", arrivals.tobytes()), _small(tokens), _small(sizes), _small(numbers))


def _small(column: Ints) -> array[int]:
    return array("i", column.astype(np.int32).tobytes())


def _ints(column: array[int]) -> Ints:
    return np.frombuffer(column, dtype=np.int64)


def _flags(column: bytearray) -> NDArray[np.bool_]:
    return np.frombuffer(column, dtype=np.bool_)
