"""One monotonic clock per process, and its offset to wall time.

All `*_ns` times are CLOCK_MONOTONIC nanoseconds: on Linux shared by the processes of one
machine. Wall time exists only in the manifest, through anchors sampled over the run.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

now_ns = time.monotonic_ns


@dataclass(frozen=True, slots=True)
class Anchor:
    """wall_ns = mono_ns + offset, known to ± uncertainty_ns at mono_ns."""

    mono_ns: int
    wall_ns: int
    uncertainty_ns: int


def anchor(tries: int = 5) -> Anchor:
    """Read (mono, wall, mono) a few times and keep the tightest reading."""
    best: Anchor | None = None
    for _ in range(tries):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        reading = Anchor((before + after) // 2, wall, (after - before + 1) // 2)
        if best is None or reading.uncertainty_ns < best.uncertainty_ns:
            best = reading
    assert best is not None
    return best
