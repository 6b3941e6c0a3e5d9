"""Rollback rate: rounds with a rejected draft token ÷ rounds, exact or as an interval (docs/method.md, "Rollback")."""

from __future__ import annotations

import numpy as np

from loadgen.analyze.columns import Bools, Ints
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
    low = np.where(np.isnan(stats.bound_low[mine]), 0.0, stats.bound_low[mine])
    high = np.where(np.isnan(stats.bound_high[mine]), np.nan_to_num(stats.rounds[mine]), stats.bound_high[mine])
    low = np.where(_suspect(frame, mine, artefact), 0.0, low)
    return _published(float(low.sum()), float(high.sum()), drafts, doubt(frame, mine, artefact))


def doubt(frame: Frame, rows: Ints, artefact: bool | None) -> str | None:
    """Why rejections in the statistics of these requests may be no rollbacks; None if they are."""
    high = frame.stats.bound_high[rows]
    if not (_suspect(frame, rows, artefact) & ~(high <= 0)).any():
        return None
    return ARTEFACT if artefact else UNKNOWN_METHOD


def _suspect(frame: Frame, rows: Ints, artefact: bool | None) -> Bools:
    """Requests whose drafted counts are, or with an unknown method may be, k × rounds by construction. A method
    that counted a draft shorter than k counts what was drafted (in that request)."""
    stats = frame.stats
    if artefact is not None:
        return np.full(len(rows), artefact)
    shorter: Bools = stats.drafted[rows] < stats.k[rows] * stats.rounds[rows]
    return ~shorter


def _from_counters(drafts: Drafts, counters: Counters | None, artefact: bool | None, zero_length: bool) -> Rollback:
    if drafts.drafted is None or drafts.at_position is None or counters is None:
        return unknown("the counters do not tell drafted tokens and positions", int(drafts.rounds), COUNTERS)
    rounds, drafted = round(drafts.rounds), round(drafts.drafted)
    at = [round(a) for a in drafts.at_position]
    try:
        bounds = from_positions(rounds, drafted, at, zero_length_rounds=zero_length)
    except ValueError as error:
        return unknown(f"the counters contradict each other: {error}", rounds, COUNTERS)
    reason = None if counters.whole else "the counter window is not whole: " + "; ".join(counters.incomplete)
    low = bounds.low
    if bounds.high > 0 and (artefact or (artefact is None and drafted == len(at) * rounds)):
        low, reason = 0, ARTEFACT if artefact else UNKNOWN_METHOD
    return _published(low, bounds.high, drafts, reason)


def _published(low: float, high: float, drafts: Drafts, reason: str | None) -> Rollback:
    """`reason`: why the counts are not to be trusted as they are."""
    exact = low == high and reason is None
    if low != high and reason is None:
        reason = "the counts allow an interval only: drafts of different lengths without per-round data"
    rounds = drafts.rounds
    return Rollback(
        value=low / rounds if exact else None, low=low / rounds, high=high / rounds, exact=exact,
        n=int(rounds), source=drafts.source, reason=reason or drafts.note,
    )  # fmt: skip
