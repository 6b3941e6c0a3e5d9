"""Two runs made apart as figures and tables of a page; `render_runs_compared` is the same on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from loadgen.analyze import RunsCompared, Unpaired
from loadgen.report.figures import decomposition, measured, speedup, whole_of
from loadgen.report.format import DASH, count
from loadgen.report.html_tables import ROWS, compared
from loadgen.report.page import Cell, Figure, Row, Table, Unit, bounded, joined, shown, told

_TONE = {"not enough data": "warning"}
_UNITS: dict[str, Unit] = {"s": "s", "1": "share"}
_NOTE = (
    "Shift: Hodges–Lehmann, second − first. Larger: share of pairs of windows in which the second is. "
    "p: Mann–Whitney, adjusted over all rows (Holm)."
)


def compared_figures(found: RunsCompared) -> list[Figure]:
    """None where the runs are not paired by case."""
    rows = whole_of(found.rows)
    arms = list(dict.fromkeys(r.candidate for r in rows))
    return measured((speedup(rows, arms), decomposition(rows, arms))) if rows else []


def compared_tables(found: RunsCompared) -> list[Table]:
    """Those that have rows, the most telling first."""
    return [table for table in (*compared(found.rows), _unpaired(found.unpaired)) if table.rows]


def _unpaired(rows: Sequence[Unpaired]) -> Table:
    kept, note = bounded([_row(r) for r in rows], ROWS, "rows")
    head = ("stage", "arm", "number", "shown", "first, median", "windows", "second, median", "windows", "shift",
            "larger", "p")  # fmt: skip
    return Table("Second run beside the first, by the medians of their windows", head, kept, 4, joined((_NOTE, note)))


def _row(r: Unpaired) -> Row:
    unit = _UNITS.get(r.unit, "number")
    name = r.name if r.unit in _UNITS else f"{r.name} ({r.unit})"
    first, second = shown(r.first_median, unit), shown(r.second_median, unit)
    p = DASH if r.p_adjusted is None else f"{r.p_adjusted:.2g}"
    cells: list[str | Cell] = [
        first,
        count(r.first_n),
        second,
        count(r.second_n),
        told(r.shift, unit),
        told(r.larger_share, "share"),
    ]
    return Row([r.stage, r.arm, name, r.word, *cells, p], _TONE.get(r.word, ""))
