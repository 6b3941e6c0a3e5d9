"""Signs of life beside the anomalies: when requests of the load and of the witnesses ended, and how."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from itertools import pairwise

from loadgen.clock import now_ns

#: Between two looks at the load's counts.
_LOOK_S = 0.25


class Pulse:
    """Memory: one entry a look in which something ended, and one an answer of a witness."""

    def __init__(self, ended: Callable[[], tuple[int, int]]) -> None:
        self._ended = ended
        #: (when, how many ended, how many of them failed), ascending
        self._marks: list[tuple[int, int, int]] = []

    async def work(self) -> None:
        """Until cancelled."""
        last = self._ended()
        while True:
            await asyncio.sleep(_LOOK_S)
            told = self._ended()
            if told[0] > last[0]:
                insort(self._marks, (now_ns(), told[0] - last[0], told[1] - last[1]))
            last = told

    def note(self, at_ns: int, failed: bool) -> None:
        """A witness was answered, or not."""
        insort(self._marks, (at_ns, 1, int(failed)))

    def longest_s(self, begin_ns: int, end_ns: int) -> float:
        """Longest time in which nothing ended, of those that overlap the span; what is still going on counts up to
        now."""
        first = max(bisect_right(self._marks, (begin_ns, 0, 0)) - 1, 0)
        last = bisect_left(self._marks, (end_ns, 0, 0)) + 1
        times = [at for at, _, _ in self._marks[first:last]]
        if last > len(self._marks):
            times.append(max(now_ns(), end_ns))
        return max((b - a for a, b in pairwise(times)), default=0) / 1e9

    def failed(self, begin_ns: int, end_ns: int) -> tuple[int, int]:
        """Of those that ended in the span: failed, and all."""
        inside = self._marks[bisect_left(self._marks, (begin_ns, 0, 0)) : bisect_left(self._marks, (end_ns, 0, 0))]
        return sum(failed for _, _, failed in inside), sum(ended for _, ended, _ in inside)
