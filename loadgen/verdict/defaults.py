"""What is judged where a comparison names no thresholds (docs/verdict.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loadgen.scenario import Threshold, parse_threshold

DEFAULTS = (
    "speedup: value>=1",
    "ttft_s: p(95)<=1.05 * baseline",
    "tpot_s: p(95)<=1.05 * baseline",
    "total_time_s: p(99)<=1.05 * baseline",
)


def default_thresholds(arms: int, stages: Sequence[str] = ()) -> tuple[Threshold, ...]:
    """Speculation may not cost throughput or latency, in any of `stages` (none: all together): a gain at one load must
    not hide a loss at another. A single arm has no default."""
    if arms < 2:
        return ()
    general = tuple(map(parse_threshold, DEFAULTS))
    each = tuple(replace(threshold, where=(("stage", stage),)) for stage in stages for threshold in general)
    return each or general
