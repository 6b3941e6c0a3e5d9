"""Quantiles and their ratios with intervals: a bootstrap over time blocks, stretched in ranks.

A resample's quantile is expressed as a rank of the whole sample. The distance of that rank from the quantile's own, in
logits, is multiplied by `stretch` (t quantile, small-sample variance, correlation from block to block), for a single
quantile also corrected for skewness, and only then turned back into a value. So the interval needs no density, follows
every increasing transformation of the values, takes failures as +inf, and runs off the end of the sample (+inf) where
the tail holds too little. Formulas: docs/statistics.md.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from loadgen.analyze.statistics.distributions import normal_quantile
from loadgen.analyze.statistics.planning import min_requests_for_quantile
from loadgen.analyze.statistics.resample import SortedSample, draw_weights, exact_share, middle, stretch, stretched
from loadgen.analyze.statistics.serial import acceleration, inflation, inflation_if_shown
from loadgen.analyze.statistics.types import LEVEL, MIN_BLOCKS, RESAMPLES, Estimate, Floats, Ints


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
    """The nearest-rank q-quantile (0 < q < 1) of `values` (+inf = failed; no NaN), in any order.

    `block` numbers the time block of each value, in order of time. n counts requests. An interval needs `MIN_BLOCKS`
    blocks and `min_requests_for_quantile(q)` requests; a value alone 1 / (1 - q).
    """
    share = exact_share(q)
    sample = SortedSample.of(values, block)
    blocks = sample.blocks
    method = f"nearest rank; bootstrap of {blocks} blocks, {resamples} resamples, stretched to t"
    found = Estimate(None, None, None, sample.n, "requests", method, source, level=level)
    if (short := _short_of_value(sample.n, share)) is not None:
        return replace(found, reason=short, needs_n=_smallest(share))
    centre = sample.rank_of(share)
    found = replace(found, value=sample.quantile(share))
    if (lacking := _lacking(found, blocks, sample.n, q)) is not None:
        return lacking
    ranks = sample.ranks(draw_weights(blocks, resamples, seed), share)
    influence = -sample.excess(share)
    # where slow requests crowd into few blocks, too low a quantile comes with too small a spread (BCa's acceleration)
    skew = acceleration(influence) * normal_quantile((1 + level) / 2)
    moved = stretched(ranks, centre, sample.n, stretch(blocks, level, _inflation(sample, share)), skew)
    ends = np.array(middle(moved.astype(np.float64)), dtype=np.int64)
    low, high = sample.at(ends)
    return _told(replace(found, low=float(low), high=float(high)), sample.n, centre, int(ends[1]))


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
    """The q-quantile of the candidate ÷ that of the baseline; values >= 0, +inf = failed. n counts blocks.

    `paired`: blocks of one number were measured under the same conditions and are drawn together; requests of blocks
    that only one arm has are left out, and `reason` says so. Else the arms are resampled apart (runs made at different
    times), n is the smaller number of blocks. Both arms need what a quantile's own interval needs.
    """
    share = exact_share(q)
    c = SortedSample.of(candidate, candidate_block, 0.0)
    b = SortedSample.of(baseline, baseline_block, 0.0)
    note = None
    if paired:
        common = np.intersect1d(candidate_block, baseline_block).astype(np.int64)
        c, left_out_c = _only(candidate, candidate_block, common)
        b, left_out_b = _only(baseline, baseline_block, common)
        if left_out_c + left_out_b:
            note = f"{left_out_c + left_out_b} requests in blocks that only one arm has are left out"
    blocks = min(c.blocks, b.blocks)
    how = "paired" if paired else "unpaired"
    method = f"ratio of nearest ranks; bootstrap of {blocks} {how} blocks, {resamples} resamples, stretched to t"
    found = Estimate(None, None, None, blocks, "blocks", method, source, note, level)
    for sample in (c, b):
        if (short := _short_of_value(sample.n, share)) is not None:
            return replace(found, reason=short, n=sample.n, unit="requests", needs_n=_smallest(share))
    found = _with_ratio(found, c.quantile(share), b.quantile(share))
    if found.value is None:
        return found
    if (lacking := _lacking(found, blocks, min(c.n, b.n), q)) is not None:
        return lacking
    low, high = _ratio_interval(c, b, share, paired=paired, resamples=resamples, level=level, seed=seed)
    if math.isinf(high) and found.reason is None:
        found = replace(found, reason="no upper limit: the upper tail holds too few requests, or failures")
    return replace(found, low=low, high=high)


def _only(values: Floats, block: Ints, common: Ints) -> tuple[SortedSample, int]:
    """The requests in these blocks, and how many others there are."""
    kept = np.isin(block, common)
    return SortedSample.of(np.asarray(values)[kept], np.asarray(block)[kept]), int((~kept).sum())


def _ratio_interval(
    c: SortedSample, b: SortedSample, share: Fraction, *, paired: bool, resamples: int, level: float, seed: int
) -> tuple[float, float]:
    """Every resample's ranks are stretched in both arms, then divided."""
    drawn = draw_weights(c.blocks, resamples, seed)
    if paired:
        inflated = inflation_if_shown(c.excess(share) / c.n - b.excess(share) / b.n)
        upper = _stretched_values(c, drawn, share, stretch(c.blocks, level, inflated))
        lower = _stretched_values(b, drawn, share, stretch(b.blocks, level, inflated))
    else:
        others = draw_weights(b.blocks, resamples, seed + 1)
        upper = _stretched_values(c, drawn, share, stretch(c.blocks, level, _inflation(c, share)))
        lower = _stretched_values(b, others, share, stretch(b.blocks, level, _inflation(b, share)))
    # both beyond the sample or failed, or both 0: the ratio of that resample may be anything
    unknown = (np.isinf(upper) & np.isinf(lower)) | ((upper == 0) & (lower == 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = upper / lower
    return middle(np.where(unknown, 0.0, ratio), np.where(unknown, np.inf, ratio))


def _inflation(sample: SortedSample, share: Fraction) -> float:
    """That of the quantile or of the median, whichever is larger: the tail alone shows a drifting level but dimly."""
    return max(inflation(sample.excess(share)), inflation(sample.excess(Fraction(1, 2))))


def _stretched_values(sample: SortedSample, weights: Ints, share: Fraction, factor: float) -> Floats:
    """For each resample its quantile, moved away from the sample's own by `factor` in ranks; 0 below the first."""
    moved = stretched(sample.ranks(weights, share), sample.rank_of(share), sample.n, factor)
    return np.maximum(sample.at(moved), 0.0)


def _with_ratio(found: Estimate, candidate: float, baseline: float) -> Estimate:
    if math.isinf(baseline):
        return replace(found, reason="the baseline's quantile falls among its failed requests")
    if baseline == 0:
        return replace(found, reason="the baseline's quantile is 0")
    return replace(found, value=candidate / baseline)


def _smallest(share: Fraction) -> int:
    """Samples that the value alone needs, as in docs/method.md, "Percentiles"."""
    return 1 if share == Fraction(1, 2) else math.ceil(1 / min(share, 1 - share))


def _short_of_value(n: int, share: Fraction) -> str | None:
    least = _smallest(share)
    return None if n >= least else f"not enough data: needs at least {least} requests, there are {n}"


def _lacking(found: Estimate, blocks: int, n: int, q: float) -> Estimate | None:
    """`found` with the reason why it has no interval; None: it can have one."""
    if blocks < MIN_BLOCKS:
        reason = f"not enough data: an interval needs at least {MIN_BLOCKS} blocks, there are {blocks}"
        return replace(found, reason=reason, n=blocks, unit="blocks", needs_n=MIN_BLOCKS)
    least = min_requests_for_quantile(max(q, 1 - q))
    if n < least:
        reason = f"not enough data: an interval needs at least {least} requests, there are {n}"
        return replace(found, reason=reason, n=n, unit="requests", needs_n=least)
    return None


def _told(found: Estimate, n: int, centre: int, high_rank: int) -> Estimate:
    """Says why a limit is infinite. The reach grows with the root of n, the tail with n itself."""
    if high_rank > n:
        needed = math.ceil(n * ((high_rank - centre) / max(n - centre, 1)) ** 2)
        reason = f"not enough data for an upper limit: the tail above holds {n - centre} requests"
        return replace(found, reason=reason, needs_n=max(needed, n + 1))
    if found.low == -math.inf:
        return replace(found, reason="not enough data for a lower limit: too few requests lie below")
    if found.infinite:
        return replace(found, reason=f"{' and '.join(found.infinite)} among failed requests")
    return found
