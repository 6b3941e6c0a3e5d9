"""The terminal report: what was found, under what conditions, and what was not found and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from loadgen.analyze import Absent, Summary, Validity
from loadgen.redact import printable
from loadgen.report import comparison, stability, tables
from loadgen.report.attention import attention
from loadgen.report.environment import render_environment
from loadgen.report.format import DASH
from loadgen.report.resources import sentences, terminal_table

FOOTNOTE = (
    f"{DASH} not measured, or too few samples (p95 needs 20, p99 100): every reason stands in summary.json. "
    "Terms: docs/method.md."
)
MORE = "All tables: specload report RUN --details. Every number, interval and reason: summary.json."
#: Lines of a comparison's page; the others stand in the details
ATTENTION, REASONS = 4, 3
_VALIDITY = {
    "valid": ("green", "."),
    "doubtful": ("yellow", ": read its numbers with these reasons in mind."),
    "invalid": (
        "bold red",
        ": its numbers are not the server's. Limits: docs/method.md, «Validity»; of this machine: specload doctor.",
    ),
}


def render_terminal(summary: Summary, console: Console, details: bool | None = None) -> None:
    """Print `summary` to `console`. Everything printed stands in summary.json.

    `details`: every table. Default: where arms are not compared; a comparison is one page."""
    console.rule(f"[bold]specload[/bold] {summary.run_id}")
    compared = not isinstance(summary.comparison, Absent)
    if compared or not isinstance(summary.verdict, Absent):
        comparison.verdict_lines(summary, console)
    for text in stability.sentences(summary):
        console.print(Text(f"! {text}", style="bold yellow"))
    _stands_out(attention(summary), console, None if details or not compared else ATTENTION)
    _validity(summary.validity, console, None if details or not compared else REASONS)
    if not isinstance(summary.comparison, Absent):
        comparison.render_comparison(summary.comparison, console)
    comparison.findings_lines(summary, console)
    for text in sentences(summary.resources)[: None if details or not compared else ATTENTION]:
        console.print(Text(f"• {text}"))
    if compared and not details:
        _conditions(summary.conditions, console)
        console.print(
            Text(
                "All tables: specload report RUN --details. Every number, interval and reason: summary.json.",
                style="dim",
            )
        )
        return
    _sentences(summary, console)
    _conditions(summary.conditions, console)
    _tables(summary, console)
    console.print(Text(FOOTNOTE, style="dim"))
    _not_judged(summary, console)


def _stands_out(lines: list[str], console: Console, most: int | None) -> None:
    for line in lines[:most]:
        console.print(Text(f"! {line}", style="yellow"))
    if most is not None and len(lines) > most:
        console.print(Text(f"! {len(lines) - most} more lines like these: --details", style="yellow"))


def _tables(summary: Summary, console: Console) -> None:
    rows = [] if isinstance(summary.comparison, Absent) else summary.comparison
    render_environment(summary.environment, console)
    shown = (
        comparison.numbers_table(rows),
        comparison.parts_table(rows),
        tables.decomposition(summary.decomposition),
        tables.by_stage(summary),
        tables.by_task(summary),
        tables.stutter(summary),
        tables.speculation_by_task(summary),
        tables.rollback_by_length(summary),
        tables.non_streaming(summary),
        tables.from_due(summary),
        terminal_table(summary.resources),
        *stability.terminal_tables(summary),
        tables.outcomes(summary),
        tables.disagreements(summary.reconciliation),
        tables.client(summary.validity.client),
    )
    for table in shown:
        if table is not None and table.row_count:
            console.print(table)


def _not_judged(summary: Summary, console: Console) -> None:
    """What this version does not say, last and in one line each."""
    absent: dict[str, list[str]] = {}
    for name in ("verdict", "comparison", "findings"):
        part = getattr(summary, name)
        if isinstance(part, Absent):
            absent.setdefault(part.reason, []).append(name)
    for reason, names in absent.items():
        console.print(Text(f"no {', '.join(names)}: {reason}", style="dim"))


def _validity(validity: Validity, console: Console, most: int | None) -> None:
    """Before any number: is this a measurement of the server? Each reason names its own weight."""
    style, meaning = _VALIDITY[validity.state]
    console.print(Text(f"This measurement is {validity.state}{meaning}", style=style))
    for reason in validity.reasons[:most]:
        console.print(Text(f"   {reason}", style=style))
    if most is not None and len(validity.reasons) > most:
        console.print(Text(f"   {len(validity.reasons) - most} more reasons: --details", style=style))


def _conditions(conditions: Mapping[str, Any], console: Console) -> None:
    """Every number below holds under these, and is not extrapolated beyond them. All of them: summary.json."""
    for name, arm in (conditions.get("arms") or {}).items():
        facts = " · ".join(printable(str(f)) for f in _arm_facts(arm) if f)
        console.print(Text(f"  {name}: {facts}", style="dim"))
    for key in ("scenario", "objective", "design", "prompts", "prefix_cache", "input_lengths_from", "slos"):
        value = conditions.get(key)
        shown = _inline(value) if isinstance(value, Mapping) else value
        if shown:
            console.print(Text(f"  {key.replace('_', ' ')}: {shown}", style="dim"))
    if wire := _transports(conditions.get("client") or {}):
        console.print(Text(f"  transport used: {wire}", style="dim"))
    if conditions.get("shard"):
        console.print(Text(f"  share {conditions['shard']} of the plan only", style="yellow"))
    for problem in conditions.get("problems") or ():
        console.print(Text(f"  records: {problem}", style="yellow"))


def _transports(client: Mapping[str, Any]) -> str | None:
    """By arm where they differ; None: a run of a version that did not say."""
    used: Mapping[str, str] = client.get("transports") or {}
    if len(set(used.values())) > 1:
        return _inline(used)
    return next(iter(used.values()), client.get("transport"))


def _inline(value: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} {v}" for k, v in value.items() if v is not None)


def _arm_facts(arm: Mapping[str, Any]) -> list[str | None]:
    speculation = {
        True: f"speculation on, k = {arm.get('k')}, method {arm.get('spec_method') or 'not known'}",
        False: "speculation off",
        None: "speculation not known",
    }[arm.get("speculation")]
    facts = ", ".join(f"{k} {v}" for k, v in (arm.get("facts") or {}).items())
    version = f"{arm.get('adapter')} {arm.get('engine_version') or '(version unknown)'}"
    return [version, arm.get("model"), arm.get("endpoint"), speculation, facts]


def _sentences(summary: Summary, console: Console) -> None:
    for row in summary.decomposition:
        console.print(Text(f"• {row.stage}: {row.sentence}"))
    checks = [r for r in summary.reconciliation if r.ok is not None]
    unknown = len(summary.reconciliation) - len(checks)
    good = sum(bool(r.ok) for r in checks)
    if checks:
        more = f"; {unknown} could not be made" if unknown else ""
        console.print(f"• Sources agree in {good} of {len(checks)} checks{more}.")
    for note in dict.fromkeys(r.note for r in checks if r.ok is False and r.note):
        console.print(Text(f"• Where they disagree: {note}"))
    seen: set[str] = set()
    for name, arm in summary.arms.items():
        speculation = arm.overall.speculation
        if not speculation.representative and speculation.rounds.n:
            console.print(Text(f"• {name}: acceptance is not representative: {speculation.representative_reason}"))
        for flag in speculation.flags:
            if flag not in seen:
                seen.add(flag)
                console.print(Text(f"• {name}: {flag}"))
