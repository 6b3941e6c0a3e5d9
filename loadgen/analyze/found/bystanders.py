"""What anomalies did to everybody else: the load's requests before and during, in blocks of time.

All tests of an arm are one family (docs/anomalies.md, "Bystanders").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from loadgen.analyze.columns import Bools, Floats, Ints
from loadgen.analyze.found.before_after import p_above
from loadgen.analyze.frames import Frame
from loadgen.analyze.quality.family import FAMILY_LEVEL, family
from loadgen.control import RETRIAL_LEVEL
from loadgen.drive import Outcome

#: The time before is cut into so many blocks, none shorter than this; the time of the anomalies into equal ones.
BLOCKS_BEFORE, SHORTEST_S = 20, 0.3
#: Blocks with a value that a test needs before and during: with fewer a share that rises from none to half is missed.
FEWEST_BEFORE, FEWEST = 16, 8
#: Of the 0.2 % of a run, what these tests may spend; the rest is for what is tried again.
LOAD_LEVEL = FAMILY_LEVEL - RETRIAL_LEVEL
#: Requests that a median of a block needs.
FEWEST_REQUESTS = 3

_NOT_FAILED = (Outcome.OK.value, Outcome.ABORTED.value, Outcome.CLIENT_FAULT.value)

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Margin:
    """What a number may become: so many times what it was, and so much more."""

    times: float = 1.0
    more: float = 0.0

    def limit(self, before: float) -> float:
        return before * self.times + self.more

    def lowered(self, during: Floats) -> Floats:
        """As if nothing were allowed; never below 0, so that what is within the margin counts as unchanged."""
        return np.asarray(np.maximum((during - self.more) / self.times, 0.0))


#: Of the shares.
ERRORS, WITNESSES = Margin(more=0.01), Margin(more=0.05)


@dataclass(frozen=True, slots=True)
class Compared:
    """One number before and during. `limit`: what `before` may become. `p`: one-sided, of during being above the limit;
    None for `reason`. Values are medians over blocks, of shares the mean."""

    name: str
    unit: str
    before: float | None
    during: float | None
    limit: float | None
    n_before: int
    n_during: int
    p: float | None
    reason: str | None = None


@dataclass(frozen=True)
class Blocks:
    """Equal blocks of two spans. `edges` of each: (n + 1,) CLOCK_MONOTONIC."""

    before: Ints
    during: Ints

    def values(self, of: Callable[[Ints], Floats]) -> tuple[Floats, Floats]:
        """`of(edges)` -> (blocks,), NaN where a block has none."""
        return of(self.before), of(self.during)


def blocks_of(before: Span, during: Span) -> Blocks:
    length = before[1] - before[0]
    count = max(min(BLOCKS_BEFORE, int(length / 1e9 / SHORTEST_S)), 1)
    width = max(length // count, 1)
    later = max(during[1] - during[0], 0) // width
    return Blocks(before[0] + width * np.arange(count + 1), during[0] + width * np.arange(later + 1))


def compare(name: str, unit: str, values: tuple[Floats, Floats], margin: Margin, why: str, *, share: bool) -> Compared:
    """Whether the later blocks are above the earlier ones by more than the margin. `why`: what a block must have."""
    known = [v[np.isfinite(v)] for v in values]
    middle = np.mean if share else np.median
    shown = [float(middle(v)) if len(v) else None for v in known]
    allowed = None if shown[0] is None else margin.limit(shown[0])
    if len(known[0]) < FEWEST_BEFORE or len(known[1]) < FEWEST:
        few = (
            f"{len(known[0])} blocks before and {len(known[1])} during have {why}; a test needs {FEWEST_BEFORE} and "
            f"{FEWEST} (a longer anomalies.before_s, or more load)"
        )
        return Compared(name, unit, shown[0], shown[1], allowed, len(known[0]), len(known[1]), None, few)
    p = p_above(known[0], margin.lowered(known[1]))
    return Compared(name, unit, shown[0], shown[1], allowed, len(known[0]), len(known[1]), p)


def load_compared(frame: Frame, rows: Ints, blocks: Blocks, latency_ratio: float) -> list[Compared]:
    """Error share, TTFT and TPOT of the load's requests; `rows`: of the server that the anomalies were sent to."""
    stamped = rows[frame.end[1][rows]]
    ok = rows[(frame.ok & frame.stream & frame.sent[1])[rows]]
    few = f"{FEWEST_REQUESTS} successful streams"
    slower = Margin(times=latency_ratio)
    return [
        compare(
            "error_share", "share", blocks.values(lambda e: _shares(frame.end[0][stamped], failed(frame)[stamped], e)),
            ERRORS, "an ended request", share=True,
        ),
        compare(
            "ttft_s", "s", blocks.values(lambda e: _medians(frame.sent[0][ok], frame.ttft_s[ok], e)), slower, few,
            share=False,
        ),
        compare(
            "tpot_s", "s", blocks.values(lambda e: _medians(frame.end[0][ok], frame.tpot_s[ok], e)), slower, few,
            share=False,
        ),
    ]  # fmt: skip


def witnesses_compared(at_ns: Ints, other: Bools, blocks: Blocks) -> Compared:
    """Share of the known requests that failed, or were answered otherwise than most often in the time before."""
    return compare(
        "witness_share", "share", blocks.values(lambda e: _shares(at_ns, other, e)),
        WITNESSES, "an answer of a witness", share=True,
    )  # fmt: skip


def adjusted(tests: Sequence[Compared]) -> dict[str, float]:
    """p of every test that was made, corrected for all of them (Holm); an alarm is one at or below `LOAD_LEVEL`."""
    return family({one.name: one.p for one in tests}, LOAD_LEVEL).adjusted


def failed(frame: Frame) -> Bools:
    """By the server's fault."""
    return ~np.isin(frame.outcome.astype(str), _NOT_FAILED)


def _shares(at_ns: Ints, which: Bools, edges: Ints) -> Floats:
    of = _block_of(at_ns, edges)
    inside, n = of >= 0, len(edges) - 1
    whole = np.bincount(of[inside], minlength=n)
    part = np.bincount(of[inside], weights=which[inside].astype(np.float64), minlength=n)
    return np.asarray(np.divide(part, whole, out=np.full(n, np.nan), where=whole > 0), dtype=np.float64)


def _medians(at_ns: Ints, values: Floats, edges: Ints) -> Floats:
    of, n = _block_of(at_ns, edges), len(edges) - 1
    known = (of >= 0) & np.isfinite(values)
    found = np.full(n, np.nan)
    for block in np.flatnonzero(np.bincount(of[known], minlength=n) >= FEWEST_REQUESTS):
        found[block] = np.median(values[known & (of == block)])
    return found


def _block_of(at_ns: Ints, edges: Ints) -> Ints:
    """-1: in none."""
    of = np.searchsorted(edges, at_ns, side="right") - 1
    return np.where((of >= 0) & (of < len(edges) - 1), of, -1)


@dataclass(frozen=True, slots=True)
class Silences:
    """Times in which requests were in flight and nothing came for any of them: (n,) starts and lengths."""

    start_ns: Ints
    length_ns: Ints

    def longest(self, span: Span) -> float:
        """Seconds, of those that overlap the span."""
        mine = (self.start_ns < span[1]) & (self.start_ns + self.length_ns > span[0])
        return float(self.length_ns[mine].max()) / 1e9 if mine.any() else 0.0


def silences(frame: Frame, rows: Ints) -> Silences:
    """Signs of life are arrivals, ends of requests, and the start of one where none was in flight."""
    timed = rows[(frame.sent[1] & frame.end[1])[rows]]
    sent, end = np.sort(frame.sent[0][timed]), np.sort(frame.end[0][timed])
    first = sent[np.arange(len(sent)) - np.searchsorted(end, sent, side="right") == 0]
    arrivals = frame.ledgers.at_ns[np.isin(frame.ledgers.row, timed)]
    signs = np.unique(np.concatenate([arrivals, end, first]))
    if len(signs) < 2:
        return Silences(np.zeros(0, np.int64), np.zeros(0, np.int64))
    in_flight = np.searchsorted(sent, signs, side="right") - np.searchsorted(end, signs, side="right")
    held = in_flight[:-1] > 0
    return Silences(signs[:-1][held], np.diff(signs)[held])
