"""Where the requests of one pull went, and when that changed: exact where every server is known, else bounds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from loadgen.analyze.columns import Bools
from loadgen.analyze.drill.counters import arrivals, counter, first_rise, last_rise
from loadgen.analyze.drill.rows import FALLBACK, SPECULATING, UNKNOWN
from loadgen.analyze.drill.seen import CLIENT, Pull, Seen, count
from loadgen.analyze.found.drill import Routed
from loadgen.analyze.summary import N

_ROUTED = ("last_routed_s", "last_token_s")


def routed(seen: Seen, sent: Bools) -> Routed:
    side = seen.sides.side
    there, fallback = sent & (side == SPECULATING), sent & (side == FALLBACK)
    after = np.arange(len(side)) > (np.flatnonzero(there)[-1] if there.any() else -1)
    return Routed(
        speculating=count(there),
        fallback=count(fallback),
        unknown=count(sent & ~there & ~fallback),
        fallback_after_last=count(fallback & after),
        unknown_after_last=count(_doubtful(seen, sent) & after),
    )


def stopped(seen: Seen, pull: Pull, sent: Bools) -> Mapping[str, N]:
    """Of switching off."""
    side = seen.speculating

    def last(read: str) -> N:
        return last_rise(side, side.rises(counter(read)), pull.at_ns, pull.until_ns, _RISES[read])

    rounds = last("drafts")
    came = last_rise(side, arrivals(side), pull.at_ns, pull.until_ns, "the number of requests that came")
    found = {"last_round_s": rounds}
    if seen.sides.known_by in ("header", "statistics"):
        routed_most, token_most = (came, last("generation_tokens")) if seen.apart else (rounds, None)
        return found | {
            "last_routed_s": _last_routed(seen, pull, sent, routed_most),
            "last_token_s": _last_token(seen, pull, token_most),
        }
    if not seen.apart:
        why = "the sides are the same servers: their counters tell of rounds only"
        return found | {key: N(value=None, n=0, source="counters", reason=why) for key in _ROUTED}
    return found | {"last_routed_s": came, "last_token_s": last("generation_tokens")}


_RISES = {"drafts": "the count of rounds", "generation_tokens": "generated tokens"}


def _last_routed(seen: Seen, pull: Pull, sent: Bools, counted: N) -> N:
    """0 where none was sent there after the pull. `high`: the first request after it that the fallback answered.
    Bounds where answers after it may have been a speculating server's; `counted`: the most by its counters."""
    rows, side, how = seen.rows, seen.sides.side, seen.sides.known_by or CLIENT
    there = np.flatnonzero(sent & (side == SPECULATING))
    after_ns = int(rows.begin_ns[there[-1]]) if len(there) else pull.at_ns
    fallback = rows.begin_ns[sent & (side == FALLBACK) & (rows.begin_ns > after_ns)]
    doubtful = rows.begin_ns[_doubtful(seen, sent) & (rows.begin_ns > after_ns)]
    if not len(there) and not len(fallback) and not len(doubtful):
        return N(value=None, n=0, source=how, reason="of no request sent after the pull the server is known")
    low, n = pull.since(after_ns), count(sent & (side >= FALLBACK))
    if not len(doubtful):
        high = pull.since(int(fallback[0])) if len(fallback) else None
        missing = None if len(fallback) else "no request after it is known to have gone to the fallback"
        return N(value=low, low=low, high=high, n=n, source=how, reason=missing)
    later = fallback[fallback > doubtful[-1]]
    bounds = [counted.high, pull.since(int(later[0])) if len(later) else None]
    high = min((bound for bound in bounds if bound is not None and bound >= low), default=None)
    why = f"at least: {len(doubtful)} answers to later requests do not tell their server ({seen.sides.note})"
    return N(value=None, low=low, high=high, n=n, source=how, reason=why)


def _last_token(seen: Seen, pull: Pull, counted: N | None) -> N:
    """Of all requests that a speculating server answered, those in flight at the pull among them; bounds likewise."""
    rows, how, side = seen.rows, seen.sides.known_by or CLIENT, seen.sides.side
    so_far = rows.has_last & (rows.begin_ns < pull.until_ns)
    there, doubtful = so_far & (side == SPECULATING), so_far & _doubtful(seen, rows.ok)
    if not there.any() and not doubtful.any():
        return N(value=None, n=0, source=how, reason="no request is known to have been answered there")
    later = rows.last_ns[there & (rows.last_ns > pull.at_ns)]
    last_ns = int(later.max()) if len(later) else pull.at_ns
    low, maybe = pull.since(last_ns), count(doubtful & (rows.last_ns > last_ns))
    if not maybe:
        why = None if len(later) else "none was in flight there at the pull"
        return N(value=low, low=low, high=low, n=len(later), source=how, reason=why)
    high = None if counted is None or counted.high is None or counted.high < low else counted.high
    why = f"at least: {maybe} answers that ended later do not tell their server ({seen.sides.note})"
    return N(value=None, low=low, high=high, n=len(later), source=how, reason=why)


def _doubtful(seen: Seen, among: Bools) -> Bools:
    """Answered, and not told by whom. A request without an answer was answered by nobody."""
    found: Bools = among & seen.rows.ok & (seen.sides.side == UNKNOWN)
    return found


def resumed(seen: Seen, pull: Pull, sent: Bools) -> Mapping[str, N]:
    """Of switching back."""
    how = seen.sides.known_by or CLIENT
    if seen.sides.known_by not in ("header", "statistics"):
        first = N(value=None, n=0, source=how, reason=seen.sides.note)
    else:
        first = _first_routed(seen, pull, sent)
    return {"first_routed_s": first, "acceptance_s": _acceptance(seen, pull, sent)}


def _first_routed(seen: Seen, pull: Pull, sent: Bools) -> N:
    rows, side, how = seen.rows, seen.sides.side, seen.sides.known_by or CLIENT
    there = rows.begin_ns[sent & (side == SPECULATING)]
    doubtful = rows.begin_ns[_doubtful(seen, sent)]
    n = count(sent & (side >= FALLBACK))
    if not len(there):
        return N(value=None, n=n, source=how, reason="no request was answered by a speculating server again")
    high = pull.since(int(there[0]))
    sooner = doubtful[doubtful < there[0]]
    if not len(sooner):
        return N(value=high, low=high, high=high, n=n, source=how)
    why = f"at most: {len(sooner)} answers to earlier requests do not tell their server"
    return N(value=None, low=pull.since(int(sooner[0])), high=high, n=n, source=how, reason=why)


def _acceptance(seen: Seen, pull: Pull, sent: Bools) -> N:
    """By the answers' own statistics, which come at their end; else by counters."""
    rows = seen.rows
    told = sent & rows.has_last & (rows.accepted > 0) & (rows.last_ns <= pull.until_ns)
    by_counter = seen.speculating
    rises = by_counter.rises(counter("accepted_tokens"))
    counted = first_rise(by_counter, rises, pull.at_ns, pull.until_ns, "the count of accepted tokens")
    if not told.any():
        return counted
    value = pull.since(int(rows.last_ns[told].min()))
    low = value if counted.low is None else min(counted.low, value)
    return N(value=value, low=low, high=value, n=count(told), source="statistics",
             reason="told at the end of an answer; low: by the servers' counters")  # fmt: skip
