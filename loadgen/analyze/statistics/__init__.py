"""Intervals and tests: pure numpy, seeded, deterministic (docs/statistics.md)."""

from loadgen.analyze.statistics.distributions import normal_quantile
from loadgen.analyze.statistics.means import mean_bootstrap, none_in, share_bootstrap, share_difference
from loadgen.analyze.statistics.multiple import bonferroni, holm
from loadgen.analyze.statistics.planning import (
    blocks_for_precision,
    coefficient_of_variation,
    min_requests_for_quantile,
    power_of_ratio,
)
from loadgen.analyze.statistics.quantiles import quantile_bootstrap, quantile_ratio_bootstrap
from loadgen.analyze.statistics.ranks import mann_whitney
from loadgen.analyze.statistics.ratios import log_ratio_t, ratio_of_sums_clustered
from loadgen.analyze.statistics.serial import inflation
from loadgen.analyze.statistics.types import LEVEL, MIN_BLOCKS, RESAMPLES, Estimate, Floats, Ints, MannWhitney

__all__ = [
    "LEVEL",
    "MIN_BLOCKS",
    "RESAMPLES",
    "Estimate",
    "Floats",
    "Ints",
    "MannWhitney",
    "blocks_for_precision",
    "bonferroni",
    "coefficient_of_variation",
    "holm",
    "inflation",
    "log_ratio_t",
    "mann_whitney",
    "mean_bootstrap",
    "min_requests_for_quantile",
    "none_in",
    "normal_quantile",
    "power_of_ratio",
    "quantile_bootstrap",
    "quantile_ratio_bootstrap",
    "ratio_of_sums_clustered",
    "share_bootstrap",
    "share_difference",
]
