"""The maximum rate within SLO: a bracketed search with repeats (docs/sweeps.md, "Methods").

A verdict at one rate is a noisy vote on one question: is the maximum above or below? One vote moves the search on:
doubling from the lowest rate until one fails, then halving the bracket (in logarithms). When it is narrow, both of its
ends are visited again until each has a majority of `repeats` votes; an end that turns out otherwise widens the bracket
again. Contradicting votes of different rates are settled by pooling (isotonic regression of the share that passed), as
passing cannot become likelier at a higher rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["pass", "fail", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Visit:
    """One visit to a rate, and whether every SLO was met in it. A visit that failed to run is inconclusive."""

    rate: float
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Ask:
    """Visit this rate next; `reason` says what for."""

    rate: float
    reason: str


@dataclass(frozen=True, slots=True)
class Resolved:
    """The maximum lies between `low`, the highest rate that passed, and `high`, the lowest that failed; `rate` is the
    middle (geometric). A bracket by majority of the votes, no confidence interval."""

    rate: float
    low: float
    high: float
    visits: int
    reason: str


@dataclass(frozen=True, slots=True)
class Unresolved:
    """What is known all the same: it passed at `low`, it failed at `high`; None where nothing did."""

    reason: str
    low: float | None
    high: float | None
    visits: int


@dataclass(frozen=True, slots=True)
class _Votes:
    """Visits to one rate, and the pooled share that passed among those that told."""

    rate: float
    passed: int
    failed: int
    unclear: int
    share: float

    @property
    def told(self) -> int:
        return self.passed + self.failed


@dataclass(frozen=True, slots=True)
class RateSearch:
    """Between `low` and `high` requests per second, to a bracket with high ÷ low of at most 1 + `resolution`.

    `repeats`: votes among which an end of the bracket needs the majority. `max_visits` bounds the whole search. Raises
    ValueError for numbers that make no search.
    """

    low: float
    high: float
    resolution: float = 0.05
    repeats: int = 3
    max_visits: int = 60

    def __post_init__(self) -> None:
        if not (0 < self.low < self.high < math.inf):
            raise ValueError(f"0 < low < high expected, not {self.low} and {self.high}")
        if not 0 < self.resolution < math.inf or self.repeats < 1 or self.max_visits < 1:
            raise ValueError("resolution above 0, at least one repeat and one visit expected")

    def next(self, history: Sequence[Visit]) -> Ask | Resolved | Unresolved:
        """What to do after these visits, in any order. The same visits give the same answer."""
        votes = _tally(history)
        below, above = _bracket(votes)
        found = self._ends(votes, below, above, len(history))
        if not isinstance(found, Ask) or len(history) < self.max_visits:
            return found
        why = f"not settled after {len(history)} visits: votes near the maximum contradict each other"
        if below is None or above is None or above.rate > below.rate * (1 + self.resolution):
            why = f"not settled after {len(history)} visits"
        return _unresolved(why, below, above, len(history))

    def _ends(
        self, votes: list[_Votes], below: _Votes | None, above: _Votes | None, visits: int
    ) -> Ask | Resolved | Unresolved:
        """Unclear rates are asked again, then the bracket is found, narrowed, and its ends are made sure."""
        low = below.rate if below else None
        open_above = above.rate if above else None
        unclear = _unclear_between(votes, low, open_above)
        if unclear is not None:
            if unclear.unclear < self.repeats:
                return Ask(unclear.rate, "the last visit was inconclusive")
            return _undecided(unclear, below, above, visits)
        if below is None:
            return self._lowest(above, visits)
        if above is None:
            return self._highest(below, visits)
        if above.rate > below.rate * (1 + self.resolution) * (1 + 1e-9):
            return Ask(_rounded(math.sqrt(below.rate * above.rate)), "the middle of the bracket")
        for end in (above, below):
            if not self._sure(end):
                return Ask(end.rate, "the bracket is narrow: its ends are visited again")
        rate = math.sqrt(below.rate * above.rate)
        return Resolved(rate, below.rate, above.rate, visits, f"passed at {below.rate:g}, failed at {above.rate:g}")

    def _lowest(self, above: _Votes | None, visits: int) -> Ask | Unresolved:
        if above is None or above.rate > self.low:
            return Ask(self.low, "the lowest rate")
        if not self._sure(above):
            return Ask(above.rate, "the lowest rate failed: once more")
        return _unresolved(f"the SLOs are not met at the lowest rate, {above.rate:g}", None, above, visits)

    def _highest(self, below: _Votes, visits: int) -> Ask | Unresolved:
        if below.rate < self.high:
            return Ask(_rounded(min(2 * below.rate, self.high)), "doubled until it fails")
        if not self._sure(below):
            return Ask(below.rate, "the highest rate passed: once more")
        return _unresolved(f"the SLOs are still met at the highest rate, {below.rate:g}", below, None, visits)

    def _sure(self, votes: _Votes) -> bool:
        """A majority of `repeats` that further votes up to `repeats` could not turn."""
        return votes.told >= self.repeats or 2 * max(votes.passed, votes.failed) > self.repeats


def _tally(history: Sequence[Visit]) -> list[_Votes]:
    """Per rate, ascending, with the pooled share of passes (non-increasing in the rate)."""
    rates = sorted({visit.rate for visit in history})
    counts = [[sum(v.rate == r and v.verdict == kind for v in history) for kind in ("pass", "fail")] for r in rates]
    told = [(r, p, f) for r, (p, f) in zip(rates, counts, strict=True) if p + f]
    shares = dict(zip((r for r, _, _ in told), _pooled([(p, p + f) for _, p, f in told]), strict=True))
    unclear = [sum(v.rate == r and v.verdict == "inconclusive" for v in history) for r in rates]
    rows = zip(rates, counts, unclear, strict=True)
    return [_Votes(r, p, f, u, shares.get(r, math.nan)) for r, (p, f), u in rows]


def _pooled(votes: Sequence[tuple[int, int]]) -> list[float]:
    """Pool adjacent violators: shares of (passes, votes) made non-increasing."""
    pools: list[tuple[int, int, int]] = []
    for passes, count in votes:
        pools.append((passes, count, 1))
        while len(pools) > 1 and pools[-1][0] * pools[-2][1] > pools[-2][0] * pools[-1][1]:
            (a, b, c), (d, e, f) = pools.pop(), pools.pop()
            pools.append((a + d, b + e, c + f))
    return [passes / count for passes, count, members in pools for _ in range(members)]


def _bracket(votes: list[_Votes]) -> tuple[_Votes | None, _Votes | None]:
    """The highest rate whose pooled votes pass by majority, and the lowest above it whose votes do not.

    A tie (as many passes as fails) counts as failed: the maximum is a promise."""
    passing = [v for v in votes if v.told and v.share > 0.5]
    failing = [v for v in votes if v.told and not v.share > 0.5]
    return (passing[-1] if passing else None), (failing[0] if failing else None)


def _unclear_between(votes: list[_Votes], low: float | None, high: float | None) -> _Votes | None:
    """The lowest rate inside the bracket that was only ever inconclusive."""
    inside = (v for v in votes if not v.told and (low is None or v.rate > low) and (high is None or v.rate < high))
    return next(inside, None)


def _undecided(at: _Votes, below: _Votes | None, above: _Votes | None, visits: int) -> Unresolved:
    why = f"{at.unclear} visits at {at.rate:g} were inconclusive: longer visits are needed to tell"
    return _unresolved(why, below, above, visits)


def _unresolved(reason: str, below: _Votes | None, above: _Votes | None, visits: int) -> Unresolved:
    return Unresolved(reason, below.rate if below else None, above.rate if above else None, visits)


def _rounded(rate: float) -> float:
    """Five significant digits: a rate that can be read, and asked for again, exactly."""
    return float(f"{rate:.5g}")
