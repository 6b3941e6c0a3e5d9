"""The service's metrics page: counters go on, series of runs go after their grace time."""

from __future__ import annotations

from typing import Any

from prometheus_client import generate_latest

from loadgen.export import Metrics
from loadgen.service.lanes import Lanes, Page
from tests.service.test_tokens import Clock

GRACE_S = 30.0


def told(sent: float, *, run: str = "r1", arm: str = "a", counts: tuple[int, ...] = (0, 0, 0)) -> dict[str, Any]:
    return {
        "numbers": [
            ["sent_requests_total", [arm], sent], ["inflight_requests", [arm], 2.0], ["run_active", [], 1.0],
            ["run_verdict", [run], 1.0],
        ],
        "histograms": [["send_lag_seconds", [arm], [0.1, 1.0], list(counts), float(sum(counts)), []]],
    }  # fmt: skip


def page(lanes: Lanes) -> dict[str, float]:
    text = generate_latest(Page(Metrics(), lanes).registry()).decode()
    rows = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {series.removeprefix("specload_"): float(value) for series, value in rows}


def test_an_idle_service_shows_that_no_run_is_active() -> None:
    assert page(Lanes(2, GRACE_S)) == {'run_active{lane="0"}': 0, 'run_active{lane="1"}': 0}


def test_what_a_run_tells_stays_for_its_grace_time_and_then_goes() -> None:
    """G19, G20: nothing is active any more at once, the last values are there for two scrapes, and then nothing."""
    clock = Clock()
    lanes = Lanes(1, GRACE_S, clock)
    lane = lanes.begin()
    lanes.take(lane, told(0))
    assert page(lanes)['sent_requests_total{arm="a",lane="0"}'] == 0  # G18: seen at 0 before any load
    lanes.take(lane, told(7, counts=(5, 2, 0)))
    lanes.end(lane)
    for _ in range(2):
        shown = page(lanes)
        assert shown['sent_requests_total{arm="a",lane="0"}'] == 7
        assert shown['send_lag_seconds_bucket{arm="a",lane="0",le="0.1"}'] == 5
        assert shown['run_verdict{lane="0",run_id="r1"}'] == 1
        assert (shown['run_active{lane="0"}'], shown['inflight_requests{arm="a",lane="0"}']) == (0, 0)
        clock.now_s += GRACE_S / 2 - 0.01
    clock.now_s += 1
    assert page(lanes) == {'run_active{lane="0"}': 0}


def test_counters_of_a_lane_go_on_from_run_to_run() -> None:
    """G18: a run that begins where the last one ended loses no increment, and no counter falls."""
    clock = Clock()
    lanes = Lanes(1, GRACE_S, clock)
    seen = []
    for run in range(4):  # more than there are lanes
        lane = lanes.begin()
        for sent in (0, 3, 5):
            lanes.take(lane, told(sent, run=f"r{run}", counts=(sent, 0, 0)))
            seen.append((lane, page(lanes)[f'sent_requests_total{{arm="a",lane="{lane}"}}']))
        lanes.end(lane)
        clock.now_s += 1
    assert seen == [
        (0, 0), (0, 3), (0, 5), (1, 0), (1, 3), (1, 5), (2, 0), (2, 3), (2, 5), (0, 5), (0, 8), (0, 10),
    ]  # fmt: skip
    shown = page(lanes)
    assert shown['send_lag_seconds_count{arm="a",lane="0"}'] == 10
    assert 'run_verdict{lane="0",run_id="r0"}' not in shown
    assert 'run_verdict{lane="0",run_id="r3"}' in shown
    clock.now_s += GRACE_S - 3.5
    assert (
        page(lanes)['sent_requests_total{arm="a",lane="0"}'] == 10
    )  # told by a later run: it stays for that one's grace
    clock.now_s += 3
    assert {k for k in page(lanes) if 'lane="0"' in k} == {'run_active{lane="0"}'}


def test_runs_at_once_do_not_mix() -> None:
    """G21: what tells runs apart is a small number."""
    lanes = Lanes(2, GRACE_S)
    one, two = lanes.begin(), lanes.begin()
    lanes.take(one, told(3, run="r1"))
    lanes.take(two, told(4, run="r2"))
    shown = page(lanes)
    assert (shown['sent_requests_total{arm="a",lane="0"}'], shown['sent_requests_total{arm="a",lane="1"}']) == (3, 4)


def test_a_lane_that_is_forgotten_is_taken_again_first() -> None:
    clock = Clock()
    lanes = Lanes(1, GRACE_S, clock)
    lanes.end(lanes.begin())
    assert lanes.begin() == 1
    clock.now_s += GRACE_S
    lanes.end(1)
    assert lanes.begin() == 0


def test_other_edges_begin_anew_and_what_is_gone_is_gone() -> None:
    lanes = Lanes(1, GRACE_S)
    lane = lanes.begin()
    lanes.take(lane, told(1, counts=(1, 0, 0)))
    other = ["send_lag_seconds", ["a"], [0.5], [1, 1], 2.0, []]
    lanes.take(lane, {"numbers": [["inflight_requests", ["a"], None]], "histograms": [other]})
    shown = page(lanes)
    assert shown['send_lag_seconds_count{arm="a",lane="0"}'] == 2
    assert 'inflight_requests{arm="a",lane="0"}' not in shown


def test_canaries_have_lanes_apart() -> None:
    """Runs are spread over no more lanes for them, and an ended monitor is active no more."""
    lanes = Lanes(1, GRACE_S, Clock(), canaries=2)
    canary = lanes.begin(canary=True)
    lanes.take(canary, {"numbers": [["canary_active", ["c"], 1.0]], "histograms": []})
    taken = []
    for _ in range(4):
        taken.append(lanes.begin())
        lanes.end(taken[-1])
    assert set(taken) == {0, 1, 2}
    assert (canary, lanes.begin(canary=True)) == (3, 4)
    assert page(lanes)['canary_active{canary="c",lane="3"}'] == 1
    lanes.end(canary)
    assert page(lanes)['canary_active{canary="c",lane="3"}'] == 0
