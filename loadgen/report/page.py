"""What a page is made of: figures, tables and their cells, and how a number of the summary is written there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

from loadgen.analyze import N, Rollback
from loadgen.report.format import DASH, INFINITE, endless, number, percent, ratio, seconds

Unit = Literal["s", "share", "times", "number"]
Kind = Literal["points", "lines", "bars", "stack", "heat"]
_T = TypeVar("_T")
_SHOWN = {"s": seconds, "share": percent, "times": ratio, "number": number}
SPACE = "\u00a0"
WHERE = "all of them stand in summary.json"
IN_SWEEP = "all of them stand in sweep_summary.json"


class Cell(NamedTuple):
    """`why`: what is missing from the text, and why."""

    text: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """`tone`: good, bad, warning or empty; never the only sign of what it says."""

    cells: Sequence[str | Cell]
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """The first `left` columns are labels, the others numbers. `note`: what was left out."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Row]
    left: int = 1
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """A number of the summary with its bounds there. `y` null: only the bounds are known, or nothing."""

    y: float | None
    low: float | None
    high: float | None
    cell: Cell


@dataclass(frozen=True, slots=True)
class Series:
    """One point a category, None where there is nothing. `colour`: place in the page's palette. `dashed`: a model's
    line, not what was measured."""

    name: str
    colour: int
    points: Sequence[Point | None]
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """`reference`: a line at this height. `stack` is drawn as shares of each category's sum. `lines` joins neighbouring
    points. `heat`: a row a series, a field a category, coloured by how far it is from the reference.
    `wide`: logarithmic where the values differ much. `places`: where the categories stand on the axis, else evenly.
    """

    title: str
    axis: str
    categories: Sequence[str]
    series: Sequence[Series]
    unit: Unit
    kind: Kind = "points"
    reference: float | None = None
    wide: bool = False
    places: Sequence[float] | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    id: str
    title: str
    caption: str
    panels: Sequence[Panel]
    note: str | None = None


def shown(value: float | None, unit: Unit) -> str:
    return _SHOWN[unit](value)


def told(n: N | Rollback | None, unit: Unit) -> Cell:
    """The value, its interval where one is claimed, and why anything is missing."""
    if n is None:
        return Cell(DASH, "not measured")
    if endless(n):
        return Cell(INFINITE, n.reason or "")
    if n.value is None and n.low is None and n.high is None:
        return Cell(DASH, n.reason or "not measured")
    text = _with_interval(n.value, n.low, n.high, unit)
    missing = n.value is None or n.low is None or n.high is None
    return Cell(text, (n.reason or "") if missing else "")


def _with_interval(value: float | None, low: float | None, high: float | None, unit: Unit) -> str:
    text = shown(value, unit)
    if (low, high) in ((value, value), (None, None)):
        return text
    return f"{text} [{_bound(low, unit)},{SPACE}{_bound(high, unit)}]"


def _bound(value: float | None, unit: Unit) -> str:
    return shown(value, unit).removesuffix("×")


def point(n: N | Rollback | None, unit: Unit) -> Point | None:
    """None where not even a bound is known; the table says why."""
    if n is None:
        return None
    return Point(n.value, n.low, n.high, told(n, unit))


def ranged(value: float, low: float, high: float, unit: Unit) -> Point:
    """A number with its interval."""
    return Point(value, low, high, Cell(_with_interval(value, low, high, unit)))


def plain(value: float | None, unit: Unit, why: str = "") -> Point:
    """A number that claims no interval."""
    return Point(value, None, None, Cell(shown(value, unit), why if value is None else ""))


def bounded(items: Sequence[_T], most: int, what: str, where: str = WHERE) -> tuple[Sequence[_T], str | None]:
    """The first `most`, and a sentence about the others."""
    if len(items) <= most:
        return items, None
    return items[:most], f"The first {most} of {len(items)} {what} are shown; {where}."


def joined(sentences: Iterable[str | None]) -> str | None:
    return " ".join(dict.fromkeys(s for s in sentences if s)) or None


def behind(panel: Panel) -> Table:
    """The numbers of a panel as a table."""
    rows = []
    for i, category in enumerate(panel.categories):
        points = [s.points[i] for s in panel.series]
        rows.append(Row([category, *(Cell(DASH, "not measured") if p is None else p.cell for p in points)]))
    return Table(panel.title, (panel.axis, *(s.name for s in panel.series)), rows)


def drawn(panel: Panel) -> bool:
    """Whether anything of it can be drawn."""
    return any(p is not None and (p.y, p.low, p.high) != (None, None, None) for s in panel.series for p in s.points)
