"""Means, shares and rates over time blocks."""

from __future__ import annotations

from loadgen.analyze.statistics.types import LEVEL, RESAMPLES, Estimate, Floats, Ints


def mean_bootstrap(
    values: Floats,
    block: Ints,
    *,
    seed: int,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    source: str = "client",
) -> Estimate:
    """Mean of `values` (finite) over all requests."""
    raise NotImplementedError


def share_bootstrap(
    hit: Floats,
    block: Ints,
    *,
    seed: int,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    source: str = "client",
) -> Estimate:
    """Share of requests with `hit` = 1 (0 or 1 each): errors, requests within every SLO."""
    raise NotImplementedError
