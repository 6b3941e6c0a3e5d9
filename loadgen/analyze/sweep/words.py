"""How conditions and intervals stand in the sentences of a sweep."""

from __future__ import annotations

from loadgen.analyze.sweep.models import Where


def at(where: Where) -> str:
    """ " at k 4, temperature 0.7"; empty without other axes."""
    if not where:
        return ""
    parts = (f"{name} {value}" if isinstance(value, str) else f"{name} {value:g}" for name, value in where.items())
    return f" at {', '.join(parts)}"


def limits(low: float | None, high: float | None, digits: int = 3) -> str:
    """ " (95 %: 9 to 16)"; open sides are said."""
    if low is None and high is None:
        return " (no interval)"
    if low is None:
        return f" (95 %: at most {high:.{digits}g})"
    if high is None:
        return f" (95 %: at least {low:.{digits}g})"
    return f" (95 %: {low:.{digits}g} to {high:.{digits}g})"
