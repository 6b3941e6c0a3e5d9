"""Sweep: runs side by side, by concurrency and k, from the numbers of finished runs."""

from __future__ import annotations

from grafana.dashboards_src.frame import Page, Row, arm_choices, choices, marks
from grafana.dashboards_src.panels import GREEN, RED, Ask, Panel, bars, lines, rows
from grafana.dashboards_src.queries import ARM, SOME_RUNS, final, of_run, quantile, series, with_k
from grafana.dashboards_src.run import VERDICTS

_STAGES = 'stage!="all"'
_BY = "run_id, arm, stage"
_ENDED = "From the records of finished runs."
_LEGEND = "{{arm}} {{stage}}"
RUN_ID_PX = 290
_LEGEND_K = "{{arm}} {{stage}} k={{k}}"


def page() -> Page:
    return Page(
        uid="specload-sweep",
        title="specload / Sweep",
        description="Stages and runs side by side: up to which concurrency, and with which k, is speculation worth it?",
        since="now-6h",
        refresh="1m",
        variables=[
            choices("run_id", "Runs", "label_values(specload_run_info, run_id)", newest_first=True),
            arm_choices(SOME_RUNS),
        ],
        annotations=[marks("Stage", "run_stage_timestamp_seconds", "{{stage}}", "purple", SOME_RUNS)],
        rows=[
            Row("Runs", _runs()),
            Row("Where it pays", _pays()),
            Row("Why", _why()),
            Row("On the way", _live()),
        ],
    )


def _value(name: str) -> str:
    return final(_BY, name, ARM, _STAGES, run=SOME_RUNS)


def _runs() -> list[Panel]:
    told = final("run_id, arm, scenario, engine, engine_version, k, method", "run_info", ARM, run=SOME_RUNS)
    verdict = final("run_id", "run_verdict", run=SOME_RUNS)
    asks = [
        Ask(with_k(_value("run_speedup_ratio")), "speedup", "suffix:×", 2),
        Ask(with_k(_value("run_speedup_low_ratio")), "low", "suffix:×", 2),
        Ask(with_k(_value("run_speedup_high_ratio")), "high", "suffix:×", 2),
        Ask(with_k(_value("run_tokens_per_step")), "E", "none", 2),
        Ask(with_k(_value("run_step_cost_ratio")), "c", "suffix:×", 2),
        Ask(with_k(_value("run_acceptance_ratio")), "acceptance", "percentunit", 1),
        Ask(with_k(_value("run_net_tokens_per_second")), "throughput", "suffix: tok/s", 0),
        Ask(with_k(_value("run_goodput_requests_per_second")), "goodput", "reqps", 2),
    ]
    return [
        rows(
            "What ran",
            "One line for each arm of each chosen run. A run in progress, or without thresholds, has no verdict.",
            "none",
            Ask(f"{told}\n* on (run_id) group_left () {verdict}", "verdict"),
            order=("run_id", "scenario", "arm", "engine", "engine_version", "method", "k"),
            height=6,
            widths={"run_id": RUN_ID_PX},
            words=VERDICTS,
        ),
        rows(
            "Every stage",
            f"All that the curves are made of. Empty: not known, or too few blocks for an interval. {_ENDED}",
            "none",
            *asks,
            order=("run_id", "arm", "k", "stage"),
            height=14,
            widths={"run_id": RUN_ID_PX},
        ),
    ]


def _pays() -> list[Panel]:
    return [
        bars(
            "Speedup by stage",
            f"Against the run's baseline arm; below 1 speculation costs. Its interval is in the table. {_ENDED}",
            "suffix:×",
            Ask(with_k(_value("run_speedup_ratio"), drafting=True), _LEGEND_K),
            limits=((None, RED), (1, GREEN)),
            decimals=2,
        ),
        bars(
            "Net throughput by stage",
            "Tokens a second in the steady part of each stage. Where the speculating arm stops growing before the "
            "baseline, "
            f"its knee is passed. {_ENDED}",
            "suffix: tok/s",
            Ask(_value("run_net_tokens_per_second"), _LEGEND),
            decimals=0,
        ),
        bars(
            "Goodput by stage",
            f"Requests a second that met every limit of the scenario; only where it sets limits. {_ENDED}",
            "reqps",
            Ask(_value("run_goodput_requests_per_second"), _LEGEND),
            decimals=1,
        ),
    ]


def _why() -> list[Panel]:
    return [
        bars(
            "Tokens per decode step (E) by stage",
            f"It hardly depends on load, and grows with k ever more slowly. {_ENDED}",
            "none",
            Ask(with_k(_value("run_tokens_per_step"), drafting=True), _LEGEND_K),
            decimals=2,
        ),
        bars(
            "Cost of a decode step (c) by stage",
            f"÷ the baseline's. It grows with load and with k; where it reaches E, nothing is gained. {_ENDED}",
            "suffix:×",
            Ask(with_k(_value("run_step_cost_ratio"), drafting=True), _LEGEND_K),
            decimals=2,
        ),
        bars(
            "Acceptance by stage",
            f"Accepted ÷ drafted. It falls with k: compare E across k instead. {_ENDED}",
            "percentunit",
            Ask(with_k(_value("run_acceptance_ratio"), drafting=True), _LEGEND_K),
            high=1,
        ),
    ]


def _live() -> list[Panel]:
    asked = of_run(series("target_concurrency", ARM), SOME_RUNS)
    by = "arm, stage"
    return [
        lines(
            "Asked concurrency",
            "The ramp as it was driven; 0 while an arm rests.",
            "short",
            Ask(f"max by (arm) ({asked})", "{{arm}}"),
        ),
        lines(
            "Time per output token, P95",
            "By stage, as it was measured. Of requests that ended ok.",
            "s",
            Ask(quantile(0.95, by, "tpot_seconds", run=SOME_RUNS), _LEGEND),
        ),
        lines(
            "Time to first token, P95",
            "By stage, streams. Of requests that ended ok. It rises first where requests begin to queue.",
            "s",
            Ask(quantile(0.95, by, "ttft_seconds", 'stream="true"', run=SOME_RUNS), _LEGEND),
        ),
    ]
