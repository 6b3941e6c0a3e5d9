"""A run at k played again at shorter draft lengths (docs/method.md, "The draft-length advisor").

An autoregressive drafter that is not a tree proposes from the text before it alone, so whether its token at a place of
the answer is accepted does not depend on where a round began. (One that goes on from its own hidden states within a
round, EAGLE or MTP, is better early in a round: for it E at small k' comes out low.)

Each place of an answer is then known: accepted, or rejected (the correction stands there), or unknown: the bonus token
after a wholly accepted round, which nobody drafted, and what lies beyond the end. At k' <= k the rounds begin elsewhere
and ask about known places, and about some unknown ones: all rejected and all accepted are the bounds (a place more
accepted never makes more rounds), and the middle draws them at random with the acceptance seen after as many accepted
ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from loadgen.analyze.columns import Bools, Floats, Ints, Ragged

_REJECTED, _ACCEPTED, _UNKNOWN = 0, 1, 2
#: Random fillings of the unknown places; their mean rounds are the middle.
_FILLINGS = 16


@dataclass(frozen=True)
class RoundLists:
    """Per-round data of requests, one row each: `accepted` and `drafted` of every round in order (records:
    per_step_accepted, per_step_drafted), `emitted` (rows,) tokens after the first chunk (output_len - first_tokens), 0
    where unknown, and the `case` of each (rows,).

    Rounds without a draft may be in it (0 drafted); steps that are in neither list are not replayed.
    """

    accepted: Ragged[np.int64]
    drafted: Ragged[np.int64]
    emitted: Ints
    case: Ints

    @property
    def rows(self) -> int:
        return len(self.emitted)

    def usable(self) -> Bools:
        """(rows,) rows whose lists belong together and hold as many tokens as were emitted."""
        same = (self.accepted.counts == self.drafted.counts) & (self.accepted.counts > 0)
        told = self.accepted.sums() + self.accepted.counts
        return cast("Bools", same & (self.emitted > 0) & (self.emitted <= told))

    def taken(self, rows: Ints) -> RoundLists:
        """These rows alone."""
        accepted, drafted = _taken(self.accepted, rows), _taken(self.drafted, rows)
        return RoundLists(accepted, drafted, self.emitted[rows], self.case[rows])

    @property
    def largest(self) -> int:
        """The longest draft of any round; 0 without rounds."""
        return int(self.drafted.values.max(initial=0))


@dataclass(frozen=True)
class Replayed:
    """`tokens` (rows,) emitted, and (K, rows) rounds they take at each k: `fewest` with all unknown places accepted,
    `most` with none, `middle` between."""

    tokens: Floats
    fewest: Floats
    middle: Floats
    most: Floats


def replay(lists: RoundLists, ks: Ints, *, seed: int = 0) -> Replayed:
    """Rounds at each of `ks` (K,), from 1 to the run's own k, for rows that are all `usable`.

    Raises ValueError for a k outside of that or rows that are not usable.
    """
    if len(ks) and not 1 <= min(ks) <= max(ks) <= max(lists.largest, 1):
        raise ValueError(f"a run with {lists.largest} drafts a round cannot be replayed at {min(ks)} to {max(ks)}")
    if not lists.usable().all():
        raise ValueError("a row's lists do not belong together, or hold fewer tokens than were emitted")
    places, offsets = _places(lists)
    ends = offsets[:-1] + lists.emitted
    chance = _chance(places, offsets)
    shape = (len(ks), lists.rows)
    fewest, middle, most = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    random = np.random.default_rng(seed)
    filled = [np.where(places == _UNKNOWN, random.random(len(places)) < chance, places) for _ in range(_FILLINGS)]
    all_accepted, none_accepted = places != _REJECTED, places == _ACCEPTED
    for i, k in enumerate(ks):
        fewest[i] = _rounds(all_accepted, offsets, ends, int(k))
        most[i] = _rounds(none_accepted, offsets, ends, int(k))
        middle[i] = np.mean([_rounds(f > 0, offsets, ends, int(k)) for f in filled], axis=0)
    return Replayed(lists.emitted.astype(np.float64), fewest, middle, most)


def _taken(lists: Ragged[np.int64], rows: Ints) -> Ragged[np.int64]:
    counts = lists.counts[rows]
    return Ragged(lists.values[lists.at(rows)], np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]))


def _places(lists: RoundLists) -> tuple[Ints, Ints]:
    """What is known of every place of every answer, and where each answer begins.

    A round writes its accepted tokens and one more: the correction of a rejected draft, or the bonus.
    """
    accepted, drafted = lists.accepted, lists.drafted
    ends = np.cumsum(accepted.values + 1)
    places = np.full(int(ends[-1]) if len(ends) else 0, _ACCEPTED, np.int64)
    places[ends - 1] = np.where(accepted.values < drafted.values, _REJECTED, _UNKNOWN)
    upto = np.concatenate([np.zeros(1, np.int64), ends])
    return places, upto[accepted.offsets]


def _chance(places: Ints, offsets: Ints) -> Floats:
    """(places,) acceptance of known places that follow as many accepted ones in a row, of all where there are none.

    An unknown place ends a row: nobody drafted across it.
    """
    at = np.arange(len(places))
    breaks = places != _ACCEPTED
    starts = np.zeros(len(places), np.bool_)
    starts[offsets[:-1][offsets[:-1] < len(places)]] = True
    after = np.where(starts, at, 0)
    after[1:] = np.maximum(after[1:], np.where(breaks[:-1], at[1:], 0))
    run = at - np.maximum.accumulate(after)
    known = places != _UNKNOWN
    seen = np.bincount(run[known], minlength=int(run.max(initial=0)) + 1)
    hits = np.bincount(run[known], weights=places[known], minlength=len(seen))
    whole = hits.sum() / max(seen.sum(), 1)
    by_run = np.where(seen > 0, hits / np.maximum(seen, 1), np.nan)
    return _carried(by_run, whole)[run]


def _carried(shares: Floats, first: float) -> Floats:
    """The last known share in place of an unknown one: after k accepted drafts nobody drafted the next."""
    found = shares.copy()
    last = first
    for i, share in enumerate(found):
        last = last if np.isnan(share) else float(share)
        found[i] = last
    return found


def _rounds(accepted: Bools, offsets: Ints, ends: Ints, k: int) -> Floats:
    """(rows,) rounds of at most k drafts from each answer's begin to its end."""
    size = len(accepted)
    at = np.where(accepted, size, np.arange(size))
    stop = np.minimum.accumulate(at[::-1])[::-1] if size else at
    reach = np.minimum(np.arange(size) + k, stop) + 1
    cursor = offsets[:-1].copy()
    rounds = np.zeros(len(ends))
    going = np.flatnonzero(cursor < ends)
    while len(going):
        rounds[going] += 1
        cursor[going] = reach[cursor[going]]
        going = going[cursor[going] < ends[going]]
    return rounds
