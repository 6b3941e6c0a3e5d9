"""The draft-length advisor: from one run, the speedup at every shorter draft length and off (docs/method.md).

Speedup of decoding = E(k') ÷ c(k'), docs/method.md, "Where the time goes: E / c"; with the share of a baseline request
that is decoding, the net one: 1 ÷ (1 - share + share · c ÷ E). Cases are resampled whole, all k' and their costs
together, so that draft lengths are compared on the same answers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from loadgen.analyze.columns import Floats, Ints
from loadgen.analyze.curves.costs import Cost, CostLine
from loadgen.analyze.curves.observed import between, joined
from loadgen.analyze.curves.replay import Replayed, RoundLists, replay
from loadgen.analyze.statistics import RESAMPLES
from loadgen.analyze.statistics.distributions import normal_quantile
from loadgen.analyze.statistics.resample import draw_weights, stretch
from loadgen.analyze.statistics.types import LEVEL, MIN_CLUSTERS

Costs = CostLine | Mapping[int, Cost]
REPLAY = "accepted sequences replayed; bootstrap of whole cases"
POSITIONS = "per-position counts, assumes stationarity"


@dataclass(frozen=True, slots=True)
class Predicted:
    """One draft length. `e`: tokens per round; `e_low`, `e_high`: 95 % interval, bounds of unknown places included;
    `bound_low`, `bound_high`: those bounds alone. `speedup` of decoding, or net where the share of decoding was given,
    with its interval. None: not known. `drafts_per_token`: drafted tokens per output token, at most.
    """

    k: int
    e: float | None
    e_low: float | None
    e_high: float | None
    bound_low: float | None
    bound_high: float | None
    cost: Cost | None
    speedup: float | None
    low: float | None
    high: float | None

    @property
    def drafts_per_token(self) -> float | None:
        return None if self.e is None else self.k / self.e


@dataclass(frozen=True, slots=True)
class Advice:
    """`best` draft length by predicted speedup, 0: off. None where no cost is known.

    `candidates`: those that cannot be told from the best, itself among them; None without intervals. `net`: prefill and
    queue are in the speedup. `n`: cases. `reason`: what is missing, left out or assumed.
    """

    rows: tuple[Predicted, ...]
    best: int | None
    candidates: tuple[int, ...] | None
    net: bool
    source: Literal["replay", "positions"]
    method: str
    n: int
    reason: str | None


def advise(
    lists: RoundLists,
    ks: Sequence[int],
    cost: Costs,
    *,
    decode_share: float | None = None,
    seed: int = 0,
    note: str | None = None,
) -> Advice:
    """Predict every k of `ks` and off from a run with per-round data.

    `cost`: measured c(k), or a fitted line (labelled estimate). `decode_share`: share of decoding in the time of the
    baseline's requests, 0 to 1; None: the speedup is that of decoding. `note`: a condition of the data that goes with
    the advice, such as prompts that are not representative. Draft lengths beyond the run's own are left out, with a
    reason. Only for a drafter that is autoregressive and no tree.
    """
    _check(decode_share)
    used = lists.taken(np.flatnonzero(lists.usable()))
    left = lists.rows - used.rows
    gone = f"{left} of {lists.rows} requests have no usable per-round data" if left else None
    asked = sorted({int(k) for k in ks if k > 0})
    tested = [k for k in asked if k <= used.largest]
    beyond = [k for k in asked if k > used.largest]
    far = f"the run drafted at most {used.largest}: nothing is known of k = {_listed(beyond)}" if beyond else None
    if not used.rows or not tested:
        why = joined(gone, far, None if used.rows else "no per-round data", note)
        return Advice((_off(),), None, None, decode_share is not None, "replay", REPLAY, 0, why)
    played = replay(used, np.array(tested), seed=seed)
    draws = _Draws.of(played, used.case, tested, cost, decode_share, seed)
    few = f"not enough data: an interval needs {MIN_CLUSTERS} cases, there are {draws.cases}"
    rows = (_off(), *(_row(draws, i, k, cost) for i, k in enumerate(tested)))
    sure = draws.cases >= MIN_CLUSTERS
    best = _best(rows)
    candidates = draws.as_good(best, tested) if sure and best is not None else None
    reason = joined(None if sure else few, gone, far, _cost_words(tested, cost), _choice(best, candidates), note)
    return Advice(rows, best, candidates, decode_share is not None, "replay", REPLAY, draws.cases, reason)


def advise_from_positions(
    at_position: Sequence[float],
    rounds: float,
    ks: Sequence[int],
    cost: Costs,
    *,
    decode_share: float | None = None,
    note: str | None = None,
) -> Advice:
    """The fallback without per-round data: E(k') = 1 + sum of a_j ÷ D over j < k'. No interval.

    `at_position`: rounds that accepted the draft at 0-based place j; `rounds`: D. It takes a round's acceptance not to
    depend on where rounds begin, and comes out low where acceptance is correlated.
    """
    _check(decode_share)
    net = decode_share is not None
    if rounds <= 0 or not math.isfinite(rounds):
        return Advice((_off(),), None, None, net, "positions", POSITIONS, 0, joined("no rounds", note))
    upto = np.cumsum(np.asarray(at_position, dtype=np.float64)) / rounds
    rows = [_off()]
    for k in sorted({int(k) for k in ks if 0 < k <= len(upto)}):
        e, c = 1 + float(upto[k - 1]), _cost_of(cost, k)
        speedup = None if c is None else float(_speedup(np.array(e), np.array(c.value), decode_share))
        rows.append(Predicted(k, e, None, None, None, None, c, speedup, None, None))
    best = _best(rows)
    assumed = "assumes stationarity: low where acceptance is correlated"
    words = joined(assumed, _cost_words([row.k for row in rows[1:]], cost), _choice(best, None), note)
    return Advice(tuple(rows), best, None, net, "positions", POSITIONS, 0, words)


@dataclass(frozen=True)
class _Draws:
    """Resampled E and speedup, (RESAMPLES, K), with unknown places all rejected, filled, and all accepted."""

    e: tuple[Floats, ...]
    speedup: tuple[Floats, ...]
    seen: tuple[Floats, ...]
    share: float | None
    cases: int
    stretched: float

    @classmethod
    def of(cls, played: Replayed, case: Ints, ks: list[int], cost: Costs, share: float | None, seed: int) -> _Draws:
        _, index = np.unique(case, return_inverse=True)
        cases = int(index.max()) + 1
        weights = draw_weights(cases, RESAMPLES, seed)
        tokens = np.bincount(index, weights=played.tokens)
        c = _drawn_costs(cost, ks, seed)
        by_case = [
            np.stack([np.bincount(index, weights=row) for row in rounds], axis=1)
            for rounds in (played.most, played.middle, played.fewest)
        ]
        e = tuple((weights @ tokens)[:, None] / (weights @ rounds) for rounds in by_case)
        seen = tuple(tokens.sum() / rounds.sum(axis=0) for rounds in by_case)
        stretched = stretch(cases, LEVEL) if cases > 1 else 1.0
        return cls(e, tuple(_speedup(drawn, c, share) for drawn in e), seen, share, cases, stretched)

    def limits(self, drawn: tuple[Floats, ...], i: int) -> tuple[float, float] | tuple[None, None]:
        """95 % limits, the lower with unknown places rejected, the upper with them accepted."""
        if self.cases < MIN_CLUSTERS or np.isnan(drawn[0][:, i]).any():
            return None, None
        low, high = self._stretch(np.log(drawn[0][:, i]))[0], self._stretch(np.log(drawn[2][:, i]))[1]
        return math.exp(low), math.exp(high)

    def as_good(self, best: int, ks: list[int]) -> tuple[int, ...]:
        """Draft lengths that are not below the best in every filling."""
        found = []
        for k in (0, *ks):
            gaps = [self._logs(s, best, ks) - self._logs(s, k, ks) for s in self.speedup]
            known = not np.isnan(gaps[0]).any()
            if k == best or (known and any(self._stretch(gap)[0] <= 0 for gap in gaps)):
                found.append(k)
        return tuple(found)

    @staticmethod
    def _logs(speedup: Floats, k: int, ks: list[int]) -> Floats:
        return np.zeros(len(speedup)) if k == 0 else np.log(speedup[:, ks.index(k)])

    def _stretch(self, drawn: Floats) -> tuple[float, float]:
        centre = float(np.median(drawn))
        low, high = between(drawn)
        return centre - self.stretched * (centre - low), centre + self.stretched * (high - centre)


def _row(draws: _Draws, i: int, k: int, cost: Costs) -> Predicted:
    most, middle, fewest = (float(seen[i]) for seen in draws.seen)
    c = _cost_of(cost, k)
    e_low, e_high = draws.limits(draws.e, i)
    low, high = draws.limits(draws.speedup, i)
    speedup = None if c is None else float(_speedup(draws.seen[1][i], np.array(c.value), draws.share))
    return Predicted(k, middle, e_low, e_high, most, fewest, c, speedup, low, high)


def _off() -> Predicted:
    return Predicted(0, 1.0, 1.0, 1.0, 1.0, 1.0, Cost(1.0, 1.0, 1.0), 1.0, 1.0, 1.0)


def _best(rows: Sequence[Predicted]) -> int | None:
    """The smallest k with the highest speedup; None where only off has one."""
    known = [row for row in rows if row.speedup is not None]
    if len(known) < 2:
        return None
    return max(known, key=lambda row: (row.speedup or 0.0, -row.k)).k


def _speedup(e: Floats, c: Floats, share: float | None) -> Floats:
    part = 1.0 if share is None else share
    return 1 / (1 - part + part * c / e)


def _cost_of(cost: Costs, k: int) -> Cost | None:
    found = cost.at(k) if isinstance(cost, CostLine) else cost.get(k)
    return found if found is not None and math.isfinite(found.value) and found.value > 0 else None


def _drawn_costs(cost: Costs, ks: list[int], seed: int) -> Floats:
    """(RESAMPLES, K) costs as uncertain as they are known; NaN where one is not known."""
    random = np.random.default_rng([seed, 1])
    known = [_cost_of(cost, k) for k in ks]
    values = np.array([math.nan if c is None else c.value for c in known])
    if isinstance(cost, CostLine):
        if cost.line is None:
            return np.broadcast_to(values, (RESAMPLES, len(ks)))
        drawn = cost.line.drawn(np.array(ks, dtype=np.float64), random.standard_normal((RESAMPLES, 2)))
        return cast("Floats", np.maximum(drawn, 1e-6) + values * 0)
    spread = np.array([_log_spread(c) for c in known])
    return cast("Floats", values * np.exp(spread * random.standard_normal((RESAMPLES, len(ks)))))


def _log_spread(cost: Cost | None) -> float:
    if cost is None or cost.low is None or cost.high is None or not 0 < cost.low <= cost.high:
        return 0.0
    return math.log(cost.high / cost.low) / (2 * normal_quantile((1 + LEVEL) / 2))


def _cost_words(ks: list[int], cost: Costs) -> str | None:
    known = {k: _cost_of(cost, k) for k in ks}
    none = [k for k, c in known.items() if c is None]
    bare = [k for k, c in known.items() if c is not None and c.low is None]
    estimated = "the cost is a fitted line, an estimate" if isinstance(cost, CostLine) and len(none) < len(ks) else None
    missing = f"no cost is known for k = {_listed(none)}" if none else None
    uncertain = f"the cost of k = {_listed(bare)} has no interval: its uncertainty is not counted" if bare else None
    return joined(estimated, missing, uncertain)


def _choice(best: int | None, candidates: tuple[int, ...] | None) -> str | None:
    if best is None:
        return None
    others = [k for k in candidates or () if k != best]
    told = f", not told from {', '.join('off' if k == 0 else f'k = {k}' for k in others)}" if others else ""
    return f"{'off' if best == 0 else f'k = {best}'} is best{told}"


def _listed(ks: Sequence[int]) -> str:
    return ", ".join(str(k) for k in ks)


def _check(decode_share: float | None) -> None:
    if decode_share is not None and not 0 <= decode_share <= 1:
        raise ValueError(f"a share lies between 0 and 1, not at {decode_share}")
