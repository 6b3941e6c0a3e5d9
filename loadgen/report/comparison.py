"""The comparison on one terminal page: verdict first, then the loads, then what the numbers say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadgen.analyze import Absent, ComparisonRow, Interval, RunsCompared, Summary, Unpaired
from loadgen.redact import printable
from loadgen.report.format import DASH, INFINITE, endless, number, percent, share_range, significant

#: What fits a page beside a table of up to `LOADS` rows; the others are counted and stand in summary.json. Of longer
#: tables each row takes the place of a finding, down to `LEAST`
FINDINGS, REASONS, THRESHOLDS = 6, 3, 6
LOADS, LEAST = 5, 3
_VERDICT = {"pass": "bold green", "fail": "bold red", "inconclusive": "bold yellow"}
_WORD = {"faster": "green", "slower": "red", "no difference shown": "", "not enough data": "yellow"}
_SEVERITY = {"bad": "red", "warning": "yellow", "good": "green", "info": ""}
_HEAD = (
    "load", "arm", "blocks", "speedup [95 %]", "E", "c", "E/c", "α", "rollback", "TTFT P95", "TPOT P95", "total P99",
    "errors",
)  # fmt: skip


def verdict_lines(summary: Summary, console: Console) -> None:
    """The first thing of a page; also says why there is none."""
    verdict = summary.verdict
    if isinstance(verdict, Absent):
        console.print(Text(f"No verdict: {verdict.reason}.", style="dim"))
        return
    word = str(verdict.get("verdict"))
    console.print(Text(f"VERDICT: {word.upper()}", style=_VERDICT.get(word, "bold")))
    reasons = [printable(str(reason)) for reason in verdict.get("reasons") or ()]
    _limited(console, reasons, REASONS, "reasons")
    untold = [t for t in verdict.get("thresholds") or () if printable(str(t.get("sentence"))) not in reasons[:REASONS]]
    _limited(console, [_threshold(t) for t in sorted(untold, key=_weight)], THRESHOLDS, "thresholds")


def _weight(threshold: Mapping[str, Any]) -> int:
    """What failed first, what passed last; those that the reasons tell are not told twice."""
    return {False: 0, None: 1, True: 2}[threshold.get("ok")]


def _threshold(found: Mapping[str, Any]) -> str:
    mark = {True: "pass", False: "FAIL", None: "inconclusive"}[found.get("ok")]
    value, limit = found.get("value"), found.get("limit")
    shown = DASH if value is None else significant(float(value))
    interval: Sequence[Any] = found.get("interval") or []
    if len(interval) == 2 and None not in interval:
        shown += f" [{significant(float(interval[0]))}, {significant(float(interval[1]))}]"
    unit = f" {found['unit']}" if found.get("unit") else ""
    bound = f", limit {significant(float(limit))}{unit}" if isinstance(limit, int | float) else ""
    seen = f", n = {found.get('n') or 0:,} {found.get('n_unit') or ''}".rstrip()
    return f"{mark}  {found.get('name')}: {shown}{bound}{seen}"


def _limited(console: Console, lines: Sequence[str], most: int, what: str) -> None:
    for line in lines[:most]:
        console.print(Text(f"   {line}"))
    if len(lines) > most:
        console.print(Text(f"   … {len(lines) - most} more {what} in summary.json", style="dim"))


def whole_stages(rows: Sequence[ComparisonRow]) -> list[ComparisonRow]:
    return [r for r in rows if (r.task_type, r.input_segment, r.output_segment) == (None, None, None)]


def comparison_table(rows: Sequence[ComparisonRow]) -> Table:
    """One row a load and candidate; latencies are candidate ÷ baseline, so above 1 is worse."""
    table = _table(_title(rows), _HEAD, left=2)
    for row in rows:
        table.add_row(*_cells(row), style=_WORD[row.verdict_word])
    return table


def _table(title: str, columns: Sequence[str], left: int) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    for i, name in enumerate(columns):
        table.add_column(name, justify="left" if i < left else "right", overflow="fold")
    return table


def _title(rows: Sequence[ComparisonRow]) -> str:
    first = rows[0]
    paired = "paired blocks" if first.paired else "not of one window"
    return (
        f"Beside {first.baseline} ({first.design}, {paired}; latencies ÷ the baseline's: above 1 = worse, failed = ∞)"
    )


def _cells(row: ComparisonRow) -> list[str]:
    mark = "" if row.speedup.kind == "net_throughput" else "ᵗ"
    ratios = [row.metric(*key) for key in (("ttft_s", "p95"), ("tpot_s", "p95"), ("total_time_s", "p99"))]
    errors = row.metric("error_share", "value")
    alike = "≠" if row.like_for_like is False else ""
    return [
        row.stage,
        row.candidate,
        str(row.blocks),
        _times(row.speedup.value) + mark,
        number(row.e_decode.value),
        number(row.c.value) + alike,
        number(row.speedup_decode.value),
        _whole_percent(row.acceptance_rate.value),
        share_range(row.rollback_rate),
        *(DASH if m is None else _marked(m.ratio) for m in ratios),
        DASH if errors is None else percent(errors.candidate.value),
    ]


def _whole_percent(value: float | None) -> str:
    return DASH if value is None else f"{value * 100:.0f}\u00a0%"


def _times(interval: Interval) -> str:
    if endless(interval):
        return INFINITE
    if interval.value is None:
        return DASH
    if interval.low is None or interval.high is None:
        return f"{interval.value:.2f}\u00a0?"
    return f"{interval.value:.2f}\u00a0[{interval.low:.2f},\u00a0{interval.high:.2f}]"


def _marked(ratio: Interval) -> str:
    """Shown to be above or below 1, not shown, or too little data to say; ∞ where the candidate's is among failures."""
    if endless(ratio):
        above = "low" in ratio.infinite or (ratio.low is not None and ratio.low > 1)
        return f"{INFINITE}\u00a0{'▲' if above else '?'}"
    if ratio.value is None:
        return DASH
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.2f}\u00a0?"
    return f"{ratio.value:.2f}\u00a0{'▲' if ratio.low > 1 else '▼' if ratio.high < 1 else '='}"


def notes(rows: Sequence[ComparisonRow]) -> list[str]:
    """What the signs of the table mean, where they are used."""
    found = [
        "E tokens/step; c step time ÷ baseline's; α accepted ÷ drafted; "
        "▲ ▼ above or below 1; = neither shown; ? too few data"
    ]
    if any(r.speedup.kind == "tpot" for r in rows):
        found.append("ᵗ speedup is of time per token: " + next(r.speedup.why for r in rows if r.speedup.kind == "tpot"))
    if any(r.like_for_like is False for r in rows):
        found.append("≠ the servers ran different batches: c holds that difference too")
    size = max(r.family for r in rows)
    if size > 1:
        found.append(f"intervals are 95 % each; colours hold for all {size} rows together (Bonferroni)")
    return found


def findings_lines(summary: Summary, console: Console) -> None:
    findings = summary.findings
    if isinstance(findings, Absent):
        return
    rows = [] if isinstance(summary.comparison, Absent) else whole_stages(summary.comparison)
    most = max(FINDINGS - max(len(rows) - LOADS, 0), LEAST)
    for finding in findings[:most]:
        console.print(Text(f"• {finding.text}", style=_SEVERITY[finding.severity]))
    if len(findings) > most:
        console.print(Text(f"• {len(findings) - most} more findings in summary.json", style="dim"))


def render_comparison(rows: Sequence[ComparisonRow], console: Console) -> None:
    """The table of whole stages with the meaning of its signs."""
    stages = whole_stages(rows)
    if not stages:
        console.print(Text("No stage was measured in both arms: nothing is compared.", style="yellow"))
        return
    console.print(comparison_table(stages))
    for note in notes(stages):
        console.print(Text(note, style="dim"))


def parts_table(rows: Sequence[ComparisonRow]) -> Table | None:
    """By task type and length."""
    parts = [r for r in rows if r not in whole_stages(rows)]
    if not parts:
        return None
    table = _table(
        "By task type and length (speedup: time per token; total: total time; above 1 = faster)",
        ("load", "arm", "task", "input", "output", "cases", "speedup", "total", "α", "rollback"),
        left=5,
    )
    for r in parts:
        labels = [r.stage, r.candidate, r.task_type or "all", r.input_segment or "all", r.output_segment or "all"]
        speeds = (_times(r.speedup.value), _times(r.speedup.total_time), percent(r.acceptance_rate.value))
        table.add_row(*labels, str(r.requests), *speeds, share_range(r.rollback_rate), style=_WORD[r.verdict_word])
    return table


def _number(n: Interval) -> str:
    return INFINITE if endless(n) else number(n.value)


def numbers_table(rows: Sequence[ComparisonRow]) -> Table | None:
    """Every number of the whole stages in both arms, with the interval of its ratio or difference."""
    stages = whole_stages(rows)
    if not stages:
        return None
    head = ("load", "arm", "number", "unit", "baseline", "candidate", "ratio [95 %]", "difference")
    table = _table("Both arms (percentiles of all sent requests: failures count as never)", head, left=4)
    for r in stages:
        for m in r.metrics:
            difference = DASH if m.difference is None else _range(m.difference)
            values = (_number(m.baseline), _number(m.candidate), _times(m.ratio), difference)
            table.add_row(r.stage, r.candidate, f"{m.name} {m.aggregate}", m.unit, *values)
        table.add_section()
    return table


def render_runs_compared(found: RunsCompared, console: Console) -> None:
    """`specload compare`: two runs made apart."""
    kind = "paired by case" if found.paired else "unpaired"
    console.rule(f"[bold]specload compare[/bold] {found.first} → {found.second}")
    console.print(Text(f"{kind}: {found.why}."))
    for note in found.notes:
        console.print(Text(f"! {note}", style="yellow"))
    if found.rows:
        render_comparison(found.rows, console)
    if found.unpaired:
        console.print(_unpaired_table(found.unpaired))
        console.print(Text("shift: Hodges–Lehmann, second − first; larger: share of pairs in which the second is; "
                           "p: Mann–Whitney, adjusted over all rows (Holm)", style="dim"))  # fmt: skip


def _unpaired_table(rows: Sequence[Unpaired]) -> Table:
    head = ("stage", "arm", "number", "windows", "median", "windows", "median", "shift [95 %]", "larger", "p", "")
    table = _table("Second beside first, by the medians of their windows", head, left=3)
    for r in rows:
        p = DASH if r.p_adjusted is None else f"{r.p_adjusted:.2g}"
        table.add_row(
            r.stage, r.arm, f"{r.name} ({r.unit})", str(r.first_n), number(r.first_median), str(r.second_n),
            number(r.second_median), _range(r.shift), percent(r.larger_share.value), p, r.word,
        )  # fmt: skip
    return table


def _range(interval: Interval) -> str:
    if interval.value is None:
        return DASH
    if interval.low is None or interval.high is None:
        return number(interval.value)
    return f"{number(interval.value)} [{number(interval.low)}, {number(interval.high)}]"
