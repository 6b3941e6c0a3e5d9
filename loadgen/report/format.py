"""Numbers as people read them: three significant digits, units, absence as a dash. No rounding in data."""

from __future__ import annotations

from collections.abc import Sequence

from loadgen.analyze import Interval, N, Rollback

DASH, INFINITE = "–", "∞"
_BARS = "▁▂▃▄▅▆▇█"


def significant(value: float, digits: int = 3) -> str:
    """`digits` significant digits without exponent for the sizes met here."""
    if value == 0:
        return "0"
    magnitude = abs(value)
    if magnitude >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    decimals = digits - 1
    while magnitude < 1 and decimals < 9:
        magnitude *= 10
        decimals += 1
    if magnitude >= 10 and decimals > 0:
        decimals -= len(str(int(magnitude))) - 1
    return f"{value:.{max(decimals, 0)}f}"


def seconds(value: float | None) -> str:
    if value is None:
        return DASH
    if abs(value) < 1e-3:
        return f"{significant(value * 1e6)}\u00a0µs"
    if abs(value) < 1:
        return f"{significant(value * 1e3)}\u00a0ms"
    if abs(value) < 120:
        return f"{significant(value)}\u00a0s"
    return f"{significant(value / 60)}\u00a0min"


def percent(value: float | None) -> str:
    return DASH if value is None else f"{value * 100:.1f}\u00a0%"


def number(value: float | None) -> str:
    return DASH if value is None else significant(value)


def count(value: float | None) -> str:
    return DASH if value is None else f"{value:,.0f}"


def ratio(value: float | None) -> str:
    return DASH if value is None else f"{value:.2f}×"


def share_range(r: Rollback) -> str:
    """A rate, or the interval it is known to lie in."""
    if r.value is not None and r.exact:
        return percent(r.value)
    if r.low is None or r.high is None:
        return DASH
    return f"{r.low * 100:.1f}–{r.high * 100:.1f}\u00a0%"


def with_n(text: str, n: N | Rollback) -> str:
    return text if text == DASH else f"{text}\u00a0[dim]n={n.n:,}[/dim]"


def endless(n: N | Rollback) -> bool:
    """Its value is +∞: it falls among failed requests."""
    return isinstance(n, Interval) and "value" in n.infinite


def sparkline(values: Sequence[float | None], *, low: float | None = None, high: float | None = None) -> str:
    """One character a value, from `low` to `high` (default: the data's range); absent values are spaces."""
    present = [v for v in values if v is not None]
    if not present:
        return ""
    bottom = min(present) if low is None else low
    top = max(present) if high is None else high
    span = top - bottom
    out = []
    for value in values:
        if value is None:
            out.append(" ")
            continue
        level = 0 if span <= 0 else round((value - bottom) / span * (len(_BARS) - 1))
        out.append(_BARS[min(max(level, 0), len(_BARS) - 1)])
    return "".join(out)
