"""Whether latency was still above its level after a limit, where neighbours are alike (docs/drill.md, "Late").

The largest one-sided CUSUM of ranks over all ends of a stretch that begins at the limit, over a standard error that
counts correlated units as fewer. As in soaks it is compared with its own distribution on steady first-order
autoregressive series of the same lengths, and the largest p counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from loadgen.analyze.columns import Floats, Ints
from loadgen.analyze.found.drill import DrillPull, Late
from loadgen.analyze.soak.evidence import autoregressive, correlation, inflation_of, ranks
from loadgen.analyze.statistics import holm

#: Chance that any test of a drill calls a healthy switch late; 1 % is promised, a fifth of it is used, so that some
#: hundreds of drills can show the promise.
FAMILY_LEVEL = 0.002
#: Correlations from unit to unit that no alarm may come from; where what is left is above the last, nothing is proven.
CORRELATIONS = (0.0, 0.3, 0.6, 0.8)
#: Levels so near to each other are one, as in a warm-up.
ALIKE = 0.05
#: Units of a series at most: more requests are taken together, by their medians.
MOST_UNITS = 120
#: The shortest stretch that can be late, in units.
FEWEST = 4
#: Steady series behind each p, and their seed. Where the first of them give more than `PLAIN_P`, that is enough.
STEADY_SERIES, FIRST_SERIES, PLAIN_P, _SEED, _AT_ONCE = 20_000, 1_000, 0.05, 43, 4_000
#: Residual variance of ranks below this, per squared length, is none.
_NOTHING = 1e-12


class Stretches(NamedTuple):
    """Of each series, (m,): the statistic, the units of the stretch that gave it, the correlation of what it leaves."""

    value: Floats
    units: Ints
    phi: Floats


def lateness(sent_ns: Ints, values: Floats, pull_ns: int, limit_s: float, begin_ns: int) -> Late:
    """`sent_ns`, ascending, and `values` of all requests after the pull. Those from `begin_ns` on are the level."""
    after_ns = pull_ns + round(limit_s * 1e9)
    early = values[(sent_ns >= after_ns) & (sent_ns < begin_ns)]
    level = values[sent_ns >= begin_ns]
    size = max(-(-(len(early) + len(level)) // MOST_UNITS), 1)
    units = _medians(early, size) / (1 + ALIKE), _medians(level, size)
    if len(units[0]) < FEWEST:
        why = f"{len(early)} requests were sent between {limit_s:g} s and the second half, {FEWEST * size} are needed"
        return Late(after_s=limit_s, median=None, n=len(early), p=None, reason=why)
    ranked, first = ranks(np.concatenate(units)[None, :]), len(units[0])
    found = stretches(ranked, first)
    n = int(found.units[0]) * size
    known = {"after_s": limit_s, "median": float(np.median(early[:n])), "n": n}
    if found.phi[0] > CORRELATIONS[-1]:
        most = f"nothing is tested above {CORRELATIONS[-1]:g}"
        why = f"requests follow each other at a correlation of {found.phi[0]:.2f}: {most}"
        return Late(**known, p=None, reason=why)
    return Late(**known, p=p_of(float(found.value[0]), first, ranked.shape[1]), reason=None)


def adjusted(pulls: Sequence[DrillPull]) -> list[DrillPull]:
    """With the p of all tests of the drill corrected together (Holm 1979)."""
    tests = [one.late.p for pull in pulls for one in pull.settled if one.late is not None and one.late.p is not None]
    corrected = iter(holm(np.asarray(tests)).tolist())

    def of(late: Late | None) -> Late | None:
        return late if late is None or late.p is None else late.model_copy(update={"p": next(corrected)})

    return [
        pull.model_copy(update={"settled": [one.model_copy(update={"late": of(one.late)}) for one in pull.settled]})
        for pull in pulls
    ]


def proven(late: Late | None) -> bool:
    return late is not None and late.p is not None and late.p <= FAMILY_LEVEL


def stretches(ranked: Floats, first: int) -> Stretches:
    """(m, n) centred ranks, of which the first `first` are to be at the level of the others, and are not below it."""
    n = ranked.shape[1]
    places = np.arange(FEWEST, first + 1)
    sums = np.cumsum(ranked[:, :first], axis=1)[:, places - 1]
    weighted = sums / np.sqrt(places * (n - places) / n)
    best = weighted.argmax(axis=1)
    rows, units = np.arange(len(ranked)), places[best]
    total = sums[rows, best]
    inside = np.arange(n) < units[:, None]
    left = ranked - np.where(inside, (total / units)[:, None], (-total / (n - units))[:, None])
    phi = correlation(left)
    variance = np.maximum((left * left).sum(axis=1) / (n - 2), _NOTHING * n * n)
    return Stretches(weighted[rows, best] / np.sqrt(variance * inflation_of(phi)), units, phi)


def p_of(value: float, first: int, n: int) -> float:
    """One-sided, the largest over the correlations that may be there; 1 / 20,001 at the least."""
    plain = _largest(value, first, n, FIRST_SERIES)
    return plain if plain > PLAIN_P else _largest(value, first, n, STEADY_SERIES)


def _largest(value: float, first: int, n: int, series: int) -> float:
    return max(_beyond(value, steady(first, n, phi, series)) for phi in CORRELATIONS)


def _beyond(value: float, steady_values: Floats) -> float:
    """Share of steady series at least as extreme, the observed one among them."""
    less = int(np.searchsorted(steady_values, value - 1e-12 * abs(value)))
    return (1 + len(steady_values) - less) / (len(steady_values) + 1)


@lru_cache(maxsize=64)
def steady(first: int, n: int, phi: float, series: int = STEADY_SERIES) -> Floats:
    """Ascending statistics of steady series; ranks make any increasing transformation of them the same."""
    chance = np.random.default_rng([_SEED, first, n, round(1000 * phi)])
    size = min(series, _AT_ONCE)
    parts = [stretches(ranks(autoregressive(size, n, phi, chance)), first).value for _ in range(series // size)]
    return np.sort(np.concatenate(parts))


def _medians(values: Floats, size: int) -> Floats:
    """Of every `size` values in a row; what is left over at the end is not used."""
    return np.asarray(np.median(values[: len(values) // size * size].reshape(-1, size), axis=1))
