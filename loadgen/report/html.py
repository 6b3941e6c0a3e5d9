"""A run as one HTML file (document.py)."""

from __future__ import annotations

from typing import Any

from loadgen.analyze import Absent, ExperimentResult, Finding, QualityResult, Summary
from loadgen.record import Manifest
from loadgen.report.attention import attention
from loadgen.report.document import lines, page_of
from loadgen.report.experiment import experiment_figures, experiment_tables, found_rows
from loadgen.report.figures import figures, level, whole
from loadgen.report.html_tables import agreement, tables, thresholds
from loadgen.report.page import bounded
from loadgen.report.reproduce import reproduce

#: Findings and sentences that are shown; docs/report.md names the limits of figures and tables
FINDINGS, SENTENCES = 60, 40


def render_html(summary: Summary, manifest: Manifest, found: ExperimentResult | None = None) -> str:
    """The whole page. `found`: what an experiment found that is more than a run. Raises StorageError where plotly's
    script is not installed."""
    context = {
        "summary": summary, "manifest": manifest, "tables": tables(summary, manifest),
        "absent": _absent(summary), "attention": attention(summary), "agreement": agreement(summary),
        "reproduce": reproduce(manifest),
        "sentences": bounded([f"{level(r)}: {r.sentence}" for r in whole(summary)], SENTENCES, "loads"),
        **_verdict(summary), **_findings(summary), "experiment": _experiment(found),
    }  # fmt: skip
    return page_of("report.html", [*figures(summary), *experiment_figures(found)], context)


def _experiment(found: ExperimentResult | None) -> dict[str, Any] | None:
    if found is None:
        return None
    kept, note = bounded(found.findings, FINDINGS, "findings")
    return {
        "kind": found.kind,
        "tables": [found_rows(found), *experiment_tables(found)],
        "findings": [(f, lines(f.numbers), lines(f.conditions)) for f in kept],
        "note": note,
        "texts": isinstance(found, QualityResult) and found.text_kept,
    }


def _verdict(summary: Summary) -> dict[str, Any]:
    if isinstance(summary.verdict, Absent):
        return {"verdict": None, "thresholds": None}
    return {"verdict": summary.verdict, "thresholds": thresholds(summary.verdict)}


def _findings(summary: Summary) -> dict[str, Any]:
    found: list[Finding] = [] if isinstance(summary.findings, Absent) else summary.findings
    kept, note = bounded(found, FINDINGS, "findings")
    return {"findings": [(f, lines(f.numbers), lines(f.conditions)) for f in kept], "findings_note": note}


def _absent(summary: Summary) -> dict[str, str]:
    """Part to the reason why it is not there."""
    parts = {name: getattr(summary, name) for name in ("verdict", "comparison", "findings")}
    return {name: part.reason for name, part in parts.items() if isinstance(part, Absent)}
