"""Recording rules: one set of names for every server family and for our own client, so that each alert is written once.

`scope="canary"`: servers, scraped by Prometheus or watched by `specload watch`, whoever sends the traffic.
`scope="run"`: what a run's own client counted. Ratios are made of sums; no ratio is averaged.
"""

from __future__ import annotations

from loadgen.export.rules import series
from loadgen.export.rules.types import Group, Limits, Rule, Windows, group, record

BASELINE = "baseline"

_ACCEPTANCE = "specload:accepted_tokens:rate / (specload:draft_tokens:rate > 0)"
_EMITTED = "1 + specload:accepted_tokens:rate / (specload:rounds:rate > 0)"
#: k × rounds − drafted slots are missing where drafts were shorter than k; each may have made a short round of one that
#: was accepted as a whole. So this is a lower bound of the share, and exact where nothing is missing.
_ROLLBACK = """
clamp_min(
  specload:rounds:rate - specload:accepted_last:rate
  - clamp_min(specload:positions:count * specload:rounds:rate - specload:draft_tokens:rate, 0),
0)
/ (specload:rounds:rate > 0)
"""
#: Chunks tell decode steps, not drafts: nothing of speculation follows from them.
_TELLS = '{source!="client_chunk"}'


def recording(windows: Windows, limits: Limits) -> list[Group]:
    return [
        group("specload_servers", windows.interval, _servers(windows, limits)),
        group("specload_run", windows.run_interval, _run(windows, limits)),
        group("specload_budgets", windows.interval, _budgets(windows, limits)),
    ]


def _servers(windows: Windows, limits: Limits) -> list[Rule]:
    w = windows.rate
    canary = {"scope": "canary"}
    return [
        record("specload:rounds:rate", series.rounds(w), **canary),
        record("specload:draft_tokens:rate", series.draft_tokens(w), **canary),
        record("specload:accepted_tokens:rate", series.accepted_tokens(w), **canary),
        record("specload:output_tokens:rate", series.output_tokens(w), **canary),
        record("specload:accepted_last:rate", series.accepted_last(w), **canary),
        record("specload:positions:count", series.positions(), **canary),
        record("specload:acceptance:ratio", _of(_ACCEPTANCE, "canary"), **canary),
        record("specload:tokens_per_round:mean", _of(_EMITTED, "canary"), **canary),
        record("specload:rollback:ratio", _of(_ROLLBACK, "canary"), **canary),
        record("specload:tpot_seconds:mean", series.tpot(w, limits), **canary),
        record("specload:speedup:ratio", _speedup("canary", "cluster, model_name"), **canary),
    ]


def _run(windows: Windows, limits: Limits) -> list[Rule]:
    w = windows.run_rate
    run = {"scope": "run"}

    def counted(name: str, by: str = series.BY_RUN) -> str:
        return f"{series.rates(name, w, by)} and on (job, instance, lane) specload_run_info"

    per_task = "job, instance, lane, arm, task_type"
    tpot = (
        f"{series.rates('specload_tpot_seconds_sum', windows.rate, per_task)} "
        f"/ ({series.rates('specload_tpot_seconds_count', windows.rate, per_task)} > {limits.requests_per_s:g})"
    )
    return [
        record("specload:rounds:rate", counted(f"specload_verify_rounds_total{_TELLS}"), **run),
        record("specload:draft_tokens:rate", counted(f"specload_draft_tokens_total{_TELLS}"), **run),
        record("specload:accepted_tokens:rate", counted(f"specload_accepted_tokens_total{_TELLS}"), **run),
        record("specload:rollback_rounds:rate", counted(f"specload_rollback_rounds_total{_TELLS}"), **run),
        record("specload:output_tokens:rate", counted("specload_output_tokens_total", per_task), **run),
        record("specload:acceptance:ratio", _of(_ACCEPTANCE, "run"), **run),
        record("specload:tokens_per_round:mean", _of(_EMITTED, "run"), **run),
        record(
            "specload:rollback:ratio",
            _of("specload:rollback_rounds:rate / (specload:rounds:rate > 0)", "run"),
            **run,
        ),
        record("specload:tpot_seconds:mean", tpot, **run),
        record("specload:speedup:ratio", _speedup("run", "job, instance, lane, task_type"), **run),
    ]


def _budgets(windows: Windows, limits: Limits) -> list[Rule]:
    canary = {"scope": "canary"}
    spans = list(dict.fromkeys(span for burn in windows.burns for span in (burn.short, burn.long)))
    return [
        *(record(f"specload:ttft_over_limit:ratio_rate{w}", series.ttft_over(w, limits), **canary) for w in spans),
        *(record(f"specload:errors:ratio_rate{w}", series.errors(w, limits), **canary) for w in spans),
    ]


def _of(expr: str, scope: str) -> str:
    """The expression over the recorded series of one scope, which their results keep as a label."""
    words = ("rate", "count", "ratio", "mean")
    for name in ("rounds", "draft_tokens", "accepted_tokens", "accepted_last", "positions", "rollback_rounds"):
        for word in words:
            expr = expr.replace(f"specload:{name}:{word}", f'specload:{name}:{word}{{scope="{scope}"}}')
    return expr


def _speedup(scope: str, on: str) -> str:
    mean = f'specload:tpot_seconds:mean{{scope="{scope}",arm'
    return f'{mean}="{BASELINE}"}}\n/ on (scope, {on}) group_right () {mean}!="{BASELINE}"}}'
