"""The wall clock's offset and its steps, from hand-made readings."""

from __future__ import annotations

import time

from loadgen.clock import Anchor
from loadgen.drive.kernel.clock_offset import SAMPLE_NS, ClockStep, WallOffset


def test_offset_is_the_clocks_difference() -> None:
    offset = WallOffset()
    assert abs(time.time_ns() - time.monotonic_ns() - offset.offset_ns) < 50_000_000
    assert offset.uncertainty_ns >= 0
    assert offset.steps == []


def test_a_reading_within_the_uncertainty_changes_nothing() -> None:
    """NTP slews both clocks alike: an offset that jitters would move gaps that are exact."""
    offset = WallOffset()
    known, at_ns = offset.offset_ns, time.monotonic_ns()
    offset.take(Anchor(at_ns, at_ns + known + 500, 100))
    assert (offset.offset_ns, offset.steps, offset.samples) == (known, [], 2)


def test_a_step_is_recorded_and_followed() -> None:
    """C24: the wall clock is set back 2 s in mid-run."""
    offset = WallOffset()
    known, at_ns = offset.offset_ns, time.monotonic_ns()
    offset.take(Anchor(at_ns, at_ns + known, 100))
    offset.take(Anchor(at_ns + 1000, at_ns + 1000 + known - 2_000_000_000, 70))
    assert offset.steps == [ClockStep(at_ns, at_ns + 1000, -2_000_000_000)]
    assert (offset.offset_ns, offset.uncertainty_ns) == (known - 2_000_000_000, 70)


def test_a_glance_sees_a_large_step_at_once() -> None:
    """C24: no stamp is converted with an offset that is a millisecond off."""
    offset = WallOffset()
    true_ns = offset.offset_ns
    offset.offset_ns += 5_000_000  # as if the wall clock had been set back since
    offset.check()
    assert abs(offset.offset_ns - true_ns) < 1_000_000
    assert len(offset.steps) == 1


def test_looks_again_once_a_second() -> None:
    offset = WallOffset()
    offset.check()
    assert offset.samples == 1
    offset._sampled_ns -= SAMPLE_NS
    offset.check()
    assert offset.samples == 2
