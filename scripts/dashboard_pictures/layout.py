"""Grafana's grid: 24 columns, 30 px a row, 8 px between panels. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

COLUMNS, ROW_PX, GAP_PX = 24, 30, 8


@dataclass(frozen=True)
class Box:
    """Where a panel is, in px from the top left of the grid."""

    left: int
    top: int
    width: int
    height: int


def box(position: Mapping[str, int], grid_px: int) -> Box:
    """Of a gridPos. Columns share the width; the gap is inside a panel's share."""
    column = (grid_px + GAP_PX) / COLUMNS
    left, right = (round(edge * column) for edge in (position["x"], position["x"] + position["w"]))
    pitch = ROW_PX + GAP_PX
    return Box(left, position["y"] * pitch, right - left - GAP_PX, position["h"] * pitch - GAP_PX)


def grid_height(boxes: Sequence[Box]) -> int:
    return max((each.top + each.height for each in boxes), default=0)


def overlaps(boxes: Sequence[Box]) -> list[tuple[int, int]]:
    """Pairs of indices of panels that lie on one another."""
    return [
        (i, j)
        for i, a in enumerate(boxes)
        for j, b in enumerate(boxes[i + 1 :], i + 1)
        if a.left < b.left + b.width
        and b.left < a.left + a.width
        and a.top < b.top + b.height
        and b.top < a.top + a.height
    ]
