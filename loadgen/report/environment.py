"""The environment diff, small: what keeps a verdict from being reached in a table, the rest in a line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadgen.analyze import Difference
from loadgen.redact import printable
from loadgen.report.format import DASH

_VERDICT = {"inconclusive": ("is inconclusive", "bold yellow"), "declared": ("holds: declared", "default")}
#: A value longer than this is cut; all of it stands in summary.json.
_WIDTH = 32
#: Noted differences that are shown with their values.
_NOTED = 5


def render_environment(differences: Sequence[Difference], console: Console) -> None:
    """Nothing where the arms are alike. All of it, with the reasons, stands in summary.json (`environment`)."""
    judged = [d for d in differences if d.rule in _VERDICT]
    if judged:
        console.print(_table(judged))
    for line in _lines(differences):
        console.print(Text(f"  {printable(line)}", style="dim"))


def _table(differences: Sequence[Difference]) -> Table:
    arms = list(dict.fromkeys(arm for d in differences for arm in d.values))
    table = Table(
        title="Environment: not alike", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
    )
    table.add_column("fact", no_wrap=True)
    for column in (*arms, "verdict"):
        table.add_column(column, overflow="fold")
    for d in differences:
        weight, style = _VERDICT[d.rule]
        cells = (d.key, *(_value(d.values.get(arm)) for arm in arms), weight)
        table.add_row(*(Text(printable(cell), style=style) for cell in cells))
    return table


def _lines(differences: Sequence[Difference]) -> Iterator[str]:
    noted = [d for d in differences if d.rule == "noted"]
    seen = [d for d in noted if any(value is not None for value in d.values.values())]
    if seen:
        shown = (f"{d.key} {' / '.join(_value(value) for value in d.values.values())}" for d in seen[:_NOTED])
        more = f"; {len(seen) - _NOTED} more in summary.json" if len(seen) > _NOTED else ""
        yield f"noted: {'; '.join(shown)}{more}"
    groups = Counter(d.key.partition(".")[0] for d in differences if d.rule == "may_differ")
    if groups:
        yield f"part of what is compared: {', '.join(f'{group} ({n})' for group, n in groups.items())}"
    unknown = [d.key for d in noted if d not in seen]
    if unknown:
        yield f"not shown of any arm: {', '.join(unknown)}"


def _value(value: Any) -> str:
    if value is None:
        return DASH
    if isinstance(value, float):
        return f"{value:.4g}"
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}…"
