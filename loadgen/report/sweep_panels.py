"""Panels of a sweep's figures: curves along an axis, and how settings are named there. Nothing is computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import log2
from typing import Any

from loadgen.analyze import Curve, SweepSummary
from loadgen.report.page import (
    IN_SWEEP,
    Figure,
    Kind,
    Panel,
    Point,
    Series,
    Unit,
    bounded,
    drawn,
    joined,
    point,
)

#: A figure with more than these is not read any more: categories and series of a panel, panels of a figure
CATEGORIES, SERIES, PANELS = 40, 8, 6
#: Axes whose values grow by factors: their logarithm is drawn where they differ so much
_GROWING = ("concurrency", "rate", "input_len", "output_len")
_FAR = 8
AXES: Mapping[str, str] = {
    "concurrency": "concurrency",
    "rate": "requests/s",
    "input_len": "input length (tokens)",
    "output_len": "output length (tokens)",
    "k": "draft length k",
    "temperature": "temperature",
    "task_type": "task type",
}

#: Name of a series, its place in the palette, its points by category, and whether it is a model's line
Line = tuple[str, int, Mapping[str, Point | None], bool]
Made = tuple[Panel, str | None]


def value_text(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def where_text(where: Mapping[str, Any]) -> str:
    """ "k 4, temperature 0.7"; empty without other axes."""
    return ", ".join(f"{name} {value_text(value)}" for name, value in where.items())


def series_name(arm: str, where: Mapping[str, Any], arms: Sequence[str]) -> str:
    """The arm is left out where there is only one and the setting names the series."""
    setting = where_text(where)
    return setting if setting and len(arms) < 2 else ", ".join(filter(None, (arm, setting)))


def places(axis: str, levels: Sequence[float | str]) -> list[float] | None:
    """Where the levels stand: as numbers, and as their logarithms where an axis that grows by factors spans many."""
    numbers = [float(level) for level in levels if not isinstance(level, str)]
    if len(numbers) < len(levels) or not numbers:
        return None
    if axis in _GROWING and min(numbers) > 0 and max(numbers) / min(numbers) >= _FAR:
        return None if _doubling(numbers) else [log2(number) for number in numbers]
    return numbers


def _doubling(numbers: Sequence[float]) -> bool:
    """Evenly spaced as they are."""
    ratios = [b / a for a, b in pairwise(numbers)]
    return max(ratios) / min(ratios) < 1.01


def panel(
    title: str,
    axis: str,
    categories: Sequence[str],
    lines: Sequence[Line],
    unit: Unit,
    *,
    kind: Kind = "lines",
    reference: float | None = None,
    wide: bool = False,
    at: Sequence[float] | None = None,
) -> Made:
    """Bounded; the sentence says what was left out."""
    shown, fewer = bounded(categories, CATEGORIES, f"places of «{axis}»", IN_SWEEP)
    lines, less = bounded(lines, SERIES, "series", IN_SWEEP)
    series = [Series(name, colour, [points.get(c) for c in shown], dashed) for name, colour, points, dashed in lines]
    stand = None if at is None else list(at[: len(shown)])
    return Panel(title, axis, shown, series, unit, kind, reference, wide, stand), joined((fewer, less))


def figure(id_: str, title: str, caption: str, panels: Sequence[Made], notes: Iterable[str] = ()) -> Figure:
    """Of the panels of which anything can be drawn."""
    kept, fewer = bounded([made for made in panels if drawn(made[0])], PANELS, "panels", IN_SWEEP)
    return Figure(id_, title, caption, [p for p, _ in kept], joined((*(s for _, s in kept), fewer, *notes)))


def curve_panel(
    title: str, curves: Sequence[Curve], unit: Unit, names: Mapping[str, int], summary: SweepSummary
) -> Made:
    """`names`: place in the palette of every series of the figure, the same in all its panels."""
    first = curves[0]
    levels = [at.level for at in first.points]
    lines: list[Line] = []
    for curve in curves:
        name = series_name(curve.arm, curve.where, summary.arms)
        points = {value_text(at.level): point(at.value, unit) for at in curve.points}
        lines.append((name, names[name], points, False))
    lines.sort(key=lambda line: line[1])
    return panel(
        title, AXES[first.axis], [value_text(level) for level in levels], lines, unit,
        reference=1.0 if unit == "times" else None, wide=unit == "s", at=places(first.axis, levels),
    )  # fmt: skip


def palette(curves: Iterable[Curve], summary: SweepSummary) -> dict[str, int]:
    """Series by name, those of the arms that the points are about first."""
    about = {p.arm for p in summary.points}
    ordered = sorted(curves, key=lambda curve: curve.arm not in about)
    names = dict.fromkeys(series_name(c.arm, c.where, summary.arms) for c in ordered)
    return {name: i for i, name in enumerate(names)}


def richest(curves: Sequence[Curve], metrics: Sequence[str]) -> list[Curve]:
    """Curves of the one metric that has most numbers; of equal ones the first."""
    by_metric = {name: [c for c in curves if c.metric == name] for name in metrics}
    known = {name: sum(at.value.value is not None for c in found for at in c.points)
             for name, found in by_metric.items()}  # fmt: skip
    best = max(metrics, key=lambda name: known[name])
    return by_metric[best] if known[best] else []


def why_not(summary: SweepSummary, metrics: Sequence[str]) -> str:
    """The first reason that a visit gives for having none of these numbers; of the baseline point only where no other
    gives one, since it may be meant to have none."""
    for name in metrics:
        for p in sorted(summary.points, key=lambda p: p.baseline):
            for one in p.numbers.get(name, {}).values():
                if one.value is None and one.reason:
                    return one.reason
    return summary.reasons.get("curves", "not measured at any point")
