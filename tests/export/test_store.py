"""Values, their page, and when they go."""

import pytest
from prometheus_client import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from loadgen.export import FAMILIES, Metrics
from loadgen.export.buckets import Counted, Exemplar

GROUP = {"arm": "a", "task_type": "code", "stage": "c1"}


def page(metrics: Metrics) -> list[str]:
    return [line for line in generate_latest(metrics.registry).decode().splitlines() if not line.startswith("#")]


def test_nothing_has_a_value_before_it_is_given_one() -> None:
    """G15: not known is no series, never 0."""
    assert page(Metrics()) == []


def test_counters_begin_at_0_and_never_go_back() -> None:
    """G18: declared before the load, so that the first increment is one."""
    metrics = Metrics()
    metrics.declare("sent_requests_total", arm="a")
    assert page(metrics) == ['specload_sent_requests_total{arm="a"} 0.0']
    metrics.inc("sent_requests_total", 2, arm="a")
    metrics.declare("sent_requests_total", arm="a")
    assert page(metrics) == ['specload_sent_requests_total{arm="a"} 2.0']
    with pytest.raises(ValueError, match="cannot go back"):
        metrics.inc("sent_requests_total", -1, arm="a")


def test_a_run_with_other_edges_begins_anew() -> None:
    """G13, G18: one that follows in the same process has its own limits: a reset, and new edges are there at 0."""
    metrics = Metrics()
    metrics.declare_histogram("send_lag_seconds", (0.1, 0.2), arm="a")
    metrics.observe("send_lag_seconds", Counted((0.1, 0.2), [1, 1, 0]), arm="a")
    metrics.declare_histogram("send_lag_seconds", (0.1, 0.2), arm="a")
    kept = metrics.histogram("send_lag_seconds", arm="a")
    assert kept is not None
    assert kept.n == 2
    metrics.declare_histogram("send_lag_seconds", (0.1, 0.15, 0.2), arm="a")
    begun = metrics.histogram("send_lag_seconds", arm="a")
    assert begun is not None
    assert (begun.edges, begun.counts) == ((0.1, 0.15, 0.2), [0, 0, 0, 0])


def test_labels_are_those_of_the_family() -> None:
    with pytest.raises(ValueError, match="has the labels arm, not arm, run_id"):
        Metrics().inc("sent_requests_total", 1, arm="a", run_id="r")


def test_a_gauge_that_is_not_known_any_more_goes() -> None:
    metrics = Metrics()
    metrics.set("server_kv_usage_ratio", 0.25, arm="a")
    assert page(metrics) == ['specload_server_kv_usage_ratio{arm="a"} 0.25']
    metrics.set("server_kv_usage_ratio", None, arm="a")
    assert page(metrics) == []


def test_histograms_are_cumulative() -> None:
    metrics = Metrics()
    metrics.observe("tpot_seconds", Counted((0.1, 0.2), [1, 2, 3], 2.5), **GROUP)
    metrics.observe("tpot_seconds", Counted((0.1, 0.2), [1, 0, 0], 0.05), **GROUP)
    labels = 'arm="a",stage="c1",task_type="code"'
    assert page(metrics) == [
        'specload_tpot_seconds_bucket{arm="a",le="0.1",stage="c1",task_type="code"} 2.0',
        'specload_tpot_seconds_bucket{arm="a",le="0.2",stage="c1",task_type="code"} 4.0',
        'specload_tpot_seconds_bucket{arm="a",le="+Inf",stage="c1",task_type="code"} 7.0',
        f"specload_tpot_seconds_count{{{labels}}} 7.0",
        f"specload_tpot_seconds_sum{{{labels}}} 2.55",
    ]


def test_exemplars_are_in_openmetrics_alone() -> None:
    metrics = Metrics()
    counted = Counted((0.1,), [1, 0], 0.05, {0: Exemplar(0.05, "req-7", 1700000000.5)})
    metrics.observe("ttft_seconds", counted, **GROUP, stream="true")
    assert "req-7" not in generate_latest(metrics.registry).decode()
    (family,) = text_string_to_metric_families(openmetrics(metrics.registry).decode())
    exemplars = [s.exemplar for s in family.samples if s.exemplar]
    assert [(dict(e.labels), e.value, float(e.timestamp)) for e in exemplars] == [
        ({"request_id": "req-7"}, 0.05, 1700000000.5)
    ]


def test_an_id_too_long_for_an_exemplar_is_left_out() -> None:
    metrics = Metrics()
    counted = Counted((0.1,), [1, 0], 0.05, {0: Exemplar(0.05, "x" * 200, 1.0)})
    metrics.observe("ttft_seconds", counted, **GROUP, stream="true")
    assert "xxx" not in openmetrics(metrics.registry).decode()


def test_a_run_goes_its_grace_time_after_its_end() -> None:
    """G19, G20: no ghost of a finished run; its counters stay, they are no run's."""
    now = [100.0]
    metrics = Metrics(now=lambda: now[0], grace_s=30)
    metrics.set("run_verdict", 1, run_id="r")
    metrics.inc("sent_requests_total", 5, arm="a")
    metrics.set("run_active", 0)
    now[0] = 1000.0
    assert len(page(metrics)) == 3
    metrics.forget_after_grace()
    now[0] = 1029.9
    assert len(page(metrics)) == 3
    now[0] = 1030.0
    assert page(metrics) == ['specload_sent_requests_total{arm="a"} 5.0', "specload_run_active 0.0"]


def test_the_next_run_replaces_the_last() -> None:
    metrics = Metrics()
    metrics.set("run_validity", 1, run_id="one")
    metrics.forget_run()
    assert page(metrics) == []


def test_run_id_is_on_nothing_that_is_not_the_runs_own() -> None:
    """G21: names of runs are unbounded, so no counter and no histogram has one."""
    assert {f.kind for f in FAMILIES.values() if f.of_run} == {"gauge"}
    assert all("case_id" not in f.labels and "request_id" not in f.labels for f in FAMILIES.values())
