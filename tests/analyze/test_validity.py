"""Valid, doubtful or invalid, on hand-made runs: every limit from both sides, with its number in the reason."""

from typing import Any

import pytest

from loadgen.analyze import analyze
from loadgen.analyze.validity import LIMITS, judge
from loadgen.analyze.values import CLIENT, absent, exact
from loadgen.clock import Anchor

CHUNKS = [(0.1, 1), (0.14, 4), (0.18, 3)]
BY_NAME = {limit.name: limit for limit in LIMITS}


def numbers(name: str, value: float | None, n: int = 10_000, user_stamps: float | None = None) -> dict[str, Any]:
    stamps = absent("all of user space") if user_stamps is None else exact(user_stamps, 1, CLIENT)
    asked = absent("not measured") if value is None else exact(value, n, CLIENT)
    return {"user_stamps_share": stamps, name: asked}


def healthy(run, requests: int = 10, **columns: Any) -> None:
    """One slot, busy all through the second [0, 1]."""
    run.segment()
    run.account(scheduled=requests, sent=requests)
    for i in range(requests):
        run.request([(0.05, 1), (1 / requests, 4)], sent=i / requests, **columns)
    run.second(0.5)
    run.second(1.0)


def test_a_healthy_run_is_valid_without_a_reason(run) -> None:
    healthy(run)
    found = run.summary().validity
    assert (found.state, found.reasons) == ("valid", [])


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.name)
def test_a_number_at_its_limit_is_within_and_beyond_it_is_not(limit) -> None:
    step = -1e-3 if limit.floor else 1e-3
    assert judge(limit, numbers(limit.name, limit.doubtful)) == "valid"
    assert judge(limit, numbers(limit.name, limit.doubtful + step)) == "doubtful"
    if limit.invalid is not None:
        assert judge(limit, numbers(limit.name, limit.invalid)) == "doubtful"
        assert judge(limit, numbers(limit.name, limit.invalid + step)) == "invalid"
    assert judge(limit, numbers(limit.name, None)) == "valid"


@pytest.mark.parametrize("name", ["late_share", "coalesced_share", "dropped_share"])
def test_one_alone_is_chance(name: str) -> None:
    """One of five late requests is 20 %, and says nothing; two do."""
    assert judge(BY_NAME[name], numbers(name, 1 / 5, n=5)) == "valid"
    assert judge(BY_NAME[name], numbers(name, 2 / 5, n=5)) == "invalid"


def test_one_fault_of_the_client_is_enough_for_doubt() -> None:
    """E20."""
    assert judge(BY_NAME["client_fault_share"], numbers("client_fault_share", 1 / 5, n=5)) == "doubtful"


def test_a_lagging_loop_does_not_spoil_stamps_of_the_kernel() -> None:
    """A loop 80 ms late makes times of user space invalid; those of the kernel stay, the sends are late."""
    limit = BY_NAME["loop_lag_p50_s"]
    assert judge(limit, numbers(limit.name, 0.08)) == "invalid"
    assert judge(limit, numbers(limit.name, 0.08, user_stamps=0.0)) == "doubtful"
    assert judge(limit, numbers(limit.name, 0.08, user_stamps=0.5)) == "invalid"


def test_coalesced_chunks(run) -> None:
    """2 of 100 chunks have no time of their own: doubtful; 20 of 100: invalid."""
    run.segment()
    times = [(0.01 * (i + 1), 1) for i in range(50)]
    one = [min(i, 48) for i in range(50)]
    run.request(times, arrivals=one)
    run.request(times, arrivals=one, sent=0.5)
    found = run.summary().validity
    assert found.state == "doubtful"
    assert found.reasons == [
        "doubtful: candidate, stage one: 2 % of the chunks came with another and have no time of their own "
        "(coalesced_share: doubtful above 1 %, invalid above 10 %)"
    ]
    run.rows[0]["arrival_no"] = run.rows[1]["arrival_no"] = [min(i, 39) for i in range(50)]
    assert run.summary().validity.state == "invalid"


def test_a_bad_stage_is_not_hidden_by_good_ones(run) -> None:
    """P5: 90 % of the concurrency in one stage of three; over all of them it is 97 %."""
    for stage in range(3):
        run.segment(stage, stage=f"s{stage}", start=stage, full=stage, load_end=stage + 1.0, end=stage + 1.0)
        run.request([(0.5, 1), (0.89 if stage == 1 else 1.0, 4)], sent=float(stage), segment=stage)
    found = run.summary().validity
    assert found.client["delivered_concurrency_share"].value == pytest.approx(2.89 / 3)
    assert found.reasons == [
        "invalid: candidate, stage s1: only 89 % of the asked concurrency was in flight "
        "(delivered_concurrency_share: doubtful below 98 %, invalid below 90 %)"
    ]


def test_the_worst_place_is_named_and_the_others_are_counted(run) -> None:
    for stage, busy in enumerate((0.95, 0.91, 1.0)):
        run.segment(stage, stage=f"s{stage}", start=stage, full=stage, load_end=stage + 1.0, end=stage + 1.0)
        run.request([(0.5, 1), (busy, 4)], sent=float(stage), segment=stage)
    (reason,) = run.summary().validity.reasons
    assert reason.startswith("doubtful: candidate, stage s1: only 91 % ")
    assert reason.endswith("; 1 more like it)")


def test_arrivals_that_were_not_sent(run) -> None:
    """E6, E8: 8 of 10 arrivals in time and 2 dropped: both numbers say so, and the run is invalid."""
    run.segment(executor="arrival_rate", concurrency=None)
    run.account(scheduled=10, sent=8, dropped=2)
    for i in range(8):
        run.request(CHUNKS, sent=i / 10)
    found = run.summary().validity
    assert found.state == "invalid"
    assert [reason.split(" (")[0] for reason in found.reasons] == [
        "invalid: candidate, stage one: only 80 % of the planned arrivals were sent in time",
        "invalid: candidate, stage one: 20 % of the arrivals were dropped at max_in_flight",
    ]


@pytest.mark.parametrize(("failed", "state"), [(1, "valid"), (2, "doubtful"), (15, "invalid")])
def test_survivors_latencies(run, failed: int, state: str) -> None:
    """F11: 1,648 of 3,000 successful, numbers printed as usual."""
    healthy(run, 100)
    for row in run.rows[:failed]:
        row["outcome"] = "http_error"
    found = run.summary().validity
    assert found.state == state
    assert found.client["success_share"].value == pytest.approx(1 - failed / 100)


def test_requests_that_we_cut_are_no_failures(run) -> None:
    healthy(run)
    for row in run.rows[:5]:
        row |= {"outcome": "aborted", "error_class": "drain"}
    found = run.summary().validity
    assert (found.state, found.client["success_share"].value, found.client["success_share"].n) == ("valid", 1.0, 5)


def test_only_measured_phases_count(run) -> None:
    healthy(run)
    run.segment(1, phase="warmup", start=-2.0, full=-2.0, load_end=-1.0, end=-1.0)
    run.account(1, scheduled=4, sent=4, late=4)
    for _ in range(4):
        run.request(CHUNKS, sent=-2.0, segment=1, outcome="client_fault")
    run.second(-1.5, lag_max_s=1.0, lag_p50_s=1.0, cpu_share=1.0)
    assert run.summary().validity.state == "valid"


def test_a_busy_worker_is_not_hidden_by_an_idle_one(run) -> None:
    """C23: two workers, one at 90 % of its core for the whole second."""
    healthy(run)
    run.health.clear()
    for at in (0.5, 1.0):
        run.second(at, worker=0, cpu_share=0.9)
        run.second(at, worker=1, cpu_share=0.1)
    found = run.summary().validity
    assert found.client["cpu_share_mean"].value == pytest.approx(0.9)
    assert found.reasons == [
        "doubtful: candidate, stage one: the busiest client process used 90 % of its core "
        "(cpu_share_mean: doubtful above 80 %, invalid above 95 %)"
    ]


def test_a_stalled_worker_is_not_hidden_by_others(run) -> None:
    """C23: the loop of one of four workers stands still for 0.3 s of each half second, and is mostly 8 ms late."""
    healthy(run)
    run.health.clear()
    for at in (0.5, 1.0):
        for worker in range(4):
            stalled = worker == 3
            run.second(at, worker=worker, lag_max_s=0.3 if stalled else 0.001, lag_p50_s=0.008 if stalled else 0.0001)
    found = run.summary().validity
    assert found.client["loop_stall_share"].value == pytest.approx(0.6)
    assert found.client["loop_lag_p50_s"].value == pytest.approx(0.008)
    assert found.state == "invalid"


def test_a_stall_is_no_longer_than_its_sample(run) -> None:
    healthy(run)
    run.health.clear()
    run.second(0.5, lag_max_s=2.0)
    assert run.summary().validity.client["loop_stall_share"].value == 1.0


def test_streams_with_other_stamps_than_the_rest(run) -> None:
    healthy(run, timestamp_source="kernel")
    assert run.summary().validity.client["user_stamps_share"].value == 0.0
    run.rows[0]["timestamp_source"], run.rows[1]["timestamp_source"] = "kernel_partial", "user"
    found = run.summary().validity
    assert (found.state, found.client["user_stamps_share"].value) == ("doubtful", 0.2)


def test_requests_that_never_came_to_reading_have_no_stamps_to_miss(run) -> None:
    healthy(run, 100, timestamp_source="kernel")
    run.rows[0] |= {"outcome": "refused", "timestamp_source": "user", "sent_ns": None}
    assert run.summary().validity.client["user_stamps_share"].value == 0.0


def test_a_wall_clock_that_was_set(run) -> None:
    """C24: two seconds back in mid-run; a reading that is uncertain by more than the step tells none."""
    healthy(run)
    data = run.data()
    data.manifest.anchors = [Anchor(0, 10_000_000_000, 500), Anchor(5_000_000_000, 13_000_000_000, 500)]
    found = analyze(data).validity
    assert found.client["clock_step_s"].value == pytest.approx(2.0 - 1e-6)
    assert found.state == "doubtful"
    assert "the wall clock was set while the run went on, by 2000 ms" in found.reasons[0]
    data.manifest.anchors = [Anchor(0, 10, 500), Anchor(5_000, 5_600, 500)]
    assert analyze(data).validity.state == "valid"


def test_a_step_of_the_wall_clock_that_a_worker_saw(run) -> None:
    """C24: there and back between two anchors: only who watched has seen it."""
    healthy(run)
    run.health[-1]["clock_step_s"] = 0.0
    assert run.summary().validity.client["clock_step_s"].value == 0.0
    run.health[0]["clock_step_s"] = 0.03
    data = run.data()
    data.manifest.anchors = [Anchor(0, 10, 5), Anchor(5_000, 5_010, 5)]
    found = analyze(data).validity
    assert (found.client["clock_step_s"].value, found.client["clock_step_s"].n) == (0.03, 4)
    assert found.state == "doubtful"
    assert "the wall clock was set while the run went on, by 30 ms" in found.reasons[0]


def test_waits_for_a_turn_to_connect(run) -> None:
    """E21: paced connects hold the load back; cap and connect waits are two causes with two reasons."""
    healthy(run, connect_wait_s=0.005)
    found = run.summary().validity
    assert found.client["connect_wait_share"].value == pytest.approx(0.05 / 1.05)
    assert (found.client["wait_share"].value, found.state) == (0.0, "valid")
    for row in run.rows:
        row |= {"connect_wait_s": 0.05, "wait_s": 0.05}
    found = run.summary().validity
    assert found.state == "invalid"
    assert [reason.split(" (")[0] for reason in found.reasons] == [
        "invalid: candidate, stage one: requests spent 33.33 % of their time waiting for the safety cap",
        "invalid: candidate, stage one: requests spent 33.33 % of their time waiting for their turn to connect",
    ]


def test_reads_without_the_stamp_that_was_asked_for(run) -> None:
    """Of ten streams with two arrivals each; those of a transport that does not ask are no part of it."""
    healthy(run, timestamp_source="kernel", missing_stamps=0)
    assert run.summary().validity.client["unstamped_read_share"].value == 0.0
    for row in run.rows[:3]:
        row |= {"timestamp_source": "kernel_partial", "missing_stamps": 1}
    found = run.summary().validity
    assert (found.client["unstamped_read_share"].value, found.client["unstamped_read_share"].n) == (0.15, 20)
    assert found.state == "invalid"
    assert "15 % of the reads came without the kernel's stamp" in found.reasons[0]
    for row in run.rows:
        row |= {"timestamp_source": "user", "missing_stamps": 3}
    assert run.summary().validity.client["unstamped_read_share"].value == 1.0
    for row in run.rows:
        row["missing_stamps"] = None
    assert run.summary().validity.client["unstamped_read_share"].value is None


@pytest.mark.parametrize("state", ["interrupted", "inconclusive", "failed", "killed", "running"])
def test_a_run_that_is_not_whole_is_doubtful(run, state: str) -> None:
    healthy(run)
    run.state = state
    found = run.summary().validity
    assert (found.state, found.reasons) == ("doubtful", [f"doubtful: the run is not whole: its state is {state}"])


def test_a_dead_worker_makes_the_run_invalid(run) -> None:
    healthy(run)
    data = run.data()
    data.manifest.workers, data.manifest.lost_workers = 4, [2]
    found = analyze(data).validity
    assert (found.state, found.reasons) == (
        "invalid",
        ["invalid: 1 of 4 worker processes died: from then on their share of the load was not asked"],
    )


def test_a_run_without_a_request_is_invalid(run) -> None:
    run.segment()
    assert run.summary().validity.reasons[0] == "invalid: no request was measured"


def test_warm_up_that_did_not_settle(run) -> None:
    """C25, C26: also where it was the warm-up of one stage of one arm; one window tells nothing, and is no reason."""
    healthy(run)
    data = run.data()
    common = {"stage": "c8", "repeat": 0, "swapped": False, "spread": 0.12, "windows": []}
    data.manifest.comparison["warmups"] = [
        {**common, "arm": "baseline", "settled": True, "reason": "three windows agree within 2.0%"},
        {**common, "arm": "candidate", "settled": None, "reason": "as much warm-up as the scenario says"},
    ]
    assert analyze(data).validity.state == "valid"
    why = "not settled after 6 windows: the last three differ by 12.0%, and 5% is asked for"
    data.manifest.comparison["warmups"].append({**common, "arm": "candidate", "settled": False, "reason": why})
    found = analyze(data).validity
    assert (found.state, found.reasons) == (
        "doubtful",
        [
            "doubtful: after 1 of 3 warm-ups the server had not settled, so what was measured may hold its start "
            f"(first: candidate at c8: {why})"
        ],
    )


def test_other_traffic_at_the_edges(run) -> None:
    """D5, P3: a server that was not idle; one that cannot be looked at is not held against the run."""
    run.segment(idle=False)
    run.request([(0.5, 1), (1.0, 4)])
    found = run.summary().validity
    assert found.state == "doubtful"
    assert "in 1 of 1 segments the server was not idle before or after" in found.reasons[0]


def test_a_server_without_metrics_is_not_held_against_the_run(run) -> None:
    run.segment(idle=None)
    run.request([(0.5, 1), (1.0, 4)])
    assert run.summary().validity.state == "valid"


def test_sources_that_disagree(run) -> None:
    run.segment()
    run.request([(0.5, 1), (1.0, 4)])
    run.counted(generation_tokens=50.0)
    found = run.summary().validity
    judged = [row for row in run.summary().reconciliation if row.ok is not None]
    assert found.state == "doubtful"
    assert found.reasons == [f"doubtful: in 1 of {len(judged)} checks two sources disagree: output_tokens"]


def test_the_gravest_reason_comes_first(run) -> None:
    healthy(run, 100)
    for row in run.rows[:15]:
        row["outcome"] = "timeout"
    run.state = "interrupted"
    weights = [reason.split(":")[0] for reason in run.summary().validity.reasons]
    assert weights == ["invalid", "doubtful"]
