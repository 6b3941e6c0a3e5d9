"""What the per-round arrays of each request say: rounds without a draft, and runs of rejections. Once per arm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from loadgen.analyze.columns import Bools, Ints, Ragged


@dataclass(frozen=True)
class Rounds:
    """Per row; 0 where the server gave no rounds one by one (`told` False).

    A run is a row of consecutive rounds, each with a rejected draft token. `rejected`: rounds in all of them.
    `nothing_at_end`: last rounds that accepted nothing. `first_…`: of the first round, -1 where there is none.
    """

    told: Bools
    zero_length: Ints
    rejected: Ints
    runs: Ints
    longest_run: Ints
    nothing_at_end: Ints
    first_accepted: Ints
    first_drafted: Ints


def rounds_of(accepted: Ragged[np.int64], drafted: Ragged[np.int64]) -> Rounds:
    """Rows whose two lists differ in length tell nothing here: their statistics contradict themselves."""
    told = (accepted.counts == drafted.counts) & (accepted.counts > 0)
    rows = len(told)
    row, fails = accepted.row[told[accepted.row]], _kept(accepted, told) < _kept(drafted, told)
    opens = fails.copy()
    opens[1:] &= ~(fails[:-1] & (row[1:] == row[:-1]))
    run_no = np.cumsum(opens) - 1
    lengths = np.bincount(run_no[fails])
    owner = row[opens]
    longest = np.zeros(rows, np.int64)
    np.maximum.at(longest, owner, lengths)
    return Rounds(
        told=told,
        zero_length=np.bincount(row[_kept(drafted, told) == 0], minlength=rows),
        rejected=np.bincount(row[fails], minlength=rows),
        runs=np.bincount(owner, minlength=rows),
        longest_run=longest,
        nothing_at_end=_nothing_at_end(accepted),
        first_accepted=_first(accepted),
        first_drafted=_first(drafted),
    )


def _kept(lists: Ragged[np.int64], rows: Bools) -> Ints:
    return lists.values[rows[lists.row]]


def _first(lists: Ragged[np.int64]) -> Ints:
    """The first entry of each row, -1 of an empty one."""
    first = np.full(len(lists.counts), -1, np.int64)
    filled = lists.counts > 0
    first[filled] = lists.values[lists.offsets[:-1][filled]]
    return first


def _nothing_at_end(accepted: Ragged[np.int64]) -> Ints:
    """Rounds after the last one that accepted anything."""
    last = np.full(len(accepted.counts), -1, np.int64)
    hits = accepted.values > 0
    np.maximum.at(last, accepted.row[hits], accepted.place[hits])
    run: Ints = accepted.counts - 1 - last
    return run
