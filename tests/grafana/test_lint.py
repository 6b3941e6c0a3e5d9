"""Each rule holds for the committed dashboards, and finds what breaks it."""

from collections.abc import Callable
from typing import Any

import pytest

from grafana.dashboards_src.interpolate import panels, variables
from grafana.dashboards_src.known import counters, known_series, never_mixed
from grafana.dashboards_src.lint import EXCEPTIONS, RULES, lint

RATE = 'rate(specload_sent_requests_total{arm=~"$arm"}[$__rate_interval])'


def asking(expr: str) -> Callable[[Any], object]:
    """The first panel asks this."""
    return lambda dashboard: panels(dashboard)[0]["targets"][0].update(expr=expr)


def variable(which: str, /, **change: object) -> Callable[[Any], object]:
    return lambda dashboard: next(v for v in variables(dashboard) if v["name"] == which).update(change)


def panel(**change: object) -> Callable[[Any], object]:
    return lambda dashboard: panels(dashboard)[0].update(change)


def whole(**change: object) -> Callable[[Any], object]:
    return lambda dashboard: dashboard.update(change)


BROKEN: list[tuple[str, Callable[[Any], object]]] = [
    ("template-datasource", variable("datasource", label="Prometheus")),
    ("template-datasource", variable("datasource", name="prometheus")),
    ("template-datasource", variable("run_id", current={"text": "x", "value": "x"})),
    ("template-multi", variable("arm", allValue=None)),
    ("template-multi", variable("arm", includeAll=False)),
    ("template-label-promql", variable("arm", query="label_values(arm)")),
    ("template-label-promql", variable("arm", query="label_values(specload_run_info{, arm)")),
    ("template-label-promql", variable("arm", query="label_values(specload_run_info, model_name)")),
    ("template-label-promql", variable("arm", query='label_values(specload_run_info{run_id="$run"}, arm)')),
    ("template-on-time-change-reload", variable("arm", refresh=1)),
    ("panel-datasource", panel(datasource={"type": "prometheus", "uid": "edx8memhpd9tsa"})),
    ("panel-datasource", variable("arm", datasource={"type": "prometheus", "uid": "edx8memhpd9tsa"})),
    ("panel-datasource", lambda d: d["annotations"]["list"][0].update(datasource=None)),
    ("panel-title-description", panel(description="")),
    ("panel-title-description", panel(title="")),
    ("panel-title-description", whole(description="")),
    ("panel-units", panel(fieldConfig={"defaults": {}})),
    ("panel-units", panel(fieldConfig={"defaults": {"unit": "seconds"}})),
    ("panel-no-targets", panel(targets=[])),
    ("target-promql", asking("sum by (arm) (")),
    ("target-promql", asking('specload_run_active{run_id="$nowhere"}')),
    ("target-promql", lambda d: d["annotations"]["list"][0].update(expr="x{")),
    ("target-rate-interval", asking(RATE.replace("$__rate_interval", "5m"))),
    ("target-rate-interval", asking(RATE.replace("$__rate_interval", "$__interval"))),
    ("target-rate-interval", asking(RATE.replace("rate(", "increase(").replace("$__rate_interval", "$__range"))),
    ("target-counter-agg", asking('sum(specload_sent_requests_total{arm=~"$arm"})')),
    ("target-counter-agg", asking('specload_ttft_seconds_bucket{arm=~"$arm"}')),
    ("target-scoped", asking("specload_inflight_requests")),
    ("target-scoped", asking('specload_inflight_requests and on (job, instance) specload_run_info{run_id="r"}')),
    ("uneditable-dashboard", whole(editable=True)),
    ("never-mixed", asking(f"sum by (arm) ({RATE.replace('sent_requests', 'draft_tokens')})")),
    ("never-mixed", asking('sum(rate(specload_draft_tokens_total{source!="client_chunk"}[$__rate_interval]))')),
    ("never-mixed", asking('max by (arm) (specload:acceptance:ratio{scope="run",arm=~"$arm"})')),
    ("never-mixed", asking(f"sum by (arm, le) ({RATE.replace('sent_requests_total', 'ttft_seconds_bucket')})")),
    ("known-series", asking(RATE.replace("sent_requests", "send_requests"))),
    ("known-series", asking('specload_inflight_requests{arm=~"$arm",task_type="code"}')),
    ("known-series", asking('sum by (model) (specload_inflight_requests{arm=~"$arm"})')),
    ("known-series", asking('{__name__=~"vllm:num_requests_running|vllm:num_requests_walking",arm=~"$arm"}')),
    ("guarded-divisors", asking(f"{RATE} / {RATE}")),
    ("guarded-divisors", asking(f"{RATE} / ({RATE} + 1)")),
    ("layout", panel(gridPos={"x": 22, "y": 1, "w": 4, "h": 6})),
    ("layout", panel(id=4)),
    ("layout", panel(title="Send lag")),
    ("links", whole(tags=[])),
    ("links", whole(links=[])),
    ("links", lambda d: d["links"][0].update(includeVars=False)),
]


def test_the_committed_dashboards_keep_every_rule(committed: dict[str, Any]) -> None:
    """G1, G3, G5, G8, G14: rates over $__rate_interval, no foreign data source, values of our own metrics only, no
    counter as it is, no division by 0."""
    assert [(name, found) for name, dashboard in committed.items() for found in lint(dashboard)] == []


@pytest.mark.parametrize(("rule", "change"), BROKEN)
def test_a_rule_finds_what_breaks_it(rule: str, change: Callable[[Any], object], spoilt: Callable[..., Any]) -> None:
    assert rule in {finding.rule for finding in lint(spoilt(change))}


def test_every_rule_is_tried() -> None:
    assert {rule for rule, _ in BROKEN} == set(RULES)


def test_every_exception_is_needed(committed: dict[str, Any]) -> None:
    uids = {dashboard["uid"]: dashboard for dashboard in committed.values()}
    for rule, uid, where in EXCEPTIONS:
        assert (rule, where) in {(finding.rule, finding.where) for finding in lint(uids[uid], {})}


def test_what_is_known_of_the_series() -> None:
    """From the registry, the rules, and what the rules read of servers."""
    known = known_series()
    assert known["specload_ttft_seconds_bucket"] >= {"arm", "task_type", "stage", "stream", "le", "job", "instance"}
    assert "le" not in known["specload_ttft_seconds_count"]
    assert known["specload:acceptance:ratio"] >= {"scope", "source", "task_type", "model_name"}
    assert never_mixed(["specload:acceptance:ratio", "up"]) == {"source"}
    assert "vllm:num_requests_running" in known
    assert "specload_ttft_seconds" not in known
    assert {"specload_requests_total", "specload_send_lag_seconds_sum", "vllm:generation_tokens_total"} <= counters()
    assert "specload_inflight_requests" not in counters()
