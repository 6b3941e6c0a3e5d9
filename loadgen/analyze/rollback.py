"""Rollback rate: rounds with a rejected draft token ÷ rounds, exact or as an interval (docs/method.md, "Rollback")."""

from __future__ import annotations

import numpy as np

from loadgen.analyze.columns import Ints
from loadgen.analyze.counters import Counters
from loadgen.analyze.frames import Frame
from loadgen.analyze.spec_counts import Drafts
from loadgen.analyze.summary import Rollback
from loadgen.analyze.values import COUNTERS, NONE, PER_REQUEST
from server_adapters.rounds import from_positions

ARTEFACT = "this method counts k drafts in every round, so rounds without a draft look rejected: an upper bound only"
UNKNOWN_METHOD = (
    "the speculation method is not known, and with some methods full counts are an artefact; "
    "spec_method in the scenario's arm settles it"
)


def unknown(reason: str, n: int = 0, source: str = NONE) -> Rollback:
    return Rollback(value=None, low=None, high=None, exact=False, n=n, source=source, reason=reason)


def rollback(
    frame: Frame, rows: Ints, drafts: Drafts | None, counters: Counters | None, artefact: bool | None, zero_length: bool
) -> Rollback:
    """`artefact`: whether the method's drafted counts are k × rounds by construction; None = method unknown.
    `zero_length`: rounds without any draft token left are possible (structured output)."""
    if drafts is None or drafts.source == NONE:
        return unknown("no source tells the rounds")
    if drafts.rounds <= 0:
        return unknown("no round was made", 0, drafts.source)
    if drafts.source == PER_REQUEST:
        return _summed(frame, rows, drafts, artefact)
    return _from_counters(drafts, counters, artefact, zero_length)


def _summed(frame: Frame, rows: Ints, drafts: Drafts, artefact: bool | None) -> Rollback:
    """A group's bounds are the sums of its requests' bounds; a request without any has [0, rounds]."""
    stats = frame.stats
    mine = rows[frame.ok[rows] & stats.told[rows]]
    rounds = np.nan_to_num(stats.rounds[mine])
    low = np.where(np.isnan(stats.bound_low[mine]), 0.0, stats.bound_low[mine])
    high = np.where(np.isnan(stats.bound_high[mine]), rounds, stats.bound_high[mine])
    full = bool((stats.drafted[mine] == stats.k[mine] * rounds)[rounds > 0].all())
    return _published(float(low.sum()), float(high.sum()), drafts, artefact, full, None)


def _from_counters(drafts: Drafts, counters: Counters | None, artefact: bool | None, zero_length: bool) -> Rollback:
    if drafts.drafted is None or drafts.at_position is None or counters is None:
        return unknown("the counters do not tell drafted tokens and positions", int(drafts.rounds), COUNTERS)
    rounds, drafted = round(drafts.rounds), round(drafts.drafted)
    at = [round(a) for a in drafts.at_position]
    try:
        bounds = from_positions(rounds, drafted, at, zero_length_rounds=zero_length)
    except ValueError as error:
        return unknown(f"the counters contradict each other: {error}", rounds, COUNTERS)
    missed = None if counters.whole else "the counter window is not whole: " + "; ".join(counters.incomplete)
    full = drafted == len(at) * rounds
    return _published(bounds.low, bounds.high, drafts, artefact, full, missed)


def _published(
    low: float, high: float, drafts: Drafts, artefact: bool | None, full: bool, missed: str | None
) -> Rollback:
    """`full`: all drafts are counted with k tokens, which is what an artefact would look like."""
    reason = missed
    if artefact and high > 0:
        low, reason = 0.0, ARTEFACT
    elif artefact is None and full and high > 0:
        low, reason = 0.0, UNKNOWN_METHOD
    elif low != high and reason is None:
        reason = "the counts allow an interval only: drafts of different lengths without per-round data"
    exact = low == high and reason is None
    rounds = drafts.rounds
    return Rollback(
        value=low / rounds if exact else None, low=low / rounds, high=high / rounds, exact=exact,
        n=int(rounds), source=drafts.source, reason=reason,
    )  # fmt: skip
