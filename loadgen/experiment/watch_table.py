"""What `specload watch` shows: a table in a terminal, a line elsewhere. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from loadgen.experiment.watch import Reading
from loadgen.redact import printable

_COLUMNS = ("acceptance", "tokens/round", "rounds/s", "tokens/s", "running", "waiting")


def readings_table(readings: Sequence[Reading]) -> Table:
    table = Table(caption=_caption(readings), caption_justify="left")
    table.add_column("server")
    for name in _COLUMNS:
        table.add_column(name, justify="right")
    for reading in readings:
        table.add_row(Text(printable(reading.arm)), *_cells(reading))
    return table


def readings_line(reading: Reading) -> str:
    """One arm in one line, in the same words."""
    cells = zip(_COLUMNS, _cells(reading), strict=True)
    notes = f" ({'; '.join(reading.notes)})" if reading.notes else ""
    return f"{reading.arm} over {reading.seconds:.1f} s: " + ", ".join(f"{name} {text}" for name, text in cells) + notes


def _cells(reading: Reading) -> list[str]:
    return [
        _number(None if reading.acceptance is None else 100 * reading.acceptance, "{:.1f} %"),
        _number(reading.tokens_per_round, "{:.2f}"),
        _number(reading.rounds_per_s, "{:.1f}"),
        _number(reading.tokens_per_s, "{:.1f}"),
        _number(reading.running, "{:.0f}"),
        _number(reading.waiting, "{:.0f}"),
    ]


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


def _caption(readings: Sequence[Reading]) -> Text:
    seconds = max((reading.seconds for reading in readings), default=0.0)
    lines = [f"over the last {seconds:.1f} s, whoever sends the load; Ctrl-C ends"]
    lines += [f"{reading.arm}: {note}" for reading in readings for note in reading.notes]
    return Text(printable("\n".join(lines)))
