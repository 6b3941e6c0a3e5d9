"""A/B: the arms of one run on one axis: is speculation faster, by how much, and why."""

from __future__ import annotations

from grafana.dashboards_src.frame import Page, Row, arm_choices, marks, run_choice, source_choice
from grafana.dashboards_src.panels import GREEN, ORANGE, RED, Ask, Panel, bars, lines, number, rows
from grafana.dashboards_src.queries import (
    ARM,
    ONE_RUN,
    SOURCE,
    failed_share,
    final,
    of_run,
    quantile,
    ratio,
    recorded,
    summed,
)

_ENDED = "From the records of the finished run"
_OK_ONLY = "Of requests that ended ok."
_TURNS = "Interleaved arms take turns: where one has no line, the other is measured."
_STAGES = 'stage!="all"'


def page() -> Page:
    return Page(
        uid="specload-ab",
        title="specload / A/B",
        description="The arms of one run on one axis: is speculation worth it, by how much, where, and why?",
        since="now-30m",
        refresh="10s",
        variables=[run_choice(), arm_choices(ONE_RUN), source_choice()],
        annotations=[marks("Stage", "run_stage_timestamp_seconds", "{{stage}}", "purple", ONE_RUN)],
        rows=[
            Row("Is it faster?", _faster()),
            Row("Why: more tokens a step, at what cost", _why()),
            Row("On one axis", _one_axis()),
            Row("By task", _by_task()),
            Row("Like for like?", _alike()),
        ],
    )


def _faster() -> list[Panel]:
    least = final("arm, stage", "run_speedup_low_ratio", ARM)
    return [
        number(
            "Speedup shown in every stage",
            "The least lower end of the stages' 95 % intervals. Above 1: faster in every stage that has an interval; "
            "else "
            f"nothing is shown, which is not the same as slower. {_ENDED}.",
            "suffix:×",
            Ask(f"min by (arm) ({least})", "{{arm}}"),
            width=6,
            height=7,
            limits=((None, ORANGE), (1, GREEN)),
            none="not yet",
            decimals=2,
        ),
        rows(
            "Speedup against the baseline",
            "Paired by case and block, with its 95 % interval. An interval is missing where there were too few blocks; "
            f"kind says which ratio it is. {_ENDED}.",
            "none",
            Ask(final("arm, stage, kind", "run_speedup_ratio", ARM), "speedup", "suffix:×", 2),
            Ask(final("arm, stage, kind", "run_speedup_low_ratio", ARM), "low", "suffix:×", 2),
            Ask(final("arm, stage, kind", "run_speedup_high_ratio", ARM), "high", "suffix:×", 2),
            order=("arm", "stage", "kind"),
            widths={"kind": 130},
            width=10,
            height=7,
        ),
        lines(
            "Speedup now, by task",
            "Baseline's mean time per output token ÷ the arm's, over five minutes, from the recording rules. Neither "
            "paired "
            "nor with an interval: the table has that.",
            "suffix:×",
            Ask(of_run(recorded("specload:speedup:ratio", "run", ARM)), "{{arm}} {{task_type}}"),
            height=7,
            limits=((None, RED), (1, GREEN)),
            decimals=2,
        ),
    ]


def _why() -> list[Panel]:
    legend = "{{arm}} {{stage}}"
    return [
        bars(
            "Tokens per decode step (E)",
            f"What a step yields; 1 without speculation. The gain is about E ÷ c. {_ENDED}.",
            "none",
            Ask(final("arm, stage", "run_tokens_per_step", ARM, _STAGES), legend),
            decimals=2,
        ),
        bars(
            "Cost of a decode step (c)",
            "Time of a step with drafting and verifying, ÷ the baseline's. Speculation pays while E is larger. It "
            "rises with "
            f"load: idle compute becomes scarce. {_ENDED}.",
            "suffix:×",
            Ask(final("arm, stage", "run_step_cost_ratio", ARM, _STAGES), legend),
            decimals=2,
        ),
        bars(
            "Acceptance rate",
            f"Accepted ÷ drafted tokens, by stage. {_ENDED}.",
            "percentunit",
            Ask(final("arm, stage", "run_acceptance_ratio", ARM, _STAGES), legend),
            high=1,
        ),
    ]


def _two(by: str, legend: str, histogram: str, *matchers: str) -> list[Ask]:
    return [Ask(quantile(q, by, histogram, *matchers), f"{legend} P{q * 100:g}") for q in (0.5, 0.95)]


def _one_axis() -> list[Panel]:
    return [
        lines(
            "Output tokens",
            f"Of measured requests when they end, failed ones among them. {_TURNS}",
            "suffix: tok/s",
            Ask(summed("arm", "output_tokens_total"), "{{arm}}"),
            width=6,
        ),
        lines(
            "Time to first token",
            f"Streams. {_OK_ONLY} Both arms have the same bucket edges.",
            "s",
            *_two("arm", "{{arm}}", "ttft_seconds", 'stream="true"'),
            width=6,
        ),
        lines(
            "Time per output token",
            f"By tokens and not by chunks. {_OK_ONLY}",
            "s",
            *_two("arm", "{{arm}}", "tpot_seconds"),
            width=6,
        ),
        lines(
            "Total time",
            f"Sent to last token of streams. {_OK_ONLY} Arms whose answers differ in length are not alike: see below.",
            "s",
            *_two("arm", "{{arm}}", "total_time_seconds", 'stream="true"'),
            width=6,
        ),
    ]


def _by_task() -> list[Panel]:
    by, legend = "arm, task_type", "{{arm}} {{task_type}}"
    rounds = summed(by, "verify_rounds_total", SOURCE)
    accepted, drafted = (summed(by, f"{name}_tokens_total", SOURCE) for name in ("accepted", "draft"))
    return [
        lines(
            "Time per output token, median",
            f"{_OK_ONLY} A gain in code can hide a loss in prose.",
            "s",
            Ask(quantile(0.5, by, "tpot_seconds"), legend),
            width=6,
            height=10,
        ),
        lines(
            "Time to first token, P95",
            f"Streams. {_OK_ONLY} Drafting takes compute from prefill: a gain in tokens can cost first tokens.",
            "s",
            Ask(quantile(0.95, by, "ttft_seconds", 'stream="true"'), legend),
            width=6,
            height=10,
        ),
        lines(
            "Acceptance rate by task",
            "Accepted ÷ drafted, by the chosen source alone: sources are never added up. Of server_window the task "
            "is all "
            "where the scenario has several.",
            "percentunit",
            Ask(ratio(accepted, drafted), legend),
            width=6,
            height=10,
            high=1,
        ),
        lines(
            "Tokens per round by task",
            "1 + accepted ÷ rounds, of rounds that had a draft.",
            "none",
            Ask(f"1 + {ratio(accepted, rounds)}", legend),
            width=6,
            height=10,
            low=1,
            decimals=2,
        ),
    ]


def _alike() -> list[Panel]:
    ended = summed("arm", "requests_total")
    return [
        lines(
            "Output tokens per request",
            "Of ended requests. The arms must answer alike: a shift in length is not a gain in speed.",
            "none",
            Ask(ratio(summed("arm", "output_tokens_total"), ended), "{{arm}}"),
            decimals=1,
        ),
        lines(
            "Prompt tokens per request",
            "By the servers' usage. Both arms hold the same cases, so whole blocks agree.",
            "none",
            Ask(ratio(summed("arm", "prompt_tokens_total"), ended), "{{arm}}"),
            decimals=1,
        ),
        lines(
            "Failed requests",
            "Share that ended otherwise than ok, without those that our own drain or stop cut. Failures are fast: an "
            "arm that fails more looks faster.",
            "percentunit",
            Ask(failed_share(), "{{arm}}"),
            limits=((None, GREEN), (0.01, RED)),
        ),
    ]
