"""Alert rules whose limits are what a passing run measured, for each arm and task type by itself.

A fixed limit on mixed traffic moves with the mix. They read our own client's metrics: servers do not tell task types.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from loadgen.analyze import G, Summary
from loadgen.export.buckets import LATENCY_EDGES_S
from loadgen.export.rules.types import Group, Limits, Rule, Windows, alert, group

#: The summary's names of sources, as the metrics call them.
_SOURCES = {"per_request": "per_request", "counters": "server_window"}
#: P99 from buckets may be 17 % off, and a window has less data than the run had.
TTFT_MARGIN = 1.5
_SELECTORS = ("input_segment", "output_segment", "concurrency", "stage", "temperature", "top_p", "top_k")


@dataclass(frozen=True)
class RunRules:
    """`left_out`: what got no rule, and why; a sentence each."""

    groups: list[Group]
    left_out: tuple[str, ...]


def rules_of_run(summary: Summary, windows: Windows = Windows(), limits: Limits = Limits()) -> RunRules:  # noqa: B008
    """Acceptance at least 0.8 × the run's, as many rounds without a rollback, TTFT P99 at most 1.5 × the run's."""
    rules: list[Rule] = []
    left_out: list[str] = []
    for arm, found in summary.arms.items():
        for cell in found.by:
            if cell.task_type and all(getattr(cell, name) is None for name in _SELECTORS):
                made = list(_of_cell(arm, cell, windows, limits))
                rules += [one for one in made if not isinstance(one, str)]
                left_out += [one for one in made if isinstance(one, str)]
    for rule in rules:
        rule["annotations"]["description"] += f" Limit from run {summary.run_id}."
    return RunRules([group(f"specload_from_{summary.run_id}", windows.run_interval, rules)], tuple(left_out))


def _of_cell(arm: str, cell: G, windows: Windows, limits: Limits) -> Iterator[Rule | str]:
    task, spec = str(cell.task_type), cell.speculation
    by, w = "job, instance, lane, arm, task_type, source", windows.rate
    of = f'arm="{arm}",task_type="{task}"'
    acceptance, rollback = spec.acceptance_rate, spec.rollback_rate
    drafting = (
        f'sum by ({by}) (rate(specload_draft_tokens_total{{{of},source="%s"}}[{w}])) > {limits.draft_tokens_per_s:g}'
    )
    if acceptance.value is None or acceptance.source not in _SOURCES:
        yield f"{arm}, {task}: no acceptance limit: {acceptance.reason or f'it is from {acceptance.source}'}"
    else:
        source, limit = _SOURCES[acceptance.source], limits.of_baseline * acceptance.value
        accepted = f'sum by ({by}) (rate(specload_accepted_tokens_total{{{of},source="{source}"}}[{w}]))'
        yield alert(
            "SpecloadAcceptanceRateLow", f"{accepted}\n/ ({drafting % source})\n< {limit:.4g}", "warning", "from_run",
            hold=windows.hold, summary="Fewer drafted tokens are accepted than in the run that set the limit.",
            description=_says(arm, task, "of drafted tokens accepted", acceptance.value, f"floor {limit:.3g}"),
        )  # fmt: skip
    if rollback.value is None or rollback.source not in _SOURCES:
        yield f"{arm}, {task}: no rollback limit: {rollback.reason or f'it is from {rollback.source}'}"
    else:
        source, limit = _SOURCES[rollback.source], 1 - limits.of_baseline * (1 - rollback.value)
        rolled, rounds = (
            f'sum by ({by}) (rate(specload_{name}_total{{{of},source="{source}"}}[{w}]))'
            for name in ("rollback_rounds", "verify_rounds")
        )
        yield alert(
            "SpecloadRollbackRateHigh",
            f"{rolled}\n/ ({rounds} > 0)\n> {limit:.4g}\nand {drafting % source}", "warning", "from_run",
            hold=windows.hold, summary="More rounds reject a draft than in the run that set the limit.",
            description=_says(arm, task, "of rounds rolled back", rollback.value, f"limit {limit:.3g}"),
        )  # fmt: skip
    yield _ttft(arm, task, cell, windows, limits)


def _ttft(arm: str, task: str, cell: G, windows: Windows, limits: Limits) -> Rule | str:
    p99 = cell.stream.ttft_s.p99
    if p99 is None:
        why = cell.stream.ttft_s.reasons.get("p99") or cell.stream.ttft_s.reason or "not measured"
        return f"{arm}, {task}: no TTFT limit: {why}"
    by, limit = "job, instance, lane, arm, task_type", TTFT_MARGIN * p99
    if limit >= LATENCY_EDGES_S[-1]:
        return f"{arm}, {task}: no TTFT limit: {limit:.3g} s is beyond the last bucket, which no quantile exceeds"
    of, w = f'{{arm="{arm}",task_type="{task}",stream="true"}}', windows.rate
    expr = (
        f"histogram_quantile(0.99, sum by ({by}, le) (rate(specload_ttft_seconds_bucket{of}[{w}]))) > {limit:.4g}\n"
        f"and sum by ({by}) (rate(specload_ttft_seconds_count{of}[{w}])) > {limits.requests_per_s:g}"
    )
    return alert(
        "SpecloadTTFTHigh", expr, "warning", "from_run", hold=windows.hold,
        summary="First tokens come later than in the run that set the limit.",
        description=f"{arm}, {task}: TTFT P99 {{{{ $value | humanizeDuration }}}}, {p99:.3g} s in the run, "
        f"limit {limit:.3g} s.",
    )  # fmt: skip


def _says(arm: str, task: str, what: str, measured: float, limit: str) -> str:
    return f"{arm}, {task}: {{{{ $value | humanizePercentage }}}} {what}, {measured:.3g} in the run, {limit}."
