"""When streams whose answer has begun are read: as data comes, or, where much comes, by the clock."""

from __future__ import annotations

#: between two looks. The kernel's stamps do not mind; chunks of one stream that come closer than this are read as one
EVERY_NS = 250_000
#: reads a second from which on the clock wakes the loop less often than the data would, and below which not
_ON_PER_S, _OFF_PER_S = 12_000, 6_000
_JUDGED_NS = 20_000_000


class Pace:
    """`on`: read by the clock. Judged anew fifty times a second from the reads since."""

    def __init__(self) -> None:
        self.on = False
        self._reads = 0
        self._since_ns = 0

    def count(self, reads: int, at_ns: int) -> bool:
        """Whether `on` has changed. `reads`: made since the last call; `at_ns`: CLOCK_MONOTONIC."""
        self._reads += reads
        span_ns = at_ns - self._since_ns
        if span_ns < _JUDGED_NS:
            return False
        per_s = self._reads * 1_000_000_000 / span_ns
        before, self.on = self.on, per_s > (_OFF_PER_S if self.on else _ON_PER_S)
        self._reads, self._since_ns = 0, at_ns
        return before is not self.on
