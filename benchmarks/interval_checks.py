"""How often intervals cover, how often a gate fails: counted over replications of the simulated loads. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from interval_worlds import Acceptance, Load, Windows, errors, one_arm, throughputs, two_arms, windows

from loadgen.analyze import (
    LEVEL,
    Estimate,
    bonferroni,
    log_ratio_t,
    quantile_bootstrap,
    quantile_ratio_bootstrap,
    ratio_of_sums_clustered,
    share_bootstrap,
)

#: The default gate: (metric, quantile, limit on candidate ÷ baseline); the speedup stands apart.
LIMITS = (("ttft_s", 0.95, 1.05), ("tpot_s", 0.95, 1.05), ("total_time_s", 0.99, 1.05))
TESTS = len(LIMITS) + 1


@dataclass(frozen=True)
class Coverage:
    """Shares of replications. `open`: no finite upper limit; `half_width`: median of (high - low) / (2 value)."""

    covered: float
    above: float
    below: float
    open: float
    half_width: float

    def row(self, what: str, sample: str, load: str) -> str:
        return (
            f"| {what} | {sample} | {load} | {self.covered:.1%} | {self.below:.1%} | {self.above:.1%} "
            f"| ±{self.half_width:.1%} | {self.open:.1%} |"
        )


HEADER = (
    "| statistic | sample | load | covered | truth below | truth above | median half width | no upper limit |\n"
    "|---|---|---|---|---|---|---|---|"
)


def limits(found: Estimate) -> tuple[float, float]:
    assert found.low is not None, found.reason
    assert found.high is not None, found.reason
    return found.low, found.high


def coverage(truth: float, replications: int, replicate: Callable[[np.random.Generator, int], Estimate]) -> Coverage:
    """Each replication has a generator and a bootstrap seed of its own."""
    below = above = unlimited = 0
    widths: list[float] = []
    for number in range(replications):
        found = replicate(np.random.default_rng((20_260, number)), number)
        low, high = limits(found)
        below += truth < low
        above += truth > high
        unlimited += math.isinf(high)
        if found.value and not found.infinite:
            widths.append((high - low) / (2 * found.value))
    n = replications
    return Coverage(1 - (below + above) / n, above / n, below / n, unlimited / n, float(np.median(widths)))


def quantile_coverage(load: Load, q: float, replications: int, resamples: int) -> Coverage:
    block = load.block

    def replicate(rng: np.random.Generator, seed: int) -> Estimate:
        return quantile_bootstrap(one_arm(rng, load), block, q, seed=seed, resamples=resamples)

    return coverage(load.true_quantile(q), replications, replicate)


def quantile_ratio_coverage(load: Load, q: float, ratio: float, replications: int, resamples: int) -> Coverage:
    block = load.block

    def replicate(rng: np.random.Generator, seed: int) -> Estimate:
        candidate, baseline = two_arms(rng, load, ratio)
        return quantile_ratio_bootstrap(candidate, block, baseline, block, q, seed=seed, resamples=resamples)

    return coverage(ratio, replications, replicate)


def log_ratio_coverage(load: Load, speedup: float, replications: int) -> Coverage:
    return coverage(speedup, replications, lambda rng, _: log_ratio_t(*throughputs(rng, load, speedup)))


def acceptance_coverage(kind: Acceptance, replications: int) -> Coverage:
    return coverage(kind.truth(), replications, lambda rng, _: ratio_of_sums_clustered(*kind.draw(rng)))


def share_coverage(load: Load, share: float, concentration: float, replications: int, resamples: int) -> Coverage:
    block = load.block

    def replicate(rng: np.random.Generator, seed: int) -> Estimate:
        return share_bootstrap(errors(rng, load, share, concentration), block, seed=seed, resamples=resamples)

    return coverage(share, replications, replicate)


@dataclass(frozen=True)
class GateCounts:
    """Shares of replications: verdicts of the gate, and for each metric how often it alone is shown to be slower."""

    passed: float
    failed: float
    shown: dict[str, float]


def gate_counts(
    load: Load, slowdown: float, replications: int, resamples: int, *, limit: float | None = None
) -> GateCounts:
    """The default thresholds; `limit` in place of 1.05. A pass is judged at 95 %, a failure with Bonferroni."""
    passed = failed = 0
    shown = dict.fromkeys(["speedup", *(f"{metric} P{q * 100:g}" for metric, q, _ in LIMITS)], 0)
    for number in range(replications):
        drawn = windows(np.random.default_rng((777, number)), load, slowdown)
        usual = _estimates(drawn, load, number, resamples, LEVEL)
        strict = _estimates(drawn, load, number, resamples, bonferroni(LEVEL, TESTS))
        allowed = [1.0, *(limit or at for _, _, at in LIMITS)]
        # a speedup is turned over: limits on it are lower ones
        failed += any(limits(e)[0] > at for e, at in zip(strict, allowed, strict=True))
        passed += all(limits(e)[1] <= at for e, at in zip(usual, allowed, strict=True))
        for name, e in zip(shown, usual, strict=True):
            shown[name] += limits(e)[0] > 1
    n = replications
    return GateCounts(passed / n, failed / n, {name: count / n for name, count in shown.items()})


def _estimates(drawn: Windows, load: Load, seed: int, resamples: int, level: float) -> list[Estimate]:
    """Slowdowns: baseline ÷ candidate throughput, and candidate ÷ baseline latencies."""
    block = load.block
    candidate, baseline = drawn.speed
    found = [log_ratio_t(baseline, candidate, level)]
    for metric, q, _ in LIMITS:
        c, b = drawn.latencies[metric]
        found.append(quantile_ratio_bootstrap(c, block, b, block, q, seed=seed, resamples=resamples, level=level))
    return found
