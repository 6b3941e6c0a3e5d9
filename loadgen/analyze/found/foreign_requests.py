"""Others' requests by the server's own count: what it finished beside everything that we may have sent it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loadgen.analyze.found.anomaly_events import Sent, Told
from loadgen.analyze.windows import SegmentWindow

#: Most requests that a server can see in one anomaly: a storm's connections, else two on one connection or at once.
_STORM, _FEW = 20, 2
#: Each of these asks for very many answers, which a server that serves them may count as requests.
_MANY = frozenset({"n_huge", "n_many"})
#: Witnesses and looks at health that were cut by the end and left no record.
_UNRECORDED = 20


def foreign_requests(windows: Sequence[SegmentWindow], asked_by_load: int, told: Told) -> int | None:
    """At least so many; 0: none can be told. None: the server does not count, or ours have no upper bound."""
    ours = _most_ours(told)
    finished = [_finished(window) for window in windows]
    counted = [n for n in finished if n is not None]
    if ours is None or not counted:
        return None
    return max(int(sum(counted)) - asked_by_load - ours, 0)


def _finished(window: SegmentWindow) -> float | None:
    """None where the counters may miss or double something."""
    counters = window.counters
    by_reason = counters.by_detail.get("requests_finished")
    if by_reason is None or counters.incomplete or counters.restarts:
        return None
    return sum(by_reason.values())


def _most_ours(told: Told) -> int | None:
    """Beside the load: witnesses, known-good requests, anomalies and their tries."""
    if any(one.name in _MANY and not refused(one) for one in told.sent):
        return None
    most: Mapping[str, int] = {one.name: _STORM if one.data["group"] == "disconnect" else _FEW for one in told.sent}
    sent = sum(most[one.name] for one in told.sent) + _STORM * len(told.unfinished)
    again = sum(most.get(str(one["name"]), _STORM) for one in told.again if one["sent"])
    return len(told.asked) + sent + again + _UNRECORDED


def refused(one: Sent) -> bool:
    """With a 4xx: nothing of it is left on the server."""
    got = one.data["got"]
    return got["ended"] == "answered" and got["status"] is not None and 400 <= int(got["status"]) < 500
