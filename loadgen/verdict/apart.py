"""Evidence of two runs made apart: the second beside the first (docs/verdict.md, "Two runs")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isfinite

from loadgen.analyze import (
    SPEEDUP_MIXED,
    SPEEDUP_NAMES,
    Estimate,
    Estimates,
    Query,
    SpeedupOf,
    Where,
    bonferroni,
)
from loadgen.scenario import METRICS
from loadgen.verdict.types import Evidence

#: A comparison that is a ratio of one number of each run: (metric, aggregate, the first's over the second's). Times per
#: token are pooled: each token counts once.
_RATIOS: Mapping[str, tuple[str, str, bool]] = {
    "speedup_net": ("net_tokens_per_s", "value", False),
    "speedup_decode": ("tpot_s", "pooled", True),
    "speedup_total_time": ("total_time_s", "avg", True),
    "e_ratio": ("e_decode", "value", False),
}


@dataclass(frozen=True)
class Paired:
    """Plans are equal, so blocks and cases are. `sides`: by arm of the second run, its name in the estimates."""

    sides: Mapping[str, tuple[str, Estimates]]

    def estimate(self, query: Query, level: float) -> Estimate:
        arm = dict(query.where)["arm"]
        name, estimates = self.sides[arm]
        where = tuple((key, name if key == "arm" else value) for key, value in query.where)
        return estimates.estimate(replace(query, where=where), level)


@dataclass(frozen=True)
class Unpaired:
    """Two independent samples. An interval of a ratio or difference joins one of each, both at half the doubt, so it
    holds with at least its level. `arms`: arm of the second run to that of the first. `kind`: of what a speedup under a
    selection of the second run is to be taken; None: of neither, the loads are of different kinds."""

    first: Evidence
    second: Evidence
    arms: Mapping[str, str]
    kind: Callable[[Where], SpeedupOf | None]

    def estimate(self, query: Query, level: float) -> Estimate:
        if METRICS[query.metric].versus_baseline:
            return self._relative(query, level)
        if query.relative is None:
            return self.second.estimate(query, level)
        return self._joined(replace(query, relative=None), query.relative == "ratio", False, level)

    def _relative(self, query: Query, level: float) -> Estimate:
        if query.metric == "speedup":
            return self._speedup(query, level)
        if query.metric not in _RATIOS:
            why = f"{query.metric} needs both arms in one run"
            return Estimate(None, None, None, 0, "requests", "none", "none", why, level)
        metric, aggregate, inverse = _RATIOS[query.metric]
        return self._joined(Query(metric, aggregate, query.where), True, inverse, level)

    def _speedup(self, query: Query, level: float) -> Estimate:
        kind = self.kind(query.where)
        if kind is None:
            return Estimate(None, None, None, 0, "requests", "none", "none", SPEEDUP_MIXED, level)
        name = "speedup_net" if kind == "net_throughput" else "speedup_decode"
        found = self._relative(replace(query, metric=name), level)
        return replace(found, method=f"{SPEEDUP_NAMES[kind]}: {found.method}")

    def _joined(self, query: Query, ratio: bool, inverse: bool, level: float) -> Estimate:
        half = bonferroni(level, 2)
        arm = dict(query.where)["arm"]
        there = tuple((key, self.arms[arm] if key == "arm" else value) for key, value in query.where)
        mine, base = self.second.estimate(query, half), self.first.estimate(replace(query, where=there), half)
        if inverse:
            mine, base = base, mine
        for one in (mine, base):
            if one.value is None:
                return replace(one, level=level)
        join = _ratio if ratio else _minus
        value = join(mine.value, base.value)
        low, high = join(mine.low, base.high), join(mine.high, base.low)
        why = "; ".join(dict.fromkeys(one.reason for one in (mine, base) if one.reason)) or None
        if value is None or low is None or high is None:
            low = high = None
            why = why or "the intervals of the two runs reach 0 or infinity"
        method = f"{'ratio' if ratio else 'difference'} of two runs, an interval of each at {half:.2%}: {mine.method}"
        needs = max((e.needs_n for e in (mine, base) if e.needs_n is not None), default=None)
        n = min(mine.n, base.n)
        return Estimate(value, low, high, n, mine.unit, method, mine.source, why, level, needs)


def _ratio(part: float | None, whole: float | None) -> float | None:
    """Of numbers not below 0; ∞ over a number is ∞, a number over ∞ is 0, and over 0 or ∞ over ∞ nothing is known."""
    if part is None or whole is None or whole == 0 or not (isfinite(part) or isfinite(whole)):
        return None
    return part / whole


def _minus(one: float | None, other: float | None) -> float | None:
    if one is None or other is None or not (isfinite(one) or isfinite(other)):
        return None
    return one - other
