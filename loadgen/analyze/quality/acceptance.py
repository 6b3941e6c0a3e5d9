"""Acceptance as a sign of broken output, two-sided: it falls where text is garbled and rises where it loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from loadgen.analyze.quality.monte_carlo import MOST_DRAWS
from loadgen.analyze.quality.paired import Paired, paired
from loadgen.analyze.statistics.ratios import ratio_of_sums_clustered
from loadgen.analyze.statistics.types import LEVEL, Estimate

#: Cases told by name: those whose acceptance moved most.
MOST_MOVED = 5


@dataclass(frozen=True, slots=True)
class Accepted:
    """Draft tokens of one request, and how many of them were accepted."""

    case_id: str
    drafted: int
    accepted: int


@dataclass(frozen=True, slots=True)
class AcceptanceAnomaly:
    """Acceptance now against a reference (an earlier run, another time of this one), paired by case.

    `direction`: "low" as garbled output has, "high" as a loop has; a finding only where the family says that
    `compared.p` is one. `moved`: (case, reference, now) of the cases that moved most in that direction. `undrafted`:
    requests without a draft token, which have no acceptance.
    """

    direction: Literal["low", "high"] | None
    reference: Estimate
    now: Estimate
    compared: Paired
    moved: tuple[tuple[str, float, float], ...]
    undrafted: int


def acceptance_anomaly(
    reference: Sequence[Accepted], now: Sequence[Accepted], *, seed: int, level: float = LEVEL, most: int = MOST_DRAWS
) -> AcceptanceAnomaly:
    """Two-sided: each case's mean acceptance over its requests, now against the reference, cases equally weighted."""
    before, after = _by_case(reference), _by_case(now)
    compared = paired(before, after, seed=seed, level=level, most=most)
    value = compared.difference.value
    direction: Literal["low", "high"] | None = None if not value else ("low" if value < 0 else "high")
    both = [(case, float(np.mean(before[case])), float(np.mean(after[case]))) for case in before if case in after]
    both.sort(key=lambda c: (c[2] - c[1]) * (1 if direction == "low" else -1))
    moved = tuple(c for c in both[:MOST_MOVED] if direction is not None and (c[2] < c[1]) == (direction == "low"))
    undrafted = sum(a.drafted == 0 for a in (*reference, *now))
    return AcceptanceAnomaly(direction, _rate(reference, level), _rate(now, level), compared, moved, undrafted)


def _by_case(requests: Sequence[Accepted]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for one in requests:
        if one.drafted:
            found.setdefault(one.case_id, []).append(one.accepted / one.drafted)
    return found


def _rate(requests: Sequence[Accepted], level: float) -> Estimate:
    number: dict[str, int] = {}
    cases = np.array([number.setdefault(a.case_id, len(number)) for a in requests], dtype=np.int64)
    accepted = np.array([a.accepted for a in requests], dtype=np.float64)
    drafted = np.array([a.drafted for a in requests], dtype=np.float64)
    return ratio_of_sums_clustered(accepted, drafted, cases, level=level)
