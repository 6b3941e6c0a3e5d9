"""Ratios: paired blocks, and sums over clusters."""

from __future__ import annotations

from loadgen.analyze.statistics.types import LEVEL, Estimate, Floats, Ints


def log_ratio_t(candidate: Floats, baseline: Floats, level: float = LEVEL, *, source: str = "client") -> Estimate:
    """Geometric mean of candidate ÷ baseline over paired blocks (one number per block and arm, all > 0)."""
    raise NotImplementedError


def ratio_of_sums_clustered(
    numerator: Floats,
    denominator: Floats,
    cluster: Ints,
    *,
    level: float = LEVEL,
    unit: str = "cases",
    source: str = "per_request",
) -> Estimate:
    """sum(numerator) ÷ sum(denominator), rows of one `cluster` (case) counted as one observation."""
    raise NotImplementedError
