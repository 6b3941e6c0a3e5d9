"""What an experiment found: the state, why, the findings, the tables of its kind. On a terminal and for the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from loadgen.analyze import ExperimentResult
from loadgen.redact import printable
from loadgen.report.access import access_tables
from loadgen.report.anomalies import anomaly_tables
from loadgen.report.drill import drill_figures, drill_tables
from loadgen.report.page import SPACE, Cell, Figure, Row, Table, drawn
from loadgen.report.quality import quality_tables

_STYLES = {"pass": "bold green", "fail": "bold red", "inconclusive": "bold yellow"}
_MARKS = {"good": "green", "info": "dim", "warning": "yellow", "bad": "red"}
_TONES = {"good": "green", "warning": "yellow", "bad": "red", "": ""}

#: The tables of each kind, the same for terminal and page.
TABLES: Mapping[str, Callable[[ExperimentResult], Sequence[Table]]] = {
    "quality": quality_tables,
    "access": access_tables,
    "anomalies": anomaly_tables,
    "drill": drill_tables,
}
#: The figures of each kind, for the page.
FIGURES: Mapping[str, Callable[[ExperimentResult], Sequence[Figure]]] = {"drill": drill_figures}


def experiment_tables(found: ExperimentResult) -> list[Table]:
    """Those with rows."""
    make = TABLES.get(found.kind)
    return [] if make is None else [table for table in make(found) if table.rows]


def experiment_figures(found: ExperimentResult | None) -> list[Figure]:
    """Those of which anything can be drawn."""
    if found is None or found.kind not in FIGURES:
        return []
    kept = ((figure, [p for p in figure.panels if drawn(p)]) for figure in FIGURES[found.kind](found))
    return [replace(figure, panels=panels) for figure, panels in kept if panels]


def render_experiment(found: ExperimentResult, console: Console) -> None:
    console.print(f"{found.kind}: {found.state.upper()}", style=_STYLES[found.state], markup=False)
    for reason in found.reasons:
        console.print(f"  {printable(reason)}", markup=False)
    for table in experiment_tables(found):
        console.print(_rich(table))
        if table.note:
            console.print(printable(table.note), style="dim", markup=False)
    for finding in found.findings:
        console.print(f"• {printable(finding.text)}", style=_MARKS[finding.severity], markup=False)


def _rich(table: Table) -> RichTable:
    rich = RichTable(
        title=Text(printable(table.caption)), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD,
        pad_edge=False,
    )  # fmt: skip
    for i, name in enumerate(table.head):
        rich.add_column(Text(name), justify="left" if i < table.left else "right", overflow="fold")
    for row in table.rows:
        rich.add_row(*(_cell(cell) for cell in row.cells), style=_TONES[row.tone])
    return rich


def _cell(cell: str | Cell) -> Text:
    text = cell if isinstance(cell, str) else cell.text
    return Text(SPACE.join(map(printable, text.split(SPACE))))  # the fixed spaces of our numbers stay


def found_rows(found: ExperimentResult) -> Table:
    """State and reasons, for the page."""
    tone = {"pass": "good", "fail": "bad", "inconclusive": "warning"}[found.state]
    rows = [Row([found.state, reason], tone) for reason in found.reasons or ["nothing against it"]]
    return Table(f"{found.kind}: {found.state}", ("state", "why"), rows, 2)
