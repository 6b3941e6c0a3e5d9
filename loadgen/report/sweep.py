"""The terminal report of a sweep: what follows, the curves, the visits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadgen.analyze import SWEEP_METRICS, AdviceResult, Curve, Interval, PointResult, SweepSummary
from loadgen.redact import printable
from loadgen.report.format import DASH, number, percent, ratio, seconds, significant, sparkline

#: Metrics with a line of their own, in this order; all others are in sweep_summary.json.
SHOWN: Mapping[str, str] = {
    "net_tokens_per_s": "net tokens/s",
    "speedup": "speedup",
    "ttft_s_p95": "TTFT P95",
    "tpot_s_p95": "TPOT P95",
    "total_time_s_p50": "total time P50",
    "acceptance_rate": "acceptance",
    "e_decode": "tokens/step",
    "kv_usage": "KV cache used",
}
_SHARES = ("acceptance_rate", "kv_usage")
#: Curves of one axis that are printed; a grid has many.
CURVES = 24
#: Sentences that are printed: a grid has one of a kind for every setting of the other axes.
FINDINGS = 20
_COLORS = {"good": "green", "info": "", "warning": "yellow", "bad": "red"}
_STATES = {"failed": "red", "skipped": "yellow", "interrupted": "yellow"}


def render_sweep_terminal(summary: SweepSummary, console: Console) -> None:
    """Print `summary` to `console`. Everything printed stands in sweep_summary.json."""
    console.rule(f"[bold]specload sweep[/bold] {summary.sweep_id}")
    _head(summary, console)
    for finding in summary.findings[:FINDINGS]:
        console.print(Text(f"• {printable(finding.text)}", style=_COLORS[finding.severity]), soft_wrap=True)
    if len(summary.findings) > FINDINGS:
        more = len(summary.findings) - FINDINGS
        console.print(Text(f"{more} more findings in sweep_summary.json", style="dim"))
    for axis in summary.axes:
        if table := _curves(axis, [c for c in summary.curves if c.axis == axis]):
            console.print(table)
    for advice in summary.advice:
        console.print(_advice(advice))
    console.print(_visits(summary.points))
    for name, reason in summary.reasons.items():
        console.print(Text(f"{name}: {printable(reason)}", style="dim"), soft_wrap=True)


def _head(summary: SweepSummary, console: Console) -> None:
    states = ", ".join(f"{n} {word}" for word, n in summary.totals.items())
    axes = " · ".join(f"{name} {', '.join(_value(v) for v in values)}" for name, values in summary.axes.items())
    console.print(Text(f"{len(summary.points)} visits: {states}; {seconds(summary.seconds)} in all"))
    base = ", ".join(f"{name} {_value(value)}" for name, value in summary.baseline.items())
    console.print(Text(f"axes: {printable(axes)}; baseline point: {printable(base)}"), soft_wrap=True)


def _curves(axis: str, curves: list[Curve]) -> Table | None:
    shown = [c for name in SHOWN for c in curves if c.metric == name]
    if not shown:
        return None
    levels = [_value(p.level) for p in shown[0].points]
    hidden = len(shown) - CURVES
    title = f"Along {axis}" + (f" ({hidden} more in sweep_summary.json)" if hidden > 0 else "")
    table = _table(title, ("number", "arm", "at", "", *levels), left=4)
    for curve in shown[:CURVES]:
        where = ", ".join(f"{name} {_value(value)}" for name, value in curve.where.items()) or DASH
        values = [p.value.value for p in curve.points]
        cells = [_number(curve.metric, p.value) for p in curve.points]
        table.add_row(SHOWN[curve.metric], curve.arm, where, sparkline(values), *cells)
    return table


def _advice(advice: AdviceResult) -> Table:
    where = ", ".join(f"{name} {_value(value)}" for name, value in advice.where.items())
    title = f"Advice from k = {advice.k_max}" + (f" at {where}" if where else "") + f" ({advice.label})"
    table = _table(title, ("k", "E predicted", "E measured", "c", "speedup predicted", "speedup measured", "agrees"))
    for at in advice.at:
        agrees = DASH if at.agrees is None else "yes" if at.agrees else "no"
        table.add_row(
            f"{at.k}", _between(at.e), _between(at.measured_e), _between(at.c), _between(at.speedup),
            _between(at.measured_speedup), agrees,
        )  # fmt: skip
    return table


def _visits(points: Iterable[PointResult]) -> Table:
    table = _table(
        "Visits, in the order they were made", ("nr", "point", "pass", "state", "took", "net tok/s", "speedup")
    )
    for p in points:
        net = p.numbers.get("net_tokens_per_s", {}).get(p.arm)
        point = ", ".join(f"{name} {_value(value)}" for name, value in p.values.items())
        state = Text(
            p.state if p.validity in (None, "valid") else f"{p.state}, {p.validity}", style=_STATES.get(p.state, "")
        )
        if p.reason:
            state.append(f": {printable(p.reason.splitlines()[0])[:100]}")
        table.add_row(
            f"{p.number + 1}", f"{point}{' (baseline)' if p.baseline else ''}", f"{p.repeat + 1}", state,
            seconds(p.took_s), number(None if net is None else net.value),
            ratio(None if p.speedup is None else p.speedup.value),
        )  # fmt: skip
    return table


def _table(title: str, columns: Iterable[str], left: int = 2) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i < left else "right", overflow="fold")
    return table


def _number(metric: str, found: Interval) -> str:
    if metric == "speedup":
        return _between(found, 2)
    if metric in _SHARES:
        return percent(found.value)
    unit = SWEEP_METRICS[metric].unit if metric in SWEEP_METRICS else "1"
    return seconds(found.value) if unit == "s" else number(found.value)


def _between(found: Interval | None, digits: int = 3) -> str:
    if found is None or found.value is None:
        return DASH
    text = significant(found.value, digits + 1)
    if found.low is None or found.high is None:
        return text
    return f"{text} [{significant(found.low, digits)}–{significant(found.high, digits)}]"


def _value(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"
