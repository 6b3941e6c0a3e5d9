"""Along k: the best draft length, what a step costs, and the advisor beside what was measured (docs/sweeps.md)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from loadgen.analyze.columns import Floats, Ints
from loadgen.analyze.curves import (
    Advice,
    BestK,
    Cost,
    CostLine,
    Fitted,
    Predicted,
    advise,
    advise_from_positions,
    best_k,
    fit_cost,
    split_round,
)
from loadgen.analyze.summary import Interval
from loadgen.analyze.sweep.curves import matrix, over_visits, settings
from loadgen.analyze.sweep.from_runs import rounds_of_runs
from loadgen.analyze.sweep.models import AdviceAt, AdviceResult, BestKResult, CostResult, PointResult, Where
from loadgen.analyze.sweep.numbers import absent
from loadgen.analyze.sweep.points import BY_PASS, PointRun
from loadgen.analyze.sweep.words import at, limits
from loadgen.plan import SweepPlan

NET = "net_tokens_per_s"


class AlongK:
    """The visits of one setting of the other axes, by k and pass. `base`: the baseline's k."""

    def __init__(self, where: Where, ks: Sequence[int], base: int, here: Sequence[PointResult]) -> None:
        self.where, self.base, self.here = where, base, here
        self.ks = sorted(k for k in ks if any(p.values["k"] == k for p in here))

    def at(self, k: int) -> list[PointResult]:
        return [p for p in self.here if p.values["k"] == k]

    @property
    def numbers(self) -> Ints:
        return np.array(self.ks, dtype=np.int64)

    def table(self, metric: str) -> Floats:
        """(K, passes) of the arm that each point is about."""
        rows = []
        repeats = 1 + max((p.repeat for p in self.here), default=0)
        for k in self.ks:
            visits = self.at(k)
            row = matrix("k", [k], metric, visits[0].arm, visits)[0]
            rows.append(np.pad(row, (0, repeats - len(row)), constant_values=math.nan))
        return np.array(rows)

    def costs(self) -> Floats:
        """(K, passes) c of every visit; 1 at the baseline's k."""
        repeats = 1 + max((p.repeat for p in self.here), default=0)
        found = np.full((len(self.ks), repeats), math.nan)
        for i, k in enumerate(self.ks):
            for p in self.at(k):
                if k == self.base:
                    found[i, p.repeat] = 1.0
                elif p.c is not None and p.c.value is not None:
                    found[i, p.repeat] = p.c.value
        return found


def ladders(plan: SweepPlan, done: Sequence[PointResult]) -> Iterator[AlongK]:
    if len(plan.axes.get("k", ())) < 2:
        return
    ks = [int(k) for k in plan.axes["k"]]
    for where in settings(plan.axes, "k"):
        here = [p for p in done if all(p.values[name] == value for name, value in where.items())]
        if len({p.values["k"] for p in here}) > 1:
            yield AlongK(where, ks, int(plan.baseline["k"]), here)


def best_of(along: AlongK) -> BestKResult:
    """By net throughput; where each visit has a speedup paired within its own run, by that."""
    others = [p.speedup for p in along.here if p.values["k"] != along.base]
    within = all(s is not None and s.value is not None and s.method != BY_PASS for s in others)
    metric = "speedup" if within else NET
    table = along.table(metric)
    if within and along.base in along.ks:
        table[along.ks.index(along.base)] = 1.0
    found = best_k(along.numbers, table)
    value = Interval(
        value=found.value, n=found.n, source="client", unit="visits", method=found.method,
        reason="the geometric mean; what is not told from it stands in not_worse",
    )  # fmt: skip
    return BestKResult(
        where=along.where,
        metric=metric,
        k=found.k,
        not_worse=list(found.candidates or (() if found.k is None else (found.k,))),
        value=value,
        reason=found.reason,
        sentence=_best_sentence(found, metric, along.where),
    )


def _best_sentence(found: BestK, metric: str, where: Where) -> str:
    if found.k is None or found.value is None:
        return f"best draft length{at(where)}: {found.reason}"
    what = f"{found.value:.3g} {'tokens/s' if metric == NET else '× the baseline'}"
    gain = "" if found.over_off is None or found.k == 0 else f", {found.over_off:.3g}× off"
    word = "off" if found.k == 0 else f"k = {found.k}"
    others = [k for k in found.candidates or () if k != found.k]
    if found.candidates is None:
        told = "; too few visits to tell the others from it"
    elif others:
        told = f"; not told from it: {', '.join('off' if k == 0 else f'k = {k}' for k in others)}"
    else:
        told = "; all others are shown to be worse"
    return f"best draft length{at(where)}: {word} ({what}{gain}){told}"


def cost_of(along: AlongK) -> CostResult:
    table = along.costs()
    found = fit_cost(along.numbers, table)
    measured = {k: _visits(table[i]) for i, k in enumerate(along.ks) if k != along.base}
    split = split_round(found, max(along.ks), _plain_step_s(along), autoregressive=True)
    draft = verify = None
    if split.draft_time_s is not None:
        draft = _estimate(split.draft_time_s, split.draft_low_s, split.draft_high_s, split.reason)
        verify = _estimate(split.verify_time_s, None, None, split.reason)
    return CostResult(
        where=along.where,
        c=measured,
        intercept=_fitted(found.intercept, found),
        per_draft=_fitted(found.per_draft, found),
        residual=found.residual,
        label=found.label,
        draft_s=draft,
        verify_s=verify,
        reason=found.reason if split.draft_time_s is not None or found.reason else split.reason,
        sentence=_cost_sentence(found, along.where),
    )


def _plain_step_s(along: AlongK) -> float:
    told = [one.value for p in along.at(along.base) if (one := p.numbers["tpot_s_mean"].get(p.arm)) and one.value]
    return sum(told) / len(told) if told else math.nan


def _visits(row: Floats) -> Interval:
    told = [float(c) for c in row if not math.isnan(c)]
    return over_visits(told, "client") if told else absent("no visit has a c")


def _fitted(found: Fitted | None, line: CostLine) -> Interval:
    if found is None:
        return absent(line.reason or "not fitted", n=line.n)
    return Interval(
        value=found.value, low=found.low, high=found.high, n=line.n, source="client", unit="visits",
        method=line.method, reason=line.reason,
    )  # fmt: skip


def _estimate(value: float | None, low: float | None, high: float | None, reason: str | None) -> Interval:
    return Interval(
        value=value, low=low, high=high, n=1, source="client", unit="fits", method="estimate", reason=reason
    )


def _cost_sentence(found: CostLine, where: Where) -> str:
    if found.intercept is None or found.per_draft is None:
        return f"cost of a step{at(where)}: {found.reason}"
    a, b = found.intercept, found.per_draft
    return (
        f"a decode step{at(where)} costs about 1 {a.value:+.3g} {b.value:+.3g} × k of a plain one (estimate; per draft "
        f"{b.value:.3g}{limits(b.low, b.high)})"
    )


def advice_of(along: AlongK, made: Sequence[PointRun]) -> AdviceResult | None:
    """From the runs at the largest k; None where it was not visited."""
    k_max = max(along.ks)
    points = along.at(k_max)
    if k_max < 2 or not points:
        return None
    table = along.costs()
    costs = {k: _as_cost(_visits(table[i])) for i, k in enumerate(along.ks)}
    known = {k: c for k, c in costs.items() if c is not None} | {0: Cost(1.0, 1.0, 1.0)}
    numbers = {p.number for p in points}
    runs = [(m.run, m.arm) for m in made if m.number in numbers and m.run is not None]
    found = advise(
        rounds_of_runs(runs), along.ks, known, decode_share=_decode_share(along, made), note=_note(points, made)
    )
    if found.best is None and found.n == 0:
        found = _from_positions(points, along.ks, known, _decode_share(along, made), found)
    return AdviceResult(
        where=along.where,
        k_max=k_max,
        source=found.source,
        label="replay" if found.source == "replay" else "assumes stationarity",
        at=[_row(row, along) for row in found.rows],
        best=found.best,
        not_worse=list(found.candidates or (() if found.best is None else (found.best,))),
        reason=found.reason,
        sentence=_advice_sentence(found, k_max, along.where)
        + ("; costs measured once, their own uncertainty is not in it" if _measured_once(known) else ""),
    )


def _measured_once(costs: Mapping[int, Cost]) -> bool:
    return any(c.low is None for k, c in costs.items() if k)


def _as_cost(found: Interval) -> Cost | None:
    return None if found.value is None else Cost(found.value, found.low, found.high)


def _note(points: Sequence[PointResult], made: Sequence[PointRun]) -> str | None:
    """What the runs themselves say of their acceptance."""
    numbers = {p.number for p in points}
    for m in made:
        if m.number in numbers and m.summary is not None and m.arm in m.summary.arms:
            return m.summary.arms[m.arm].overall.speculation.representative_reason
    return None


def _decode_share(along: AlongK, made: Sequence[PointRun]) -> float | None:
    """1 - mean TTFT ÷ mean total time of the baseline's point."""
    numbers = {p.number for p in along.at(along.base)}
    shares = []
    for m in made:
        if m.number not in numbers or m.summary is None or m.arm not in m.summary.arms:
            continue
        stream = m.summary.arms[m.arm].overall.stream
        if stream.ttft_s.mean is not None and stream.total_time_s.mean:
            shares.append(1 - stream.ttft_s.mean / stream.total_time_s.mean)
    return min(1.0, max(0.0, sum(shares) / len(shares))) if shares else None


def _from_positions(
    points: Sequence[PointResult],
    ks: Sequence[int],
    costs: Mapping[int, Cost],
    share: float | None,
    replayed: Advice,
) -> Advice:
    """The fallback, from the counts of the first run that has any."""
    for p in points:
        told = p.per_position.get(p.arm, [])
        rounds = float(told[0].n) if told else 0.0
        at_position = [one.value * one.n for one in told if one.value is not None]
        if rounds > 0 and at_position:
            return advise_from_positions(at_position, rounds, ks, costs, decode_share=share, note=replayed.reason)
    return replayed


def _row(row: Predicted, along: AlongK) -> AdviceAt:
    visits = along.at(row.k)
    e = _measured(visits, "e_decode") if row.k != along.base else None
    speedup = _measured(visits, "speedup") if row.k != along.base else None
    predicted = Interval(
        value=row.e, low=row.e_low, high=row.e_high, n=0, source="per_request", unit="cases", method="replay",
        reason=None if row.e_low is not None else "no interval",
    )  # fmt: skip
    return AdviceAt(
        k=row.k,
        e=predicted,
        c=absent("no cost is known")
        if row.cost is None
        else _estimate(row.cost.value, row.cost.low, row.cost.high, None),
        speedup=_estimate(row.speedup, row.low, row.high, None if row.speedup is not None else "no cost is known"),
        measured_e=e,
        measured_speedup=speedup,
        agrees=_overlap(predicted, e),
    )


def _measured(visits: Sequence[PointResult], metric: str) -> Interval | None:
    told = [one.value for p in visits if (one := p.numbers.get(metric, {}).get(p.arm)) and one.value is not None]
    return over_visits(told, "client") if told else None


def _overlap(predicted: Interval, measured: Interval | None) -> bool | None:
    """Whether the two intervals meet; where one has none, whether its value lies in the other."""
    if measured is None or measured.value is None or predicted.value is None:
        return None
    a = (predicted.low or predicted.value, predicted.high or predicted.value)
    b = (measured.low or measured.value, measured.high or measured.value)
    if a[0] == a[1] and b[0] == b[1]:
        return None
    return a[0] <= b[1] and b[0] <= a[1]


def _advice_sentence(found: Advice, k_max: int, where: Where) -> str:
    best = next((row for row in found.rows if row.k == found.best), None)
    if best is None or best.speedup is None:
        return f"advice from k = {k_max}{at(where)}: none ({found.reason})"
    word = "speculation off" if best.k == 0 else f"k = {best.k}"
    kind = "net" if found.net else "of decoding"
    gain = "" if best.k == 0 else f", predicted speedup {kind} {best.speedup:.3g}{limits(best.low, best.high)}"
    return f"advice from k = {k_max}{at(where)}: {word}{gain}"
