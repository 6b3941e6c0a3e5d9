"""The section "Stability" of a soak, for the terminal and the page. Nothing is computed."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.table import Table as RichTable

from loadgen.analyze import Absent, SeriesTrend, Stability, Summary
from loadgen.report.format import DASH, count, number, percent, seconds, significant, sparkline
from loadgen.report.page import SPACE, Cell, Row, Table
from loadgen.report.resources import size

#: Characters of a course; tables of one page
WIDTH, TABLES = 40, 12
HEAD = ("number", "course", "mean", "per hour", "p", "drift")
#: What `p` of a drift is below
_LEAST = 1e-3
_STATES = {"steady": "steady", "drifting": "drifting", "too_short": "too short to tell"}


def _known(summary: Summary) -> list[Stability]:
    return [] if isinstance(summary.stability, Absent) else summary.stability


def _caption(one: Stability) -> str:
    failed = percent(one.failure_rate.value)
    return (
        f"Stability of {one.arm} in {one.stage}: {_STATES[one.state]} ({seconds(one.seconds)} in {one.windows} "
        f"windows; failure rate {failed}, jitter {number(one.jitter.value)}, between minutes "
        f"{percent(one.jitter_between_minutes.value)})"
    )


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return DASH
    if unit == "share":
        return percent(value)
    return {"s": seconds, "bytes": size}.get(unit, number)(value)


def _signed(value: float | None, unit: str) -> str:
    return DASH if value is None else f"{'+' if value > 0 else '−' if value < 0 else ''}{_value(abs(value), unit)}"


def _course(series: SeriesTrend) -> str:
    """Means of neighbouring windows, so that it fits."""
    together = -(-len(series.values) // WIDTH) or 1
    parts = [series.values[i : i + together] for i in range(0, len(series.values), together)]
    return sparkline([sum(part) / len(part) for part in parts])


def _p(series: SeriesTrend) -> str:
    if series.p is None:
        return DASH
    return f"<{SPACE}{_LEAST:g}" if series.p < _LEAST else significant(series.p, 2)


def _drift(series: SeriesTrend) -> str:
    found = series.drift
    if found is None:
        return "none shown" if series.p is not None else series.reason or "not judged"
    weight = "" if found.matters else " (too small to matter)"
    return f"{found.text}{weight}"


def terminal_tables(summary: Summary) -> Iterator[RichTable]:
    """One for each arm and stage of a soak."""
    for one in _known(summary):
        table = RichTable(
            title=_caption(one), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
        )
        for i, name in enumerate(HEAD):
            table.add_column(name, justify="right" if 2 <= i <= 4 else "left", overflow="fold", no_wrap=i == 0)
        for series in one.series:
            slope = _signed(series.slope_per_h.value, series.unit)
            table.add_row(
                series.name, _course(series), _value(series.mean, series.unit), slope, _p(series), _drift(series)
            )
        yield table


def sentences(summary: Summary) -> list[str]:
    """Every drift that matters, those for the worse first."""
    found = [
        (series.drift.worse is not True, f"{one.arm}, {one.stage}: {series.drift.text}")
        for one in _known(summary)
        for series in one.series
        if series.drift is not None and series.drift.matters
    ]
    return [text for _, text in sorted(found, key=lambda pair: pair[0])]


def page_tables(summary: Summary) -> list[Table]:
    """The same for the page."""
    return [_table(one) for one in _known(summary)[:TABLES]]


def _table(one: Stability) -> Table:
    rows = []
    for series in one.series:
        slope = series.slope_per_h
        why = slope.reason or ""
        if slope.low is not None and slope.high is not None:
            why = f"95 %: {_signed(slope.low, series.unit)} to {_signed(slope.high, series.unit)}"
        found = series.drift
        tone = "" if found is None or not found.matters else "bad" if found.worse else "warning"
        cells: list[str | Cell] = [
            series.name, _drift(series), _course(series), Cell(_value(series.mean, series.unit), series.reason or ""),
            Cell(_signed(slope.value, series.unit), why), _p(series), count(series.n),
        ]  # fmt: skip
        rows.append(Row(cells, tone))
    return Table(_caption(one), ("number", "drift", "course", "mean", "per hour", "p", "windows"), rows, 3)
