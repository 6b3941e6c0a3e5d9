"""Simulated loads with known truth, in virtual time: for interval_coverage.py and its test. Seeded, pure.

Latencies are lognormal: a level per block that follows an AR(1) process from block to block, times a request's own
part that follows another from request to request. Acceptance is beta-binomial: every case has its own rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Load:
    """`block_phi`, `request_phi`: lag-1 autocorrelation of levels and of requests. Spreads in log units."""

    blocks: int
    requests: int
    block_phi: float
    level_sd: float = 0.15
    request_sd: float = 0.4
    request_phi: float = 0.3

    @property
    def block(self) -> Ints:
        return np.repeat(np.arange(self.blocks), self.requests)

    def true_quantile(self, q: float) -> float:
        return math.exp(NormalDist().inv_cdf(q) * math.hypot(self.level_sd, self.request_sd))


def ar1(rng: np.random.Generator, length: int, phi: float, sd: float, series: int = 1) -> Floats:
    """(length, series) of stationary AR(1) processes."""
    noise = rng.normal(size=(length, series))
    found = np.empty_like(noise)
    found[0] = noise[0]
    for i in range(1, length):
        found[i] = phi * found[i - 1] + math.sqrt(1 - phi * phi) * noise[i]
    return sd * found


def requests_of(rng: np.random.Generator, levels: Floats, load: Load) -> Floats:
    """(levels, requests) latencies, e to the level plus each request's own part."""
    own = ar1(rng, load.requests, load.request_phi, load.request_sd, len(levels)).T
    return np.exp(levels[:, None] + own)


def one_arm(rng: np.random.Generator, load: Load) -> Floats:
    return requests_of(rng, ar1(rng, load.blocks, load.block_phi, load.level_sd)[:, 0], load).ravel()


def visits(rng: np.random.Generator, load: Load) -> tuple[Floats, Floats]:
    """Levels that candidate and baseline meet: one visit after the other, order within blocks random and balanced."""
    levels = ar1(rng, 2 * load.blocks, load.block_phi, load.level_sd).reshape(load.blocks, 2)
    second = rng.permutation(np.arange(load.blocks) % 2)
    rows = np.arange(load.blocks)
    return levels[rows, second], levels[rows, 1 - second]


def two_arms(rng: np.random.Generator, load: Load, ratio: float) -> tuple[Floats, Floats]:
    """Latencies of an interleaved run; those of the candidate are `ratio` times what the baseline would have had."""
    of_candidate, of_baseline = visits(rng, load)
    return ratio * requests_of(rng, of_candidate, load).ravel(), requests_of(rng, of_baseline, load).ravel()


def throughputs(rng: np.random.Generator, load: Load, speedup: float) -> tuple[Floats, Floats]:
    """Tokens per second of each block of both arms: level and a block's own noise, its mix of cases cancelled."""
    of_candidate, of_baseline = visits(rng, load)
    own = rng.normal(scale=load.request_sd / math.sqrt(load.requests), size=(2, load.blocks))
    return speedup * np.exp(-of_candidate + own[0]), np.exp(-of_baseline + own[1])


@dataclass(frozen=True)
class Acceptance:
    """Cases with rates from Beta(mean c, (1 - mean) c); a case is asked `repeats` times at draft length 4."""

    cases: int
    mean: float
    concentration: float
    repeats: int = 5

    def draw(self, rng: np.random.Generator) -> tuple[Floats, Floats, Ints]:
        """Accepted and drafted tokens of each request, and its case. Good drafts need fewer rounds."""
        rate = rng.beta(self.mean * self.concentration, (1 - self.mean) * self.concentration, size=self.cases)
        rate = np.repeat(rate, self.repeats)
        tokens = np.repeat(rng.lognormal(4.5, 0.7, size=self.cases), self.repeats)
        drafted = 4 * np.ceil(tokens / (1 + 4 * rate))
        accepted = rng.binomial(drafted.astype(np.int64), rate)
        return accepted.astype(np.float64), drafted, np.repeat(np.arange(self.cases), self.repeats)

    def truth(self) -> float:
        """Expected accepted by expected drafted tokens, over a million cases."""
        many = Acceptance(1_000_000, self.mean, self.concentration, repeats=1)
        accepted, drafted, _ = many.draw(np.random.default_rng(0))
        return float(accepted.sum() / drafted.sum())


def errors(rng: np.random.Generator, load: Load, share: float, concentration: float) -> Floats:
    """1 for a failed request; the share of every block from Beta(share c, (1 - share) c)."""
    of_block = rng.beta(share * concentration, (1 - share) * concentration, size=load.blocks)
    return (rng.random((load.blocks, load.requests)) < of_block[:, None]).astype(np.float64).ravel()


@dataclass(frozen=True)
class Windows:
    """What a gate judges: throughput of each block, and three latencies of each request of both arms."""

    speed: tuple[Floats, Floats]
    latencies: dict[str, tuple[Floats, Floats]]


def windows(rng: np.random.Generator, load: Load, slowdown: float) -> Windows:
    """An interleaved run whose candidate is slower by `slowdown` (0.05 = 5 %) in everything.

    TTFT feels the level fully, TPOT (many tokens averaged) half, both with spreads of their own; total time is TTFT
    and TPOT over a lognormal number of tokens, equal in both arms.
    """
    of_candidate, of_baseline = visits(rng, load)
    tokens = rng.lognormal(4.5, 0.5, size=(load.blocks, load.requests))
    arms = []
    for levels, factor in ((of_candidate, 1 + slowdown), (of_baseline, 1.0)):
        ttft_s = 0.1 * factor * requests_of(rng, levels, load)
        tpot_s = 0.02 * factor * np.exp(levels[:, None] / 2 + rng.normal(scale=0.1, size=tokens.shape))
        total_s = ttft_s + tpot_s * tokens
        speed = tokens.sum(axis=1) / total_s.sum(axis=1)
        arms.append((speed, ttft_s.ravel(), tpot_s.ravel(), total_s.ravel()))
    speed, ttft, tpot, total = zip(*arms, strict=True)
    return Windows((speed[0], speed[1]), {"ttft_s": ttft, "tpot_s": tpot, "total_time_s": total})
