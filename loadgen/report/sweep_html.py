"""A sweep as one HTML file (document.py): what it says first, then figures, tables, findings, how to do it again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from loadgen.analyze import SweepSummary
from loadgen.report.document import lines, page_of
from loadgen.report.format import seconds
from loadgen.report.page import IN_SWEEP, bounded
from loadgen.report.sweep_figures import sweep_figures
from loadgen.report.sweep_panels import AXES, value_text, where_text
from loadgen.report.sweep_tables import sweep_tables, visits

#: Sentences at the top, and findings
ANSWERS, FINDINGS = 12, 60
#: Parts whose sentences answer the scenario's objective, the most important first
_ORDER: Mapping[str, Sequence[str]] = {
    "latency": ("stops_paying", "best_k", "max_rate", "knee", "advice", "decay", "cost"),
    "throughput": ("best_k", "knee", "max_rate", "stops_paying", "advice", "cost", "decay"),
    "cost": ("best_k", "max_rate", "cost", "knee", "stops_paying", "advice", "decay"),
    "quality": ("best_k", "stops_paying", "max_rate", "knee", "advice", "decay", "cost"),
}


def render_sweep_html(summary: SweepSummary) -> str:
    """The whole page. Raises StorageError where plotly's script is not installed."""
    shown, absent = sweep_figures(summary)
    kept, note = bounded(summary.findings, FINDINGS, "findings", IN_SWEEP)
    context = {
        "summary": summary, "answers": _answers(summary), "state": _state(summary), "absent": absent,
        "axes": [(AXES[name], ", ".join(map(value_text, values))) for name, values in summary.axes.items()],
        "baseline": where_text(summary.baseline) or "the only point", "duration": seconds(summary.seconds),
        "findings": [(f, lines(f.numbers), lines(f.conditions)) for f in kept], "findings_note": note,
        "visits": visits(summary), "tables": sweep_tables(summary), "conditions": lines(summary.conditions),
        "doubtful": summary.conditions.get("doubtful_visits"), "reproduce": _reproduce(summary),
    }  # fmt: skip
    return page_of("sweep.html", shown, context)


def _answers(summary: SweepSummary) -> tuple[Sequence[str], str | None]:
    """Sentences by the scenario's objective; then why the parts without any have none."""
    order = _ORDER.get(summary.objective, _ORDER["latency"])
    said = [found.sentence for part in order for found in getattr(summary, part)]
    return bounded(said, ANSWERS, "sentences", IN_SWEEP)


def _state(summary: SweepSummary) -> tuple[str, str]:
    """The heading, and its tone."""
    failed, n = summary.totals.get("failed", 0), len(summary.points)
    done = summary.totals.get("done", 0)
    if not summary.finished:
        return f"This sweep is not finished: {done} of {n} visits were measured", "doubtful"
    if failed:
        return f"{failed} of {n} visits failed: they are in no curve", "doubtful"
    return f"All {n} visits were measured", "valid"


def _reproduce(summary: SweepSummary) -> list[str]:
    conditions = summary.conditions
    again = ["specload", "sweep", str(conditions.get("scenario_path") or "SCENARIO.yaml")]
    for override in conditions.get("overrides") or ():
        again += ["--set", str(override)]
    resume = [*again, "--resume", summary.sweep_id]
    return [
        f"{shlex.join(again)}  # plan {summary.plan_hash[:12]}",
        f"{shlex.join(resume)}  # what failed or is missing",
        f"{shlex.join(['specload', 'report', summary.sweep_id])}  # from the records",
    ]
