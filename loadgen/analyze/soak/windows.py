"""Equal windows over the steady load of one arm and stage, and what is summed in each (docs/soak.md, "Windows")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from loadgen.analyze.columns import Floats, Ints
from loadgen.analyze.windows import SegmentWindow, Span

#: At most so many windows, however long the soak, and none shorter than this
MOST_WINDOWS, SHORTEST_S = 120, 5.0


@dataclass(frozen=True)
class Windows:
    """`spans`: pieces of steady load, ascending, apart; piece i lies in window `of[i]`. `times_s`: middles of the `n`
    windows, seconds from the start of the first."""

    spans: tuple[Span, ...]
    of: Ints
    times_s: Floats
    seconds: float

    @property
    def n(self) -> int:
        return len(self.times_s)

    def at(self, stamps: Ints) -> Ints:
        """The window of each CLOCK_MONOTONIC stamp, -1 for none."""
        if not self.spans:
            return np.full(len(stamps), -1)
        starts, ends = np.array(self.spans).T
        piece = np.searchsorted(starts, stamps, side="right") - 1
        inside = (piece >= 0) & (stamps < ends[piece])
        return np.where(inside, self.of[piece], -1)

    def mean(self, of_span: Callable[[int, int], float | None]) -> Floats:
        """(n,) mean over the pieces of each window; NaN where a piece has none."""
        found = [of_span(*span) for span in self.spans]
        values = np.array([np.nan if value is None else value for value in found], dtype=np.float64)
        total = np.bincount(self.of, weights=values, minlength=self.n)
        return np.asarray(total / np.bincount(self.of, minlength=self.n), dtype=np.float64)


def windows_over(segments: Sequence[SegmentWindow]) -> Windows:
    """Of one arm and stage; each segment's steady part is cut into windows of about the same length. More segments
    than windows: neighbours share one."""
    steady = sorted(w.steady for w in segments if w.steady is not None)
    seconds = sum(end - start for start, end in steady) / 1e9
    if not seconds:
        return Windows((), np.zeros(0, np.int64), np.zeros(0), 0.0)
    width_s = max(seconds / MOST_WINDOWS, SHORTEST_S)
    pieces = [piece for span in steady for piece in _cut(span, width_s)]
    together = -(-len(pieces) // MOST_WINDOWS)
    of = np.arange(len(pieces)) // together
    middles = (np.array(pieces) - pieces[0][0]).mean(axis=1) / 1e9
    times = np.bincount(of, weights=middles) / np.bincount(of)
    return Windows(tuple(pieces), of, times, seconds)


def _cut(span: Span, width_s: float) -> list[Span]:
    count = max(int((span[1] - span[0]) / 1e9 / width_s + 0.01), 1)
    edges = np.linspace(span[0], span[1], count + 1).astype(np.int64).tolist()
    return list(pairwise(edges))
