"""When latency is back at a level, and stays there (docs/drill.md, "Back at baseline")."""

from __future__ import annotations

from typing import Literal

import numpy as np

from loadgen.analyze.columns import Floats, Ints
from loadgen.analyze.found.drill import Settled
from loadgen.analyze.statistics import mann_whitney
from loadgen.analyze.summary import N

Metric = Literal["ttft_s", "tpot_s"]
SOURCE = "client"
#: The reference is the last such share of the time after the pull.
REFERENCE_SHARE = 0.5
#: Of the medians of windows drawn from the reference, so many lie inside.
COVERED = 0.99
RESAMPLES = 2_000
#: Levels so near to each other are one, as in a warm-up.
ALIKE = 0.05
#: The halves of a reference that is steady do not differ by more, unless by chance of this size.
UNSTEADY_SHARE, UNSTEADY_P = 0.10, 0.001


def settled(metric: Metric, sent_ns: Ints, values: Floats, pull_ns: int, until_ns: int, window: int) -> Settled:
    """`sent_ns`, ascending, and `values` (s): answered requests sent from `pull_ns` to `until_ns`."""
    known = ~np.isnan(values)
    sent, found = sent_ns[known], values[known]
    begin_ns = until_ns - round((until_ns - pull_ns) * REFERENCE_SHARE)
    reference = found[sent >= begin_ns]
    n = len(reference)
    median = float(np.median(reference)) if n else None
    if n < 2 * window:
        why = f"not enough data: {n} requests in the second half after the pull, at least {2 * window} are needed"
        return _not(metric, why, median, n)
    unsteady = _unsteady(reference)
    if unsteady is not None:
        return _not(metric, unsteady, median, n)
    medians = _rolling(found, window)
    low, high = _interval(reference, window)
    first = _first_to_stay(medians, low, high)
    if sent[first] >= begin_ns:
        why = "latency was not yet at the level of the second half when that began"
        return Settled(metric=metric, at_s=_absent(why, n), low=low, high=high, median=median, n=n)
    at_s, by_s = (float(sent[i] - pull_ns) / 1e9 for i in (first, first + window - 1))
    at = N(value=at_s if first else 0.0, low=at_s if first else 0.0, high=by_s, n=len(found), source=SOURCE)
    return Settled(metric=metric, at_s=at, low=low, high=high, median=median, n=n)


def _not(metric: Metric, why: str, median: float | None, n: int) -> Settled:
    return Settled(metric=metric, at_s=_absent(why, n), low=None, high=None, median=median, n=n)


def _absent(why: str, n: int) -> N:
    return N(value=None, n=n, source=SOURCE, reason=why)


def _rolling(values: Floats, window: int) -> Floats:
    """Medians of every `window` values in a row."""
    found: Floats = np.median(np.lib.stride_tricks.sliding_window_view(values, window), axis=1)
    return found


def _interval(reference: Floats, window: int) -> tuple[float, float]:
    """Where medians of windows lie at this level: those of the reference itself, 99 % of those drawn from it, and what
    differs from its median by no more than 5 %."""
    own = _rolling(reference, window)
    drawn = np.random.default_rng(len(reference)).choice(reference, (RESAMPLES, window))
    low, high = np.quantile(np.median(drawn, axis=1), [(1 - COVERED) / 2, (1 + COVERED) / 2])
    middle = float(np.median(reference))
    return (
        float(min(own.min(), low, middle * (1 - ALIKE))),
        float(max(own.max(), high, middle * (1 + ALIKE))),
    )


def _first_to_stay(medians: Floats, low: float, high: float) -> int:
    """The first window from which all are inside. The last ones are, being the reference's own."""
    outside = np.flatnonzero((medians < low) | (medians > high))
    return int(outside[-1]) + 1 if len(outside) else 0


def _unsteady(reference: Floats) -> str | None:
    """Whether the reference itself is still on its way: a queue that grows has no level to come back to."""
    first, second = np.array_split(reference, 2)
    was, now = float(np.median(first)), float(np.median(second))
    p = mann_whitney(second, first).p
    if p is None or p >= UNSTEADY_P or abs(now - was) <= UNSTEADY_SHARE * was:
        return None
    return (
        f"no level to come back to: the median still went from {was:.4g} s to {now:.4g} s in the second half after the "
        f"pull (p = {p:.1g})"
    )
