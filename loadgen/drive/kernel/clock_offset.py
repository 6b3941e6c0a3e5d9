"""CLOCK_REALTIME against CLOCK_MONOTONIC: kernel stamps are wall time, specload's times are monotonic.

NTP slews both clocks alike, so between two steps of the wall clock their offset is constant: one tight
reading serves until a step, and differences of converted stamps are the kernel's own.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from loadgen.clock import Anchor, anchor, now_ns

SAMPLE_NS = 1_000_000_000
_TRIES = 16
#: a quick look, in which the process may be preempted, tells only steps larger than this
_GLANCE_NS = 1_000_000
#: two tight readings that differ by more than their uncertainties and this are a step
_GRAIN_NS = 1_000


@dataclass(frozen=True, slots=True)
class ClockStep:
    """The wall clock was set. Seen at `seen_ns`, happened after `since_ns` (CLOCK_MONOTONIC ns)."""

    since_ns: int
    seen_ns: int
    delta_ns: int


class WallOffset:
    """wall = mono + `offset_ns`, known to ± `uncertainty_ns`. `samples` counts the readings taken."""

    def __init__(self) -> None:
        first = anchor(_TRIES)
        self.offset_ns = first.wall_ns - first.mono_ns
        self.uncertainty_ns = first.uncertainty_ns
        self.samples = 1
        self.steps: list[ClockStep] = []
        self._sampled_ns = first.mono_ns

    def check(self) -> None:
        """Call before stamps are converted: a step of over 1 ms is seen at once, a smaller one within a second."""
        wall_ns, mono_ns = time.time_ns(), now_ns()
        if mono_ns - self._sampled_ns > SAMPLE_NS or abs(wall_ns - mono_ns - self.offset_ns) > _GLANCE_NS:
            self.take(anchor(_TRIES))

    def take(self, reading: Anchor) -> None:
        """Judge a reading: the same offset as before, or a step, from which on it is the offset."""
        self.samples += 1
        offset_ns = reading.wall_ns - reading.mono_ns
        delta_ns = offset_ns - self.offset_ns
        if abs(delta_ns) > self.uncertainty_ns + reading.uncertainty_ns + _GRAIN_NS:
            self.steps.append(ClockStep(self._sampled_ns, reading.mono_ns, delta_ns))
            self.offset_ns, self.uncertainty_ns = offset_ns, reading.uncertainty_ns
        self._sampled_ns = reading.mono_ns
