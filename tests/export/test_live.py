"""A run as live metrics: there at 0 before the load, exact while it runs, and finished from the records."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from loadgen.drive import Accounting, Attempt, LoopHealth, Outcome
from loadgen.export.buckets import Counted
from loadgen.export.tally import Told

OPEN = {"kind": "arrival_rate", "rate_per_s": 10, "duration_s": 10, "arrivals": "uniform"}
CLOSED = {"kind": "concurrency", "concurrency": 2, "cases": 6}


def measured(plan: Any) -> Any:
    return next(s for s in plan.segments if s.phase == "measure")


def test_every_child_is_there_at_0_before_the_load(make_run: Any) -> None:
    """G18: increments of the first second are seen, because nothing is born with them."""
    metrics, _, plan = make_run([CLOSED], tasks=["code", "short_qa"], slos={"ttft_s": 0.4})
    stage = measured(plan).stage
    for task in ("code", "short_qa"):
        group = {"arm": "base", "task_type": task, "stage": stage}
        assert [metrics.value("requests_total", **group, outcome=o.value) for o in Outcome] == [0.0] * len(Outcome)
        assert metrics.value("good_requests_total", **group) == 0
        for name in ("ttft_seconds", "total_time_seconds"):
            assert metrics.histogram(name, **group, stream="true").n == 0
            assert 0.4 in metrics.histogram(name, **group, stream="true").edges
        for name in ("tpot_seconds", "chunk_gap_seconds", "tokens_per_chunk"):
            assert metrics.histogram(name, **group).n == 0
        for source in ("per_request", "client_chunk"):
            assert metrics.value("accepted_tokens_total", arm="base", task_type=task, source=source) == 0
    assert metrics.value("draft_tokens_total", arm="base", task_type="all", source="server_window") == 0
    assert metrics.value("draft_tokens_total", arm="base", task_type="code", source="client_chunk") is None
    assert metrics.value("accepted_position_total", arm="base", position="1", source="per_request") == 0
    assert metrics.histogram("send_lag_seconds", arm="base").n == 0
    assert metrics.value("run_active") == 1


def test_without_slos_there_is_no_goodput(make_run: Any) -> None:
    metrics, _, plan = make_run([CLOSED])
    labels = {"arm": "base", "task_type": "code", "stage": measured(plan).stage}
    assert metrics.value("good_requests_total", **labels) is None


def test_what_workers_tell_is_added_up(make_run: Any, attempt: Callable[..., Attempt]) -> None:
    """Two workers' sums, told twice."""
    metrics, run, plan = make_run([CLOSED])
    segment = measured(plan)
    for worker in (0, 1):
        tally = run.tally(worker)
        for index in range(3):
            tally.attempt(attempt([(150, 1), (250, 3)], segment=segment.number, index=index))
            run.told(tally.take())
    group = {"arm": "base", "task_type": "code", "stage": segment.stage}
    assert metrics.value("requests_total", **group, outcome="ok") == 6
    assert metrics.value("prompt_tokens_total", **group) == 180
    assert metrics.value("output_tokens_total", **group) == 24
    ttft = metrics.histogram("ttft_seconds", **group, stream="true")
    assert (ttft.n, ttft.total) == (6, pytest.approx(0.9))
    assert metrics.value("verify_rounds_total", arm="base", task_type="code", source="client_chunk") == 6
    assert metrics.value("accepted_tokens_total", arm="base", task_type="code", source="client_chunk") == 12


def test_books_of_an_open_loop(make_run: Any) -> None:
    """Its books hold all arrivals from the start: scheduled is what was due by now, 10 a second."""
    metrics, run, plan = make_run([OPEN])
    segment = measured(plan)
    begin = 5_000_000_000
    run.began(segment, begin)
    n = len(segment.load.due_ns)
    run.accounted(segment, Accounting(n, sent=18, dropped=2, late=1), begin + 3_000_000_000)
    due = int((segment.load.due_ns <= 3_000_000_000).sum())
    assert 25 <= due <= 35
    assert metrics.value("scheduled_requests_total", arm="base") == due
    assert metrics.value("sent_requests_total", arm="base") == 18
    assert metrics.value("late_requests_total", arm="base") == 1
    assert metrics.value("dropped_requests_total", arm="base", reason="max_in_flight") == 2
    assert metrics.value("inflight_requests", arm="base") == 18
    assert metrics.value("target_rate_per_second", arm="base") == 10
    run.told(Told(ended=Counter({segment.number: 5})))
    run.accounted(segment, Accounting(n, sent=18, dropped=2, late=1), begin + 3_000_000_000)
    assert metrics.value("inflight_requests", arm="base") == 13
    run.drained(segment, Accounting(n, sent=18, dropped=2, unsent=n - 20, late=1), begin + 4_000_000_000)
    assert metrics.value("scheduled_requests_total", arm="base") == n
    assert metrics.value("dropped_requests_total", arm="base", reason="stopped") == n - 20
    assert metrics.value("inflight_requests", arm="base") == 0
    assert metrics.value("target_rate_per_second", arm="base") == 0


def test_warm_up_is_in_flight_but_in_no_counter_of_the_load(make_run: Any) -> None:
    metrics, run, plan = make_run([CLOSED])
    warm = next(s for s in plan.segments if s.phase == "warmup")
    run.began(warm, 0)
    run.accounted(warm, Accounting(4, sent=4), 1)
    assert metrics.value("inflight_requests", arm="base") == 4
    assert metrics.value("sent_requests_total", arm="base") == 0
    run.told(Told(warmups=Counter({("base", "timeout"): 3})))
    assert metrics.value("warmup_requests_total", arm="base", outcome="timeout") == 3


def test_books_told_late_take_nothing_back(make_run: Any) -> None:
    metrics, run, plan = make_run([CLOSED])
    segment = measured(plan)
    run.accounted(segment, Accounting(6, sent=6), 1)
    run.accounted(segment, Accounting(), 2)
    assert metrics.value("sent_requests_total", arm="base") == 6


def test_phases_and_stages_have_their_wall_time(make_run: Any) -> None:
    metrics, run, plan = make_run([CLOSED])
    warm, segment = (next(s for s in plan.segments if s.phase == p) for p in ("warmup", "measure"))
    run.began(warm, 1_000_000_000)
    run.began(segment, 2_500_000_000)
    run.began(segment, 9_000_000_000)
    run.drained(segment, Accounting(), 9_500_000_000)
    run.over(10_000_000_000)
    at = {
        p: metrics.value("run_phase_timestamp_seconds", run_id="run-1", phase=p)
        for p in ("warmup", "measure", "drain", "end")
    }
    assert at == {"warmup": 1_700_000_001, "measure": 1_700_000_002.5, "drain": 1_700_000_009.5, "end": 1_700_000_010}
    assert metrics.value("run_stage_timestamp_seconds", run_id="run-1", stage=segment.stage) == 1_700_000_002.5
    assert metrics.value("run_active") == 0


def test_health_of_each_worker(make_run: Any) -> None:
    metrics, run, _ = make_run([CLOSED])
    for worker in (0, 1):
        run.told(Told(health=LoopHealth(1, worker, 0.001, 0.002 + worker, 0.5, 1, 0.0, 1000)))
    assert [metrics.value("event_loop_lag_seconds", worker=w) for w in "01"] == [0.002, 1.002]
    assert metrics.value("worker_resident_memory_bytes", worker="1") == 1000


def test_run_info_names_the_engine(make_run: Any) -> None:
    metrics, _, _ = make_run([CLOSED])
    labels = {
        "run_id": "run-1", "arm": "base", "scenario": "t", "scenario_sha": "abababababab", "engine": "vllm",
        "engine_version": "0.32.0", "k": "2", "method": "draft_model",
    }  # fmt: skip
    assert metrics.value("run_info", **labels) == 1


def test_send_lag_is_a_histogram(make_run: Any) -> None:
    metrics, run, _ = make_run([CLOSED])
    lags = Counted(run.tally.edges_s)
    lags.add(0.0005)
    run.told(Told(lags={"base": lags}))
    assert metrics.histogram("send_lag_seconds", arm="base").counts[0] == 1
