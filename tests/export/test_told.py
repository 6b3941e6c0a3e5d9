"""Live metrics from process to process: only what changed, and in the end the same page."""

from __future__ import annotations

import json

import pytest
from prometheus_client import generate_latest

from loadgen.export import Metrics, MetricsTeller, MetricsTold
from loadgen.export.buckets import Counted, Exemplar

EDGES = (0.1, 1.0)


def sent(teller: MetricsTeller) -> dict[str, object] | None:
    """Through JSON, as it goes."""
    found = teller.take()
    return None if found is None else dict(json.loads(json.dumps(found)))


def test_only_what_changed_is_told_and_the_other_side_has_it_all() -> None:
    metrics, told = Metrics(), MetricsTold()
    teller = MetricsTeller(metrics)
    assert teller.take() is None
    metrics.declare("sent_requests_total", arm="a")
    metrics.set("inflight_requests", 3, arm="a")
    metrics.declare_histogram("send_lag_seconds", EDGES, arm="a")
    first = sent(teller)
    assert first is not None
    told.take(first)
    assert teller.take() is None
    counted = Counted(EDGES, [0, 2, 1], 3.5, {1: Exemplar(0.5, "r1", 7.0)})
    metrics.observe("send_lag_seconds", counted, arm="a")
    metrics.inc("sent_requests_total", 2, arm="a")
    second = sent(teller)
    assert second == {
        "numbers": [["sent_requests_total", ["a"], 2.0]],
        "histograms": [["send_lag_seconds", ["a"], [0.1, 1.0], [0, 2, 1], 3.5, [[1, 0.5, "r1", 7.0]]]],
    }
    told.take(second)
    assert told.numbers == {("sent_requests_total", ("a",)): 2.0, ("inflight_requests", ("a",)): 3.0}
    assert told.histograms == {("send_lag_seconds", ("a",)): counted}


def test_what_is_gone_is_told_and_told_things_do_not_change_afterwards() -> None:
    metrics, told = Metrics(), MetricsTold()
    teller = MetricsTeller(metrics)
    metrics.set("server_waiting_requests", 1, arm="a")
    metrics.observe("send_lag_seconds", Counted(EDGES, [1, 0, 0], 0.05), arm="a")
    told.take(sent(teller) or {})
    metrics.set("server_waiting_requests", None, arm="a")
    metrics.observe("send_lag_seconds", Counted(EDGES, [1, 0, 0], 0.05), arm="a")
    assert told.histograms["send_lag_seconds", ("a",)].counts == [1, 0, 0]
    told.take(sent(teller) or {})
    assert ("server_waiting_requests", ("a",)) not in told.numbers
    assert told.histograms["send_lag_seconds", ("a",)].counts == [2, 0, 0]


@pytest.mark.parametrize(
    "changes",
    [
        {"numbers": [["nothing", [], 1]], "histograms": []},
        {"numbers": [["sent_requests_total", ["a", "b"], 1]], "histograms": []},
        {"numbers": [], "histograms": [["send_lag_seconds", ["a"], [1.0], [1], 1.0, []]]},
        {"numbers": [["sent_requests_total", ["a"], "x"]], "histograms": []},
        {"histograms": []},
    ],
)
def test_what_is_none_of_ours_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        MetricsTold().take(changes)


def test_a_look_is_a_copy() -> None:
    metrics = Metrics()
    metrics.observe("send_lag_seconds", Counted(EDGES, [1, 0, 0], 0.05), arm="a")
    before = generate_latest(metrics.registry)
    metrics.histograms()["send_lag_seconds", ("a",)].counts[0] = 99
    metrics.numbers()["sent_requests_total", ("a",)] = 1
    assert generate_latest(metrics.registry) == before
