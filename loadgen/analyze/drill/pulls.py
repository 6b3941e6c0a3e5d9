"""One pull of the switch: what moved, what was lost, when it had settled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from loadgen.analyze.columns import Bools
from loadgen.analyze.drill.counters import Watched, arrivals, counter, first_rise, last_rise
from loadgen.analyze.drill.rows import FALLBACK, SPECULATING, UNKNOWN, Rows, Sides
from loadgen.analyze.drill.settling import settled
from loadgen.analyze.found.drill import DrillPull, Losses, Routed
from loadgen.analyze.summary import N
from loadgen.drive import Outcome

EXAMPLES = 3
CLIENT = "client"


@dataclass(frozen=True)
class Pull:
    """As its event says. `until_ns`: the next pull, or the end of the load, where it is the `last`."""

    number: int
    direction: Literal["off", "on"]
    at_ns: int
    until_ns: int
    last: bool
    took_s: float
    ok: bool
    said: str


@dataclass(frozen=True)
class Seen:
    """All that is known of a drill. `apart`: the sides are different servers, as far as the scenario says."""

    rows: Rows
    sides: Sides
    speculating: Watched
    apart: bool
    window: int
    begin_ns: int
    first_pull_ns: int


def pull_found(seen: Seen, pull: Pull) -> DrillPull:
    rows = seen.rows
    sent = (rows.begin_ns >= pull.at_ns) & (rows.begin_ns < pull.until_ns)
    answered = sent & rows.ok
    off = pull.direction == "off"
    return DrillPull(
        number=pull.number,
        direction=pull.direction,
        at_s=(pull.at_ns - seen.begin_ns) / 1e9,
        until_s=(pull.until_ns - pull.at_ns) / 1e9,
        took_s=pull.took_s,
        ok=pull.ok,
        said=pull.said,
        routed=_routed(seen, sent),
        **(_stopped(seen, pull, sent) if off else _resumed(seen, pull, sent)),
        settled=[
            settled(metric, rows.begin_ns[answered], getattr(rows, metric)[answered], pull.at_ns, pull.until_ns,
                    seen.window)
            for metric in ("ttft_s", "tpot_s")
        ],
        longest_ttft_s=_longest(seen, answered),
        losses=_losses(seen, pull),
    )  # fmt: skip


def _routed(seen: Seen, sent: Bools) -> Routed:
    side = seen.sides.side
    there = np.flatnonzero(sent & (side == SPECULATING))
    fallback = np.flatnonzero(sent & (side == FALLBACK))
    after = fallback[fallback > there[-1]] if len(there) else fallback
    return Routed(
        speculating=len(there),
        fallback=len(fallback),
        unknown=_count(sent & (side == UNKNOWN)),
        fallback_after_last=len(after),
    )


def _stopped(seen: Seen, pull: Pull, sent: Bools) -> Mapping[str, N]:
    side = seen.speculating
    rounds = last_rise(side, side.rises(counter("drafts")), pull.at_ns, pull.until_ns, "the count of rounds")
    found = {"last_round_s": rounds}
    if seen.sides.known_by in ("header", "statistics"):
        return found | {"last_routed_s": _last_routed(seen, pull, sent), "last_token_s": _last_token(seen, pull)}
    if not seen.apart:
        why = "the sides are the same servers: their counters tell of rounds only"
        return found | {key: N(value=None, n=0, source="counters", reason=why) for key in _ROUTED}
    tokens = last_rise(side, side.rises(counter("generation_tokens")), pull.at_ns, pull.until_ns, "generated tokens")
    came = last_rise(side, arrivals(side), pull.at_ns, pull.until_ns, "the number of requests that came")
    return found | {"last_routed_s": came, "last_token_s": tokens}


_ROUTED = ("last_routed_s", "last_token_s")


def _last_routed(seen: Seen, pull: Pull, sent: Bools) -> N:
    """0 where none was sent there after the pull. `high`: the first request after it that the fallback answered."""
    rows, side, how = seen.rows, seen.sides.side, seen.sides.known_by or CLIENT
    there = np.flatnonzero(sent & (side == SPECULATING))
    after = rows.begin_ns[there[-1]] if len(there) else pull.at_ns
    elsewhere = rows.begin_ns[sent & (side == FALLBACK) & (rows.begin_ns > after)]
    if not len(there) and not len(elsewhere):
        return N(value=None, n=0, source=how, reason="of no request sent after the pull the server is known")
    value = _since(int(after), pull)
    high = _since(int(elsewhere[0]), pull) if len(elsewhere) else None
    missing = None if len(elsewhere) else "no request after it is known to have gone to the fallback"
    unknown = _count(sent & (side == UNKNOWN) & (rows.begin_ns > after))
    if unknown:
        missing = "; ".join(filter(None, (missing, f"of {unknown} requests after it the server is not known")))
    return N(value=value, low=value, high=high, n=_count(sent & (side != UNKNOWN)), source=how, reason=missing)


def _last_token(seen: Seen, pull: Pull) -> N:
    """Of all requests that a speculating server answered, those in flight at the pull among them."""
    rows, how = seen.rows, seen.sides.known_by or CLIENT
    there = (seen.sides.side == SPECULATING) & rows.has_last & (rows.begin_ns < pull.until_ns)
    if not there.any():
        return N(value=None, n=0, source=how, reason="no request is known to have been answered there")
    later = rows.last_ns[there & (rows.last_ns > pull.at_ns)]
    if not len(later):
        return N(value=0.0, low=0.0, high=0.0, n=0, source=how, reason="none was in flight there at the pull")
    value = _since(int(later.max()), pull)
    return N(value=value, low=value, high=value, n=len(later), source=how)


def _resumed(seen: Seen, pull: Pull, sent: Bools) -> Mapping[str, N]:
    rows, side, how = seen.rows, seen.sides.side, seen.sides.known_by or CLIENT
    if seen.sides.known_by not in ("header", "statistics"):
        first = N(value=None, n=0, source=how, reason=seen.sides.note)
    else:
        there = rows.begin_ns[sent & (side == SPECULATING)]
        n = _count(sent & (side != UNKNOWN))
        if len(there):
            value = _since(int(there[0]), pull)
            first = N(value=value, low=value, high=value, n=n, source=how)
        else:
            first = N(value=None, n=n, source=how, reason="no request was answered by a speculating server again")
    return {"first_routed_s": first, "acceptance_s": _acceptance(seen, pull, sent)}


def _acceptance(seen: Seen, pull: Pull, sent: Bools) -> N:
    """By the answers' own statistics, which come at their end; else by counters."""
    rows = seen.rows
    told = sent & rows.has_last & (rows.accepted > 0) & (rows.last_ns <= pull.until_ns)
    by_counter = seen.speculating
    rises = by_counter.rises(counter("accepted_tokens"))
    counted = first_rise(by_counter, rises, pull.at_ns, pull.until_ns, "the count of accepted tokens")
    if not told.any():
        return counted
    value = _since(int(rows.last_ns[told].min()), pull)
    low = value if counted.low is None else min(counted.low, value)
    return N(value=value, low=low, high=value, n=_count(told), source="statistics",
             reason="told at the end of an answer; low: by the servers' counters")  # fmt: skip


def _longest(seen: Seen, answered: Bools) -> N:
    values = seen.rows.ttft_s[answered]
    known = values[~np.isnan(values)]
    if not len(known):
        return N(value=None, n=0, source=CLIENT, reason="no streamed request was answered")
    return N(value=float(known.max()), n=len(known), source=CLIENT)


def _losses(seen: Seen, pull: Pull) -> Losses:
    rows = seen.rows
    first_of_all = rows.end_ns < seen.first_pull_ns
    ended = np.flatnonzero((rows.end_ns >= pull.at_ns) & (pull.last | (rows.end_ns < pull.until_ns)))
    lost = ended[rows.lost[ended]]
    times = sorted(_since(int(ns), pull) for ns in rows.end_ns[lost])
    outcomes = Counter(str(o) for o in rows.outcome[ended])
    return Losses(
        ended=len(ended),
        in_flight=_count(rows.begin_ns[ended] < pull.at_ns),
        ok=outcomes[Outcome.OK.value],
        lost=len(lost),
        by_outcome=dict(Counter(str(o) for o in rows.outcome[lost]).most_common()),
        by_status=dict(Counter(str(s) for s in rows.status[lost] if s is not None).most_common()),
        cut=_count(rows.has_last[lost]),
        aborted=outcomes[Outcome.ABORTED.value],
        client_faults=outcomes[Outcome.CLIENT_FAULT.value],
        first_s=times[0] if times else None,
        last_s=times[-1] if times else None,
        before=_count(first_of_all),
        lost_before=_count(first_of_all & rows.lost),
        examples=_examples([rows.message[i] for i in lost]),
    )


def _examples(messages: Sequence[str | None]) -> list[str]:
    return [text for text, _ in Counter(m for m in messages if m).most_common(EXAMPLES)]


def _since(at_ns: int, pull: Pull) -> float:
    return max(at_ns - pull.at_ns, 0) / 1e9


def _count(rows: Bools) -> int:
    return int(np.count_nonzero(rows))
