"""The environment diff as a small table: what keeps a verdict from being reached first, the rest in few lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadgen.analyze import Difference
from loadgen.redact import printable
from loadgen.report.format import DASH

_STYLE = {"inconclusive": "bold yellow", "declared": "default", "noted": "dim"}
#: A value longer than this is cut; all of it stands in summary.json.
_WIDTH = 40


def render_environment(differences: Sequence[Difference], console: Console) -> None:
    """Nothing where nothing was captured. What belongs to speculation, and what is not shown, is one line each."""
    shown = [d for d in differences if d.rule != "may_differ" and any(v is not None for v in d.values.values())]
    if shown:
        console.print(_table(shown))
    for title, keys in (
        ("with speculation differ", [d.key for d in differences if d.rule == "may_differ"]),
        ("not shown of any arm", [d.key for d in differences if d not in shown and d.rule != "may_differ"]),
    ):
        if keys:
            console.print(Text(f"  {title}: {', '.join(keys)}", style="dim"))


def _table(differences: Sequence[Difference]) -> Table:
    arms = list(dict.fromkeys(arm for d in differences for arm in d.values))
    table = Table(
        title="Environment: what is not alike", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD,
        pad_edge=False,
    )  # fmt: skip
    for column in ("fact", *arms, "so the verdict", "why"):
        table.add_column(column, overflow="fold")
    for d in differences:
        weight = {"inconclusive": "is inconclusive", "declared": "holds: declared"}.get(d.rule, "holds: noted")
        cells = [d.key, *(_value(d.values.get(arm)) for arm in arms), weight, d.text]
        table.add_row(*(Text(printable(cell), style=_STYLE[d.rule]) for cell in cells))
    return table


def _value(value: Any) -> str:
    if value is None:
        return DASH
    if isinstance(value, float):
        return f"{value:.4g}"
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}…"
