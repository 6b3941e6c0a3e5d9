"""experiment: drill, and what is none."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from loadgen.scenario import Scenario

Build = Callable[[dict[str, Any]], Scenario]
Refused = Callable[[dict[str, Any]], list[str]]
CALL = {"kind": "command", "command": ["true"]}
ARM = {
    "url": "http://127.0.0.1:8080",
    "metrics_urls": ["http://127.0.0.1:8001/metrics", "http://127.0.0.1:8002/metrics"],
    "served_by_header": "X-Served-By",
}
DRILL: dict[str, Any] = {
    "experiment": "drill",
    "arms": {"gateway": ARM},
    "load": [{"kind": "arrival_rate", "rate_per_s": 2, "duration_s": 70}],
    "drill": {"switch": {"off": CALL, "on": CALL}},
}


def test_a_drill(build: Build) -> None:
    drill = build(deepcopy(DRILL)).drill
    assert drill is not None
    assert (drill.cycle_s, drill.needed_s) == (70.0, 70.0)


def test_without_a_way_back_there_is_no_time_for_it(build: Build) -> None:
    drill = build(deepcopy({**DRILL, "drill": {"switch": {"off": CALL}}, "load.0.duration_s": 50})).drill
    assert drill is not None
    assert drill.needed_s == 50.0


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"drill": None}, "drill: is missing: experiment: drill needs a switch to pull"),
        ({"experiment": "run"}, "drill: is for experiment: drill, and this is experiment: run"),
        ({"load.0.duration_s": 60}, "load.0.duration_s: 60 s is too short: the drill needs 70 s (pulls × (before_s + "),
        ({"drill.pulls": 2}, "load.0.duration_s: 70 s is too short: the drill needs 140 s"),
        ({"drill.switch": {"off": CALL}, "drill.pulls": 2}, "drill.pulls: must be 1: without switch.on"),
        (
            {"load.0.rate_per_s": {"start": 1, "end": 4}},
            "load.0.rate_per_s: experiment: drill needs a load",
        ),
        ({"load": [{"kind": "concurrency", "concurrency": 2, "cases": 9}]}, "load.0.duration_s: is missing: the drill"),
        (
            {"load": [{"kind": "concurrency", "concurrency": 2, "cases": 9, "duration_s": 99}]},
            "load.0.cases: experiment: drill ends by time",
        ),
        ({"repeats": 2}, "load: experiment: drill takes one stage and one repeat"),
        ({"arms": {"a": ARM, "b": ARM}, "repeats": 1}, "arms: experiment: drill takes one arm"),
        ({"environment": "production"}, "experiment: drill may break a server and is refused"),
        (
            {"drill.speculating": {"metrics_urls": ["http://127.0.0.1:9/metrics"]}},
            "drill.speculating.metrics_urls.0: is not among arms.gateway.metrics_urls",
        ),
        (
            {"drill.speculating": {"served_by": ["a"]}, "arms.gateway.served_by_header": None},
            "drill.speculating.served_by: needs arms.gateway.served_by_header",
        ),
        ({"drill.fallback": {"served_by": ["a"]}}, "drill.speculating.served_by: is missing beside"),
        (
            {"drill.speculating": {"served_by": ["a"]}, "drill.fallback": {"served_by": ["a"]}},
            "drill.fallback.served_by.0: is in drill.speculating.served_by, too",
        ),
        ({"arms.gateway.served_by_header": "X Served"}, "arms.gateway.served_by_header: must match"),
        ({"drill.switch.off": {"kind": "magic"}}, "drill.switch.off.kind: must be one of"),
        ({"drill.switch.off": {**CALL, "timeout": 3}}, "drill.switch.off.timeout: unknown key; did you mean timeout_s"),
        ({"drill.window_requests": 1}, "drill.window_requests: must be at least 3"),
    ],
)
def test_what_is_no_drill_is_refused_with_its_key(refused: Refused, changes: dict[str, Any], problem: str) -> None:
    found = refused(deepcopy({**DRILL, **changes}))
    assert any(one.startswith(problem) for one in found), found


def test_a_secret_in_the_wrong_place_is_not_repeated(refused: Refused) -> None:
    call = {"kind": "http", "url": "http://127.0.0.1:1/", "headers_from": {"Authorization": "Bearer sesame-4711"}}
    found = refused(deepcopy({**DRILL, "drill.switch.off": call}))
    assert any("headers_from.Authorization" in one for one in found)
    assert not any("sesame" in one for one in found)
