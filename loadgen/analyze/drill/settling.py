"""When latency is back at a level, and stays there (docs/drill.md, "Back at baseline")."""

from __future__ import annotations

from math import comb
from typing import Literal

import numpy as np

from loadgen.analyze.columns import Floats, Ints
from loadgen.analyze.drill.lateness import ALIKE, lateness
from loadgen.analyze.found.drill import Late, Settled
from loadgen.analyze.soak.evidence import correlation, inflation_of, ranks
from loadgen.analyze.statistics import mann_whitney
from loadgen.analyze.summary import N

Metric = Literal["ttft_s", "tpot_s"]
SOURCE = "client"
#: The reference is the last such share of the time after the pull.
REFERENCE_SHARE = 0.5
#: With this chance all windows of a steady load lie inside; below the second, nothing can be said.
COVERED, LEAST_COVERED = 0.99, 0.75
#: The halves of a reference that is steady do not differ by more, unless by chance of this size.
UNSTEADY_SHARE, UNSTEADY_P = 0.10, 0.001


def settled(
    metric: Metric, sent_ns: Ints, values: Floats, span_ns: tuple[int, int], window: int, limit_s: float | None = None
) -> Settled:
    """`sent_ns`, ascending, and `values` (s): answered requests sent within `span_ns`, from the pull to the next."""
    known = ~np.isnan(values)
    sent, found = sent_ns[known], values[known]
    pull_ns, until_ns = span_ns
    begin_ns = until_ns - round((until_ns - pull_ns) * REFERENCE_SHARE)
    reference = found[sent >= begin_ns]
    n = len(reference)
    median = float(np.median(reference)) if n else None
    few = f"not enough data: {n} requests in the second half after the pull, at least {2 * window} are needed"
    why = few if n < 2 * window else _unsteady(reference)
    if why is not None:
        return _not(metric, why, median, n)
    late = None if limit_s is None else lateness(sent, found, pull_ns, limit_s, begin_ns)
    medians = _rolling(found, window)
    low, high, covered = _band(reference, window, len(medians))
    if covered < LEAST_COVERED:
        why = f"not enough data: {n} requests in the second half tell too little of windows of {window} requests"
        return _not(metric, why, median, n, late)
    first = _first_to_stay(medians, low, high)
    if sent[first] >= begin_ns:
        at = _absent("latency was not yet at the level of the second half when that began", n)
    else:
        at_s, by_s = (float(sent[i] - pull_ns) / 1e9 for i in (first, first + window - 1))
        value, sure = (
            at_s if first else 0.0,
            None if covered >= COVERED else f"a band that covers at least {covered:.0%}",
        )
        at = N(value=value, low=value, high=by_s, n=len(found), source=SOURCE, reason=sure)
    return Settled(metric=metric, at_s=at, low=low, high=high, median=median, n=n, late=late)


def _not(metric: Metric, why: str, median: float | None, n: int, late: Late | None = None) -> Settled:
    return Settled(metric=metric, at_s=_absent(why, n), low=None, high=None, median=median, n=n, late=late)


def _absent(why: str, n: int) -> N:
    return N(value=None, n=n, source=SOURCE, reason=why)


def _rolling(values: Floats, window: int) -> Floats:
    """Medians of every `window` values in a row."""
    found: Floats = np.median(np.lib.stride_tricks.sliding_window_view(values, window), axis=1)
    return found


def _band(reference: Floats, window: int, windows: int) -> tuple[float, float, float]:
    """Where the medians of `windows` windows at the reference's level lie, and with which chance all of them do, at
    least: prediction intervals from the order statistics of the reference, exact whatever the distribution, at 99 %
    for all windows together (Bonferroni) or the widest there is. What differs from the median by no more than 5 %,
    and the reference's own windows, are inside in any case."""
    ordered, middle, own = np.sort(reference), float(np.median(reference)), _rolling(reference, window)
    n, place = len(ordered), 1
    while place < n // 2 and 2 * windows * median_below(place + 1, n, window) <= 1 - COVERED:
        place += 1
    low, high = float(ordered[place - 1]), float(ordered[n - place])
    covered = max(1 - 2 * windows * median_below(place, n, window), 0.0)
    return (
        min(low, float(own.min()), middle * (1 - ALIKE)),
        max(high, float(own.max()), middle * (1 + ALIKE)),
        covered,
    )


def median_below(place: int, n: int, window: int) -> float:
    """Chance that the (lower) median of `window` further values lies below the `place`-th smallest of `n`, where all
    come from one distribution: at least half of them fall below it, negative hypergeometric."""
    least = (window + 1) // 2
    ways = sum(comb(place - 1 + j, j) * comb(n - place + window - j, window - j) for j in range(least, window + 1))
    return ways / comb(n + window, window)


def _first_to_stay(medians: Floats, low: float, high: float) -> int:
    """The first window from which all are inside. The last ones are, being the reference's own."""
    outside = np.flatnonzero((medians < low) | (medians > high))
    return int(outside[-1]) + 1 if len(outside) else 0


def _unsteady(reference: Floats) -> str | None:
    """Whether the reference itself is still on its way: a queue that grows has no level to come back to."""
    first, second = np.array_split(reference, 2)
    was, now = float(np.median(first)), float(np.median(second))
    if abs(now - was) <= UNSTEADY_SHARE * was:
        return None
    p = mann_whitney(second, first, inflated=_inflation(reference)).p
    if p is None or p >= UNSTEADY_P:
        return None
    return (
        f"no level to come back to: the median still went from {was:.4g} s to {now:.4g} s in the second half after the "
        f"pull (p = {p:.1g})"
    )


def _inflation(reference: Floats) -> float:
    """By how much neighbours that are alike inflate the variance, around a straight change: a queue that grows is no
    correlation."""
    ranked = ranks(reference[None, :])
    at = np.arange(len(reference)) - (len(reference) - 1) / 2
    left = ranked - (ranked @ at / (at @ at))[:, None] * at
    return float(inflation_of(correlation(left, fitted=0))[0])
