"""What a sweep will do: its points in their order, and what they ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadgen.plan import SweepPlan, SweepPoint
from loadgen.report.format import count, seconds


class Visit(Protocol):
    """What is shown of a visit."""

    @property
    def number(self) -> int: ...
    @property
    def point(self) -> SweepPoint: ...
    @property
    def requests(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def state(self) -> str: ...


class Planned(Protocol):
    """What is shown of a sweep."""

    @property
    def plan(self) -> SweepPlan: ...
    @property
    def visits(self) -> Sequence[Visit]: ...
    @property
    def seconds(self) -> float: ...
    @property
    def requests(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...
    @property
    def assumption(self) -> str: ...
    @property
    def searches(self) -> bool: ...
    def within(self, budget_s: float) -> int: ...


def render_sweep_plan(planned: Planned, budget_s: float | None, console: Console, *, short: bool = False) -> None:
    """`short`: without the table of the visits."""
    left = [v for v in planned.visits if v.state != "done"]
    if not short:
        console.print(_table(planned.visits))
    console.print(
        Text(
            f"{len(left)} of {len(planned.visits)} visits to make: about {count(planned.requests)} requests, "
            f"{count(planned.output_tokens)} output tokens, {seconds(planned.seconds)} {planned.assumption}"
        ),
        soft_wrap=True,
    )
    if budget_s is not None:
        n = planned.within(budget_s)
        console.print(Text(f"time budget of {seconds(budget_s)}: {n} of them are likely to fit, in this order"))
    if planned.searches:
        console.print(Text("then the search for the highest rate, which ends when its bracket is closed"))


def _table(visits: Sequence[Visit]) -> Table:
    table = Table(title="Visits", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(("nr", "point", "pass", "state", "requests", "output tokens", "about")):
        table.add_column(column, justify="right" if i > 3 else "left", overflow="fold")
    for v in visits:
        point = f"{v.point.text}{' (baseline)' if v.point.baseline else ''}"
        cells = (count(v.requests), count(v.output_tokens), seconds(v.seconds))
        table.add_row(f"{v.number + 1}", point, f"{v.point.repeat + 1}", v.state, *cells)
    return table
