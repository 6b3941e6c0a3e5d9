"""The section canary: what must fit together, and what it means where nothing is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loadgen.scenario import CanaryKeys, Scenario
from loadgen.scenario.canary import BY_COUNTERS, BY_PROBES, CanaryLimits

Build = Callable[[dict[str, Any]], Scenario]
Refused = Callable[..., list[str]]
SECOND = {"arms.candidate": {"url": "http://127.0.0.1:8002"}, "load.0.cases": 160}


def test_defaults_watch_counters_and_send_nothing(build: Build) -> None:
    keys = build({**SECOND, "canary": {}}).canary
    assert keys is not None
    assert (keys.probes, keys.counters, keys.on_fail, keys.dry_run) == (None, True, "nothing", False)
    assert keys.share_needed == 0.01
    assert build({"canary": None}).canary is None


def test_probes_are_slow_where_nothing_is_said(build: Build) -> None:
    """At most one request a second to a production server, both arms together."""
    keys = build({**SECOND, "environment": "production", "canary": {"probes": {}}}).canary
    assert keys is not None
    assert keys.probes is not None
    assert keys.probes.requests_per_s == 1.0
    assert keys.share_needed is None
    asked = build({"canary": {"probes": {}, "least_share": 0.05}}).canary
    assert asked is not None
    assert asked.share_needed == 0.05


def test_every_limit_is_of_a_source() -> None:
    assert {*BY_PROBES, *BY_COUNTERS} == set(CanaryLimits.model_fields)
    assert CanaryKeys().webhooks == []


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"window_s": 100}, "window_s: must be at least 120 (24 × scrape.interval_s)"),
        ({"counters": False}, "without probes there is nothing to watch"),
        ({"limits": dict.fromkeys(BY_COUNTERS)}, "leave nothing to check"),
        ({"probes": {"requests_per_s": 11}}, "above safety.max_requests_per_second (10, environment: production)"),
        ({"probes": {"requests_per_s": 0.5}}, "gives 75 pairs in a window, and tpot_p95_ratio needs 90"),
        ({"probes": {"requests_per_s": 0.1}}, "gives 15 pairs in a window, and acceptance needs 24"),
        ({"on_fail": "switch"}, "canary.switch does not say how it is pulled"),
        ({"on_fail": "reboot"}, "switch"),
        ({"limits": {"acceptance": 1.5}}, "1"),
        ({"webhooks": [{"url": "ftp://host/"}]}, "must be a URL"),
        ({"webhooks": [{"url": "http://user:pass@host/"}]}, "must hold no user or password"),
        ({"webhooks": [{"url": "http://host/", "on": ["bad"]}]}, "doubtful"),
        ({"webhooks": [{"url": "http://host/", "secret": {}}]}, "needs either env"),
        ({"windows": 3}, "windows"),
    ],
)
def test_what_is_refused(refused: Refused, keys: dict[str, Any], said: str) -> None:
    problems = refused({**SECOND, "environment": "production", "canary": keys})
    assert any(said in problem for problem in problems), problems


def test_two_arms_are_needed(refused: Refused) -> None:
    assert any("needs two arms, a baseline and a canary" in problem for problem in refused({"canary": {}}))
