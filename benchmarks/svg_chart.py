"""A line chart as SVG, without a plotting library: a few curves over a logarithmic x axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 50, 50
COLOURS = ("#1f6feb", "#d1642e", "#3a7d44")


def write_chart(
    path: Path,
    title: str,
    x_name: str,
    y_name: str,
    x: Sequence[float],
    curves: Mapping[str, Sequence[float]],
    *,
    level: float | None = None,
) -> None:
    """Draw `curves` over `x` (> 0, log2). `level`: a dashed horizontal line."""
    top = math.ceil(max(max(ys) for ys in curves.values()) * 2) / 2
    spread = math.log2(x[-1]) - math.log2(x[0])

    def at(a: float, b: float) -> tuple[float, float]:
        share = (math.log2(a) - math.log2(x[0])) / spread
        return LEFT + share * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - b / top * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="22" font-size="15" font-weight="bold">{title}</text>',
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 12}" text-anchor="middle">{x_name}</text>',
        f'<text x="16" y="{HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 16 {HEIGHT / 2})">{y_name}</text>',
    ]
    for step in range(round(top * 2) + 1):
        _, y = at(x[0], step / 2)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{step / 2:g}</text>')
    for value in x:
        px, py = at(value, 0)
        parts.append(f'<text x="{px:.1f}" y="{py + 18:.1f}" text-anchor="middle">{value:g}</text>')
    if level is not None:
        _, y = at(x[0], level)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#555555" '
            'stroke-dasharray="5 4"/>'
        )
    for n, (name, ys) in enumerate(curves.items()):
        points = [at(a, b) for a, b in zip(x, ys, strict=True)]
        line = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        colour = COLOURS[n % len(COLOURS)]
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{colour}"/>' for px, py in points]
        parts.append(f'<text x="{LEFT + 10 + 240 * n}" y="42" fill="{colour}">● {name}</text>')
    path.write_text("\n".join([*parts, "</svg>"]) + "\n")
