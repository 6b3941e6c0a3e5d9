"""A soak's part of the summary, on the rehearsal engine in virtual time with known truth."""

from __future__ import annotations

import pytest

from loadgen.analyze import SeriesTrend, Stability
from server_adapters.rehearsal import Switches


def _of(stability: Stability, name: str) -> SeriesTrend:
    (found,) = [s for s in stability.series if s.name == name]
    return found


def _drifting(stability: Stability) -> set[str]:
    return {s.name for s in stability.series if s.drift is not None}


def test_a_drafter_that_drifts_and_a_leak_are_found_and_dated(soaked) -> None:
    """From minute 10 on the drafter loses 5 points of acceptance over 30 minutes, and the server leaks 0.1 MB/s."""

    def drifting(now_s: float, switches: Switches) -> None:
        switches.draft_bias = 0.03 * max(now_s - 600, 0) / 1800

    found = soaked(switching=drifting, leak_mb_per_s=0.1)
    assert found.state == "drifting"
    alpha = _of(found, "acceptance_rate").drift
    assert alpha is not None
    assert (alpha.worse, alpha.matters) == (True, True)
    assert alpha.size_interval[0] < -0.05 < alpha.size_interval[1] < 0
    assert alpha.start_interval_s[0] < 600 < alpha.start_interval_s[1]
    memory = _of(found, "server_memory_bytes").drift
    assert memory is not None
    assert (memory.shape, memory.worse) == ("ramp", True)
    assert memory.start_s == pytest.approx(600, abs=60)
    assert memory.size == pytest.approx(180e6, rel=0.05)
    assert _drifting(found) <= {"acceptance_rate", "rollback_rate", "e_verified", "tpot_s", "server_memory_bytes"}


def test_a_steady_server_is_steady(soaked) -> None:
    found = soaked(seed=2, users=4)
    assert found.state == "steady"
    assert _drifting(found) == set()
    judged = {s.name for s in found.series if s.p is not None}
    assert judged == {
        "acceptance_rate", "rollback_rate", "e_verified", "tpot_s", "ttft_s", "jitter", "server_memory_bytes"
    }  # fmt: skip
    assert (found.windows, found.window_s, found.failure_rate.value) == (120, 20.0, 0.0)
    assert _of(found, "error_share").reason == (
        "0 of 120 windows differ from the most frequent value: too few to tell a drift"
    )
    assert _of(found, "kv_usage").reason == "no scrape tells the use of the KV cache"
