"""How much data is needed, and what a sample can show."""

from __future__ import annotations

from loadgen.analyze.statistics.types import LEVEL, Estimate, Floats


def min_requests_for_quantile(q: float, confidence: float = 0.99) -> int:
    """Requests, none of them over a limit, that show the q-quantile to be below it (P95: 90, P99: 459)."""
    raise NotImplementedError


def power_of_ratio(
    cv_of_log_ratio: float, blocks: int, effect: float, *, level: float = LEVEL, tests: int = 1
) -> float:
    """Chance that a slowdown by `effect` (0.05 = 5 %) is shown: the interval of the ratio excludes 1 on that side.

    `cv_of_log_ratio`: standard deviation of a block's log-ratio. `tests`: Bonferroni over so many thresholds.
    """
    raise NotImplementedError


def blocks_for_precision(cv_of_log_ratio: float, half_width: float, *, level: float = LEVEL) -> int:
    """Paired blocks for a ratio's interval of at most ± `half_width` (0.02 = 2 %)."""
    raise NotImplementedError


def coefficient_of_variation(per_repeat: Floats, *, level: float = LEVEL, source: str = "client") -> Estimate:
    """Standard deviation ÷ mean of one number per repeat."""
    raise NotImplementedError
