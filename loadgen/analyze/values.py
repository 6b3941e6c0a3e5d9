"""Small makers of `N`: a number with its sample size and source, or null with a reason."""

from __future__ import annotations

from loadgen.analyze.summary import N

PER_REQUEST = "per_request"
CHUNK = "chunk"
COUNTERS = "counters"
CLIENT = "client"
NONE = "none"


def exact(value: float, n: int, source: str, note: str | None = None) -> N:
    """A number without an interval: low = high = value."""
    return N(value=float(value), low=float(value), high=float(value), n=n, source=source, reason=note)


def absent(reason: str, n: int = 0, source: str = NONE) -> N:
    return N(value=None, n=n, source=source, reason=reason)


def at_least(low: float, reason: str, n: int, source: str) -> N:
    """Only a lower bound is known."""
    return N(value=None, low=float(low), high=None, n=n, source=source, reason=reason)


def ratio(
    part: float, whole: float, source: str, when_zero: str, *, n: int | None = None, note: str | None = None
) -> N:
    """part / whole; null where whole is 0. `n` counts what is in the denominator unless given."""
    count = int(whole) if n is None else n
    if whole <= 0:
        return absent(when_zero, count, source)
    return exact(part / whole, count, source, note)
