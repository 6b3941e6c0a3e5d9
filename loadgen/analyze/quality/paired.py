"""Yes-or-no and share comparisons paired by case: McNemar, sign flips, the noise floor, known answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from loadgen.analyze.quality.diverge import Divergence
from loadgen.analyze.quality.monte_carlo import MOST_DRAWS, permutation_p
from loadgen.analyze.statistics.distributions import t_quantile
from loadgen.analyze.statistics.ratios import ratio_of_sums_clustered
from loadgen.analyze.statistics.types import LEVEL, MIN_CLUSTERS, Estimate, Floats

#: two-sided, or only "the candidate has more"
Side = Literal["two-sided", "greater"]


@dataclass(frozen=True, slots=True)
class McNemar:
    """Paired yes-or-no answers: how many cases both, one or neither arm had right; p is exact."""

    both: int
    baseline_only: int
    candidate_only: int
    neither: int
    p: float

    @property
    def n(self) -> int:
        return self.both + self.baseline_only + self.candidate_only + self.neither


def mcnemar(pairs: Sequence[tuple[bool, bool]], *, side: Side = "two-sided") -> McNemar:
    """(baseline, candidate) of each case, one pair per case (McNemar 1947; exact binomial on the discordant pairs)."""
    counts = {(a, b): 0 for a in (True, False) for b in (True, False)}
    for a, b in pairs:
        counts[bool(a), bool(b)] += 1
    lost, won = counts[True, False], counts[False, True]
    return McNemar(counts[True, True], lost, won, counts[False, False], sign_p(won, lost, side))


def sign_p(up: int, down: int, side: Side) -> float:
    """P of `up` or more of up + down fair coins; two-sided: of a split as uneven or more."""
    n = up + down
    k = up if side == "greater" else max(up, down)
    # whole-number arithmetic: exact also where the tail is tiny
    tail: float = sum(math.comb(n, i) for i in range(k, n + 1)) / 2**n
    return min(tail if side == "greater" else 2 * tail, 1.0)


def discordant_needed(level: float, side: Side = "two-sided") -> int:
    """Cases right in one arm alone, always the same, that p <= `level` takes."""
    return math.ceil(math.log((1 if side == "greater" else 2) / level, 2))


@dataclass(frozen=True, slots=True)
class Paired:
    """Shares (or means) of two arms over the same cases, every case with the same weight.

    `difference` candidate - baseline with a t interval over cases. `p`: exact where all cases differ by the same
    amount (McNemar's test) or by exchanging the arms of whole cases. `left_out`: cases that only one arm has.
    """

    baseline: float | None
    candidate: float | None
    difference: Estimate
    p: float | None
    cases: int
    left_out: int
    method: str
    reason: str | None = None


def paired(
    baseline: Mapping[str, Sequence[float]],
    candidate: Mapping[str, Sequence[float]],
    *,
    seed: int,
    side: Side = "two-sided",
    level: float = LEVEL,
    most: int = MOST_DRAWS,
) -> Paired:
    """Values by case (0 or 1, or any number) of two arms; repeats of a case are averaged: they are one observation.

    H0: the arms of a case may be exchanged. Cases that one arm lacks are left out and counted.
    """
    common = [case for case, values in baseline.items() if len(values) and len(candidate.get(case, ()))]
    left_out = len(set(baseline) | set(candidate)) - len(common)
    a = np.array([float(np.mean(baseline[case])) for case in common])
    b = np.array([float(np.mean(candidate[case])) for case in common])
    difference = _interval(b - a, level)
    if not common:
        return Paired(None, None, difference, None, 0, left_out, "none", "no case in both arms")
    p, method = _exchanged(b - a, side, seed, most)
    return Paired(float(a.mean()), float(b.mean()), difference, p, len(common), left_out, method)


def _exchanged(differences: Floats, side: Side, seed: int, most: int) -> tuple[float, str]:
    moved = differences[np.abs(differences) > 1e-12]
    if not len(moved):
        return 1.0, "no case differs"
    if np.ptp(np.abs(moved)) < 1e-12:
        return sign_p(int((moved > 0).sum()), int((moved < 0).sum()), side), "McNemar, exact"

    def drawn(rng: np.random.Generator, n: int) -> Floats:
        sums: Floats = rng.choice((-1.0, 1.0), (n, len(moved))) @ moved
        return sums if side == "greater" else np.abs(sums)

    total = float(moved.sum())
    p, _, _ = permutation_p(drawn, total if side == "greater" else abs(total), seed, most=most)
    return p, "arms exchanged within cases"


def _interval(differences: Floats, level: float) -> Estimate:
    n = len(differences)
    found = Estimate(None, None, None, n, "cases", f"t interval over {n} cases", "client", level=level)
    if n == 0:
        return replace(found, reason="no case in both arms", needs_n=MIN_CLUSTERS)
    value = float(differences.mean())
    found = replace(found, value=value)
    if n < MIN_CLUSTERS:
        short = f"not enough data: an interval needs at least {MIN_CLUSTERS} cases, there are {n}"
        return replace(found, reason=short, needs_n=MIN_CLUSTERS)
    spread = float(differences.std(ddof=1))
    if spread == 0:
        # none of n cases is unlike the others: with this confidence fewer than this share of all would be
        reach = 1 - ((1 - level) / 2) ** (1 / n)
        note = f"every one of {n} cases differs alike: each counts as one trial"
        return replace(found, low=value - reach, high=value + reach, reason=note)
    half = t_quantile((1 + level) / 2, n - 1) * spread / math.sqrt(n)
    return replace(found, low=value - half, high=value + half)


def divergence_share(divergences: Sequence[Divergence], *, level: float = LEVEL) -> Estimate:
    """Share of pairs that are not identical, near ties included; the repeats of a case are one observation."""
    number: dict[str, int] = {}
    cases = np.array([number.setdefault(d.case_id, len(number)) for d in divergences], dtype=np.int64)
    differs = np.array([d.kind != "identical" for d in divergences], dtype=np.float64)
    return ratio_of_sums_clustered(differs, np.ones(len(differs)), cases, level=level, source="client", share=True)


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """How often the baseline differs from itself, how often the candidate from the baseline, and the excess."""

    baseline: Estimate
    candidate: Estimate
    excess: Paired


def noise_floor(
    baseline: Sequence[Divergence], candidate: Sequence[Divergence], *, seed: int, level: float = LEVEL
) -> NoiseFloor:
    """Baseline against baseline and baseline against candidate, both at the same load (once under load, once alone).

    One-sided: only a candidate that differs more often is a finding. Exact where the design is symmetric: each
    reference output is compared once with another of the baseline and once with one of the candidate.
    """
    excess = paired(_differs(baseline), _differs(candidate), seed=seed, side="greater", level=level)
    return NoiseFloor(divergence_share(baseline, level=level), divergence_share(candidate, level=level), excess)


def _differs(divergences: Sequence[Divergence]) -> dict[str, list[float]]:
    by_case: dict[str, list[float]] = {}
    for one in divergences:
        by_case.setdefault(one.case_id, []).append(float(one.kind != "identical"))
    return by_case
