"""Exact percentiles: nearest rank over raw samples, pooled, never averaged (docs/method.md, "Percentiles")."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from loadgen.analyze.summary import AllSent, D

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PERCENT: dict[str, int] = {"p50": 50, "p90": 90, "p95": 95, "p99": 99}
#: Samples needed to show a percentile: 1/(1 − p) of them, so that at least one lies at or above it.
#: Claims against a limit need more (docs/method.md, "Percentiles").
SMALLEST_N: dict[str, int] = {"p50": 1, "p90": 10, "p95": 20, "p99": 100}
#: for the slow end of a speed, P5: as for P95
SMALLEST_N_P5 = 20


def rank(n: int, percent: int | Fraction) -> int:
    """1-based nearest rank: ceil(percent × n / 100), in integers, at least 1."""
    return max(int(-(-percent * n // 100)), 1)


def nearest_rank(ordered: Floats, percent: int) -> float:
    """The sample of that rank. `ordered` ascending, not empty."""
    return float(ordered[rank(len(ordered), percent) - 1])


def distribution(
    values: Floats, *, per: str, source: str, reason: str, unit: str = "s", failures: int | None = None
) -> D:
    """`values` without NaN, in any order. `reason` is given where there are none.

    `failures`: requests that count as +∞ in the second view; None = the number has no such view.
    """
    ordered = np.sort(values)
    found = described(Ordered(ordered, None), per=per, source=source, reason=reason, unit=unit)
    return found if failures is None else found.model_copy(update={"all_sent": _all_sent(ordered, failures)})


class Ranked(Protocol):
    """Samples in ascending order, reached by their 1-based rank."""

    @property
    def n(self) -> int: ...

    @property
    def mean(self) -> float: ...

    def sample(self, of_rank: int) -> float: ...


@dataclass(frozen=True)
class Ordered:
    """`values` ascending, each as if it stood there `weight` times (≥ 0; None: once)."""

    values: Floats
    weights: Ints | None

    @cached_property
    def _upto(self) -> Ints | None:
        return None if self.weights is None else np.cumsum(self.weights)

    @property
    def n(self) -> int:
        upto = self._upto
        return len(self.values) if upto is None else int(upto[-1]) if len(upto) else 0

    @property
    def mean(self) -> float:
        return float(self.values.mean() if self.weights is None else np.dot(self.values, self.weights) / self.n)

    def sample(self, of_rank: int) -> float:
        upto = self._upto
        return float(self.values[of_rank - 1 if upto is None else np.searchsorted(upto, of_rank)])


def described(ranked: Ranked, *, per: str, source: str, reason: str, unit: str = "s") -> D:
    """The distribution of ranked samples; `reason` is given where there are none."""
    n = ranked.n
    if n == 0:
        return D(n=0, unit=unit, per=per, source=source, reason=reason)
    found = {name: ranked.sample(rank(n, p)) for name, p in PERCENT.items() if n >= SMALLEST_N[name]}
    return D(
        n=n, unit=unit, per=per, source=source, mean=ranked.mean, max=ranked.sample(n), reasons=_too_few(n), **found
    )


def _too_few(n: int) -> dict[str, str]:
    return {name: f"needs at least {least} samples, there are {n}" for name, least in SMALLEST_N.items() if n < least}


def _all_sent(ordered: Floats, failures: int) -> AllSent:
    n = len(ordered) + failures
    found: dict[str, float] = {}
    infinite: list[str] = []
    for name, percent in PERCENT.items():
        if n < SMALLEST_N[name]:
            continue
        at = rank(n, percent)
        if at > len(ordered):
            infinite.append(name)
        else:
            found[name] = float(ordered[at - 1])
    return AllSent(n=n, infinite=infinite, **found)
