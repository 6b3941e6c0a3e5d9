"""A canary in virtual time: quiet while it is well, and failing on the third window after its drafts go wrong. A small,
seeded edition of benchmarks/canary_false_alarms.py, whose figures are in docs/canary.md."""

from __future__ import annotations

import pytest
from canary_false_alarms import KEYS, WORLDS, World, drift, probed, standings

from loadgen.control import CanaryStanding

HEALTHY, HOURS = 5, 0.67  # windows of 300 s before the drift, and hours in all


@pytest.fixture(scope="module")
def seen() -> list[CanaryStanding]:
    faster = WORLDS["faster"]
    world = World(faster.candidate, faster.baseline, drift(HEALTHY * KEYS.window_s))
    return list(standings(world, probed(world, HOURS, 3), HOURS, 3))


def test_a_healthy_canary_is_quiet_and_a_drift_fails_on_the_third_window(seen: list[CanaryStanding]) -> None:
    """Default rate, windows and limits: not one failing window before, three in a row afterwards."""
    states = [standing.state for standing in seen]
    assert states[0] == "no_data"  # the first window is not judged
    assert states[1:HEALTHY] == ["ok"] * (HEALTHY - 1)
    assert states[HEALTHY : HEALTHY + 3] == ["doubtful", "doubtful", "fail"]
    healthy = [c.reading.result for s in seen[1:HEALTHY] for c in s.checks]
    assert "fail" not in healthy


def test_a_healthy_canary_passes_once_enough_is_shown(seen: list[CanaryStanding]) -> None:
    """Windows taken together show what one of them cannot; a fail is a fail at once."""
    assert seen[HEALTHY - 1].verdict == "pass", seen[HEALTHY - 1].reasons
    assert seen[-1].verdict == "fail"
    assert "acceptance (probes) failed" in " ".join(seen[-1].reasons)
