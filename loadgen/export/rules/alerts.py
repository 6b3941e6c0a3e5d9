"""The alerts, from one template for servers (`canary`) and for a run's own client (`run`).

Every ratio has a floor of traffic beside it: below it there is no alert, and an idle or absent server is told by
SpecloadServerScrapeFailing alone. Names and annotations follow the monitoring mixins; docs/runbooks/ has one file each.
"""

from __future__ import annotations

from loadgen.export.rules.series import ALWAYS_THERE
from loadgen.export.rules.types import Group, Limits, Rule, Scope, Windows, alert, group

#: Jobs of the scrape configuration (grafana/prometheus/prometheus.yml) that are to be there always; runs end.
SERVERS = "inference"
WATCHES = "specload-watch"

_WHO = "{{ $labels.arm }} {{ $labels.model_name }} on {{ $labels.instance }} {{ $labels.task_type }}"
_SERVER = "job, instance, lane, arm, model_name"


def canary_alerts(windows: Windows, limits: Limits) -> list[Group]:
    """For servers that live long, under whoever's traffic."""
    rules = [
        *_speculation("canary", windows, limits),
        _drift(windows, limits),
        _speedup_lost("canary", windows, limits),
        *_burns("TTFT", "ttft_over_limit", limits.ttft_objective, windows,
                f"first tokens later than {limits.ttft_s:g} s"),
        *_burns("Error", "errors", limits.error_objective, windows, "failed requests"),
        _scrape_failing(windows),
        *_canaries(windows),
    ]  # fmt: skip
    return [group("specload_canary", windows.interval, rules)]


def run_alerts(windows: Windows, limits: Limits) -> list[Group]:
    """For the minutes of a run, from what its own client counted."""
    rules = [
        *_speculation("run", windows, limits),
        _speedup_lost("run", windows, limits),
        _not_delivered(windows, limits),
        _held_back(windows, limits),
        _in_progress(),
    ]
    return [group("specload_run_alerts", windows.run_interval, rules)]


def _speculation(scope: Scope, windows: Windows, limits: Limits) -> list[Rule]:
    hold = windows.hold if scope == "canary" else windows.run_hold
    of = f'{{scope="{scope}"}}'
    busy = f"specload:draft_tokens:rate{of} > {limits.draft_tokens_per_s:g}"
    low = f"specload:acceptance:ratio{of} < {limits.acceptance:g}\nand {busy}"
    if scope == "canary":
        low += f"""
            unless specload:acceptance:ratio{of}
            >= {limits.of_baseline:g} * quantile_over_time(0.5, specload:acceptance:ratio{of}[{windows.baseline}] offset {windows.baseline_ago})"""  # noqa: E501
    silent = f"""
        sum by ({_SERVER}) (specload:output_tokens:rate{of}) > {limits.output_tokens_per_s:g}
        and on ({_SERVER}) (max_over_time(specload:rounds:rate{of}[{windows.memory}]) > 0 or specload:output_tokens:rate{{scope="{scope}",speculation="expected"}})
        unless on ({_SERVER}) (specload:rounds:rate{of} > 0)"""  # noqa: E501
    return [
        alert(
            "SpecloadAcceptanceRateLow", low, "warning", scope, hold=hold,
            summary="Fewer drafted tokens are accepted than the floor allows.",
            description=f"{_WHO}: {{{{ $value | humanizePercentage }}}} of drafted tokens accepted, "
            f"floor {limits.acceptance:.0%}.",
        ),
        alert(
            "SpecloadRollbackRateHigh",
            f"specload:rollback:ratio{of} > {limits.rollback:g}\nand {busy}", "warning", scope, hold=hold,
            summary="Most verification rounds reject a draft.",
            description=f"{_WHO}: {{{{ $value | humanizePercentage }}}} of rounds (or more) rolled back, "
            f"limit {limits.rollback:.0%}.",
        ),
        alert(
            "SpecloadSpecDecodeSilent", silent, "critical", scope, hold=hold,
            summary="Tokens flow, but nothing is drafted on a server that should speculate.",
            description=f"{_WHO}: {{{{ $value | humanize }}}} output tokens/s without a verification round.",
        ),
    ]  # fmt: skip


def _drift(windows: Windows, limits: Limits) -> Rule:
    """A slope needs the whole window: a server that began within it has none."""
    acceptance, span = 'specload:acceptance:ratio{scope="canary"}', windows.drift
    expr = f"""
        deriv({acceptance}[{span}]) * {seconds(span)} < -{limits.drift:g}
        and min_over_time(specload:draft_tokens:rate{{scope="canary"}}[{span}]) > {limits.draft_tokens_per_s:g}
        and {acceptance} offset {span}"""
    return alert(
        "SpecloadAcceptanceDrift", expr, "warning", "canary", hold=windows.drift_hold,
        summary="The share of accepted draft tokens falls steadily.",
        description=f"{_WHO}: acceptance changed by {{{{ $value | humanizePercentage }}}} (points) over {span}.",
    )  # fmt: skip


def _speedup_lost(scope: Scope, windows: Windows, limits: Limits) -> Rule:
    return alert(
        "SpecloadSpeedupLost", f'specload:speedup:ratio{{scope="{scope}"}} < {limits.speedup:g}', "critical", scope,
        hold=windows.hold,
        summary="The speculating arm is no faster than the baseline.",
        description=f"{_WHO}: {{{{ $value | humanize }}}} times the baseline's speed per output token.",
    )  # fmt: skip


def _burns(what: str, series: str, objective: float, windows: Windows, words: str) -> list[Rule]:
    rules = []
    for severity in dict.fromkeys(burn.severity for burn in windows.burns):
        parts = []
        for burn in windows.burns:
            if burn.severity == severity:
                limit = f"{burn.factor * (1 - objective):.6g}"
                short, long = (f'specload:{series}:ratio_rate{s}{{scope="canary"}}' for s in (burn.short, burn.long))
                parts.append(f"({short} > {limit} and {long} > {limit})")
        rules.append(
            alert(
                f"Specload{what}BudgetBurn",
                "\nor ".join(parts),
                severity,
                "canary",
                hold=None,
                summary=f"The budget of {words} burns too fast.",
                description=f"{_WHO}: {{{{ $value | humanizePercentage }}}} {words}, objective {1 - objective:.2%}.",
            )
        )
    return rules


def _scrape_failing(windows: Windows) -> Rule:
    """No answer; one without any known family (renamed, a gateway's, HTML); our own scraper's errors."""
    expr = f"""
        up{{job=~"{SERVERS}|{WATCHES}"}} == 0
        or up{{job="{SERVERS}"}} == 1 unless on (job, instance) {{__name__=~"{"|".join(ALWAYS_THERE)}"}}
        or sum by (job, instance, lane, arm) (rate(specload_server_scrape_errors_total[{windows.rate}])) / (sum by (job, instance, lane, arm) (rate(specload_server_scrapes_total[{windows.rate}])) > 0) > 0.5"""  # noqa: E501
    return alert(
        "SpecloadServerScrapeFailing", expr, "warning", "canary", hold=windows.scrape_hold,
        summary="A server's metrics cannot be read, so nothing else here can be known of it.",
        description="{{ $labels.job }} {{ $labels.instance }} {{ $labels.arm }}: unreachable, or none of the known "
        "metric families.",
    )  # fmt: skip


def _canaries(windows: Windows) -> list[Rule]:
    """Of `specload canary`, whose states have their own hysteresis. A monitor that is gone is told by `up`.

    The service's monitors have a lane each, and an ended one's series stay a while: only with its lane is a state that
    of the monitor that is active."""
    on = "and on (job, instance, lane, canary)"
    active = f"{on} specload_canary_active == 1"
    blind = f"""
        specload_canary_state{{state="no_data"}} == 1
        {on} time() - specload_canary_start_timestamp_seconds > 4 * specload_canary_window_seconds
        {active}
        or time() - specload_canary_window_end_timestamp_seconds > 3 * specload_canary_window_seconds
        {active}"""
    calls = 'specload_canary_hook_calls_total{result=~"failed|dropped"}'
    return [
        alert(
            "SpecloadCanaryFailing", f'specload_canary_state{{state="fail"}} == 1\n{active}', "critical", "canary",
            hold=None,
            summary="A canary has failed a check in three windows in a row, and has not recovered.",
            description="Canary {{ $labels.canary }}, watched by {{ $labels.instance }}: canary.json of the monitor "
            "names the checks and their numbers.",
        ),
        alert(
            "SpecloadCanaryBlind", blind, "warning", "canary", hold=windows.hold,
            summary="A canary is watched, and a check has no data, or no window ends any more.",
            description="Canary {{ $labels.canary }}, watched by {{ $labels.instance }}: nothing can be said of it.",
        ),
        alert(
            "SpecloadCanaryHookFailing",
            f"sum by (job, instance, lane, canary, hook) (increase({calls}[{windows.rate}])) > 0", "warning", "canary",
            hold=None,
            summary="A webhook of a canary could not be called, or its kill switch could not be pulled.",
            description="Canary {{ $labels.canary }}, watched by {{ $labels.instance }}: {{ $labels.hook }}.",
        ),
    ]  # fmt: skip


def _not_delivered(windows: Windows, limits: Limits) -> Rule:
    by, w = "job, instance, lane, arm", windows.run_rate
    floor = f"{limits.requests_per_s:g}"
    expr = f"""
        histogram_quantile(0.99, sum by ({by}, le) (rate(specload_send_lag_seconds_bucket[{w}]))) > {limits.send_lag_s:g}
        and sum by ({by}) (rate(specload_send_lag_seconds_count[{w}])) > {floor}
        or sum by ({by}) (rate(specload_dropped_requests_total{{reason!="stopped"}}[{w}])) / (sum by ({by}) (rate(specload_scheduled_requests_total[{w}])) > {floor}) > {limits.dropped:g}"""  # noqa: E501
    return alert(
        "SpecloadLoadNotDelivered", expr, "critical", "run", hold=windows.run_hold,
        summary="The servers were not asked what the scenario says.",
        description=f"{{{{ $labels.arm }}}} of {{{{ $labels.instance }}}}: send lag P99 over {limits.send_lag_s:g} s, "
        f"or over {limits.dropped:.0%} of the scheduled requests dropped (value {{{{ $value | humanize }}}}).",
    )  # fmt: skip


def _held_back(windows: Windows, limits: Limits) -> Rule:
    """What is in flight of ours is running or waiting there, unless something in between lets only so much through."""
    w = windows.run_rate
    in_flight = f"avg_over_time(specload_inflight_requests[{w}])"
    there = (
        f"avg_over_time(specload_server_running_requests[{w}]) + avg_over_time(specload_server_waiting_requests[{w}])"
    )
    expr = f"""
        {in_flight} - ({there}) > {limits.held_back:g} * {in_flight}
        and {in_flight} - ({there}) > {limits.held_back_requests:g}"""
    return alert(
        "SpecloadRequestsHeldBack", expr, "warning", "run", hold=windows.run_hold,
        summary="Something between the load generator and the servers holds requests back.",
        description="{{ $labels.arm }} of {{ $labels.instance }}: {{ $value | humanize }} requests in flight that the "
        "servers neither run nor have waiting.",
    )  # fmt: skip


def _in_progress() -> Rule:
    """A phase that has not begun may stand at 0."""
    by = "job, instance, run_id"
    expr = f"""
        max by ({by}) (specload_run_phase_timestamp_seconds{{phase!="end"}}) > 0
        unless on ({by}) (specload_run_phase_timestamp_seconds{{phase="end"}} > 0)"""
    return alert(
        "SpecloadRunInProgress", expr, "info", "run", hold=None,
        summary="A load test runs; canary alerts are inhibited meanwhile.",
        description="Run {{ $labels.run_id }} by {{ $labels.instance }}.",
    )  # fmt: skip


def seconds(span: str) -> int:
    """Of a Prometheus duration with one unit."""
    return int(span[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[span[-1]]
