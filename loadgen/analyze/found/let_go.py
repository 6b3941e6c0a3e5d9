"""Whether what an anomaly left goes on: more ran and waited on the server than we ourselves had there.

No test, and none is needed: on a server that serves nobody else and lets go of what is left, what runs and waits is
what we have in flight. What ended within `STALE_NS` counts as in flight, since a server's page may be so old.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loadgen.analyze.columns import Ints
from loadgen.analyze.found.anomaly_events import Sent
from loadgen.analyze.found.foreign_requests import refused
from loadgen.analyze.frames import Frame
from loadgen.record import Event

#: As old as a page of running and waiting may be.
STALE_NS = 5_000_000_000
#: Looks that must all see more than ours.
FEWEST_LOOKS = 2

#: (when, what ran and waited; None: the page did not tell)
Look = tuple[int, float | None]


@dataclass(frozen=True)
class InFlight:
    """Requests of ours on one server: (n,) ascending CLOCK_MONOTONIC of when they were sent, and of when they ended."""

    sent: Ints
    ended: Ints

    def most(self, begin_ns: int, end_ns: int) -> int:
        """At any moment of the span, its edges among them."""
        inside = self.sent[np.searchsorted(self.sent, begin_ns) : np.searchsorted(self.sent, end_ns, side="right")]
        at = np.append(inside, begin_ns)
        return int((np.searchsorted(self.sent, at, side="right") - np.searchsorted(self.ended, at)).max())


def in_flight(frame: Frame, asked: Sequence[Event]) -> InFlight:
    """The load's requests, and the witnesses' and probes (`asked`: events of their ends)."""
    known = frame.sent[1] & frame.end[1]
    ends = np.array([e.at_ns for e in asked], dtype=np.int64)
    begins = ends - np.array([round(float(e.data["s"]) * 1e9) for e in asked], dtype=np.int64)
    return InFlight(
        np.sort(np.concatenate([frame.sent[0][known], begins])), np.sort(np.concatenate([frame.end[0][known], ends]))
    )


def foreign(looks: Sequence[Look], ours: InFlight) -> int:
    """Looks that saw more than ours."""
    return sum(_more(look, ours, STALE_NS) for look in looks)


def goes_on(looks: Sequence[Look], ours: InFlight) -> bool:
    """Of the looks after one anomaly. Those of its first moments do not count, when it may still be on the page."""
    later, stale_ns = _later(looks)
    return len(later) >= FEWEST_LOOKS and all(_more(look, ours, stale_ns) for look in later)


def foreign_after(sent: Sequence[Sent], ours: InFlight) -> str | None:
    """The first anomaly after which more went on than was ours, if it was refused: that leaves nothing. Where it was
    not, what follows may still be what it left."""
    first = next((one for one in sent if not (one.down or one.outage) and _goes_on(one, ours)), None)
    return first.name if first is not None and refused(first) else None


def _goes_on(one: Sent, ours: InFlight) -> bool:
    told = one.let_go
    return told is not None and told["s"] is None and goes_on(told.get("looks", ()), ours)


def seen_after(let_go: Mapping[str, Any] | None) -> bool:
    """Of the event `let_go`, None: nobody looked. Whether running and waiting were seen to be back at what they were,
    or often enough to be held against ours."""
    if let_go is None:
        return False
    return let_go["s"] is not None or len(_later(let_go.get("looks", ()))[0]) >= FEWEST_LOOKS


def _later(looks: Sequence[Look]) -> tuple[list[Look], int]:
    """Those that were told and count, and how old a page may be for them, ns."""
    if not looks:  # a run of a version that did not keep them
        return [], 0
    stale_ns = min(STALE_NS, (looks[-1][0] - looks[0][0]) // 2)
    return [look for look in looks if look[0] >= looks[0][0] + stale_ns and look[1] is not None], stale_ns


def _more(look: Look, ours: InFlight, stale_ns: int) -> bool:
    at_ns, busy = look
    return busy is not None and busy > ours.most(at_ns - stale_ns, at_ns)
