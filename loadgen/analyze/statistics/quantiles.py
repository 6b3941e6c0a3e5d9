"""Quantiles with intervals."""

from __future__ import annotations

from loadgen.analyze.statistics.types import LEVEL, RESAMPLES, Estimate, Floats, Ints


def quantile_bootstrap(
    values: Floats,
    block: Ints,
    q: float,
    *,
    seed: int,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    source: str = "client",
) -> Estimate:
    """The q-quantile (0 < q < 1) of `values` (+inf = failed), blocks numbered in `block` in order of time."""
    raise NotImplementedError


def quantile_ratio_bootstrap(
    candidate: Floats,
    candidate_block: Ints,
    baseline: Floats,
    baseline_block: Ints,
    q: float,
    *,
    seed: int,
    paired: bool = True,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    source: str = "client",
) -> Estimate:
    """q-quantile of the candidate ÷ that of the baseline; `paired`: blocks of one number belong together."""
    raise NotImplementedError
