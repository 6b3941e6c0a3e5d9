"""What is judged where a comparison names no thresholds (docs/verdict.md)."""

from __future__ import annotations

from loadgen.scenario import Threshold, parse_threshold

DEFAULTS = (
    "speedup: value>=1",
    "ttft_s: p(95)<=1.05 * baseline",
    "tpot_s: p(95)<=1.05 * baseline",
    "total_time_s: p(99)<=1.05 * baseline",
)


def default_thresholds(arms: int) -> tuple[Threshold, ...]:
    """Speculation may not cost throughput or latency; a single arm has no default."""
    return tuple(map(parse_threshold, DEFAULTS)) if arms > 1 else ()
