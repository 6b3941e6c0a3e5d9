"""Numbers of a candidate beside the baseline, from paired design blocks (docs/method.md, "Comparison").

A ratio is the geometric mean over the blocks, its interval the t interval of their log-ratios. Means of requests are
paired by case: only cases that have the number in both arms, and the others are counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from loadgen.analyze.columns import Bools, Floats, Ints
from loadgen.analyze.metrics import COUNTED, all_sent, column
from loadgen.analyze.pairs import BLOCKS, Pair, left_out, nothing_from, ratio_of_blocks, unknown, with_note
from loadgen.analyze.samples_by_block import drawn
from loadgen.analyze.sides import Side
from loadgen.analyze.spec_counts import Steps, from_step_counters
from loadgen.analyze.statistics import Estimate, bonferroni, mean_bootstrap, quantile_ratio_bootstrap, share_difference
from loadgen.analyze.values import CHUNK, CLIENT, COUNTERS, PER_REQUEST

#: Share of a block at full load from which its steady window speaks for it
STEADY = 1 / 3
#: Instead of a multiple of a number that may be 0
WAY_OUT = "limit the difference instead (rate - baseline<=0.01)"


def net_throughput(pair: Pair, level: float) -> Estimate:
    """Net tokens per second of the blocks, candidate ÷ baseline.

    Of their steady windows; where a block was at full load for less than a third of its time, in either arm, of whole
    blocks, in which both arms did the same work."""
    steady = steady_enough(pair)
    rates = [_net_rate(side, rows, steady) for side, rows in pair.sides]
    note = (
        None
        if steady
        else "whole blocks, with ramp and drain: they were at full load for less than a third of their time"
    )
    return with_note(ratio_of_blocks(pair, rates[0], rates[1], level, CHUNK), note)


def steady_enough(pair: Pair) -> bool:
    """Every usable block stood at full load for at least `STEADY` of its time, in both arms."""
    shares = [(side.steady_s / side.whole_s)[pair.blocks] for side in (pair.candidate, pair.baseline)]
    return all(bool((np.nan_to_num(share) >= STEADY).all()) for share in shares)


def _net_rate(side: Side, rows: Ints, steady: bool) -> Floats:
    """By block; NaN where a request's output was not counted by anybody."""
    net = rows[side.frame.net[rows]]
    flow, seconds = (side.flow.steady, side.steady_s) if steady else (side.flow.run, side.whole_s)
    uncounted = np.nan_to_num(side.sums(net, side.flow.uncounted[net].astype(np.float64))) > 0
    return np.where(uncounted, np.nan, side.sums(net, flow[net]) / seconds)


def mean_ratio(pair: Pair, name: str, level: float, *, inverse: bool = False) -> Estimate:
    """Ratio of the block means of the same cases, candidate ÷ baseline (`inverse`: the other way round)."""
    means, note, source = _means(pair, name)
    first, second = (means[1], means[0]) if inverse else means
    return with_note(ratio_of_blocks(pair, first, second, level, source), note)


def mean_difference(pair: Pair, name: str, level: float, seed: int) -> Estimate:
    """Mean over the blocks of the difference of the block means, candidate − baseline."""
    nothing = nothing_from(pair)
    if nothing:
        return unknown(f"not enough data: {nothing}", len(pair.blocks), level=level)
    means, note, source = _means(pair, name)
    return with_note(_difference(pair, means[0] - means[1], level, seed, source), note)


def _means(pair: Pair, name: str) -> tuple[tuple[Floats, Floats], str | None, str]:
    mine, theirs, note = pair.with_both(name)
    if not len(mine) and name in COUNTED and pair.whole:
        counted = _counted_mean(pair.candidate, name), _counted_mean(pair.baseline, name)
        return counted, None, COUNTERS
    found = []
    for side, rows in ((pair.candidate, mine), (pair.baseline, theirs)):
        values = column(side.frame, name)[rows]
        found.append(side.sums(rows, values) / side.sums(rows, np.ones(len(rows))))
    return (found[0], found[1]), note, PER_REQUEST if name in COUNTED else CLIENT


def _counted_mean(side: Side, name: str) -> Floats:
    """By block, from the servers' counters: Σ ÷ count of their histogram."""
    found = np.full(len(side.keys), np.nan)
    for at, counters in enumerate(side.counters):
        if counters is not None:
            total, count = (counters.get(f"{COUNTED[name]}_{part}") for part in ("sum", "count"))
            if total is not None and count:
                found[at] = total / count
    return found


def _difference(pair: Pair, by_block: Floats, level: float, seed: int, source: str) -> Estimate:
    differences = by_block[pair.blocks]
    told = ~np.isnan(differences)
    if not told.any():
        return unknown("no design block has the number in both arms", source=source, level=level)
    block = np.arange(int(told.sum()), dtype=np.int64)
    return replace(mean_bootstrap(differences[told], block, seed=seed, level=level, source=source), unit=BLOCKS)


def difference_of_shares(
    pair: Pair, hits: tuple[Bools, Bools], asked: tuple[Bools, Bools], level: float, seed: int
) -> Estimate:
    """Share of the requests `asked` of with a hit, in the blocks that both arms finished, candidate − baseline."""
    parts = []
    for (side, rows), hit, among in zip(pair.sides, hits, asked, strict=True):
        mine = rows[np.isin(side.block[rows], pair.blocks) & among[rows]]
        if not len(mine):
            return unknown(f"{side.name} has no request in a block that both arms finished", level=level)
        parts.append((hit[mine].astype(np.float64), side.block[mine]))
    found = share_difference(parts[0], parts[1], seed=seed, level=level)
    return with_note(found, left_out(pair))


def quantile_ratio(pair: Pair, name: str, q: float, level: float, seed: int) -> Estimate:
    """Of the all-sent view, over the usable blocks."""
    parts = [_values(side, rows, name, pair.blocks) for side, rows in pair.sides]
    for (values, _), side in zip(parts, (pair.candidate, pair.baseline), strict=True):
        if not len(values):
            return unknown(f"{side.name} has no request with the number in a paired block", level=level)
    (mine, my_block), (theirs, their_block) = parts
    return quantile_ratio_bootstrap(mine, my_block, theirs, their_block, q, seed=seed, level=level)


def sample_ratio(pair: Pair, name: str, q: float, level: float, seed: int) -> Estimate:
    """Of chunks or tokens."""
    parts = []
    for side, rows in pair.sides:
        found = drawn(side, rows, name)
        inside = np.isin(found.block, pair.blocks)
        if not inside.any():
            return unknown(f"{side.name} has no sample in a paired block", level=level)
        parts.append((found.values[inside], found.block[inside]))
    (mine, my_block), (theirs, their_block) = parts
    return quantile_ratio_bootstrap(mine, my_block, theirs, their_block, q, seed=seed, level=level, source=CHUNK)


def _values(side: Side, rows: Ints, name: str, blocks: Ints) -> tuple[Floats, Ints]:
    values = all_sent(side.frame, name)[rows]
    keep = ~np.isnan(values) & np.isin(side.block[rows], blocks)
    return values[keep], side.block[rows][keep]


def difference_of_intervals(mine: Estimate, theirs: Estimate, level: float) -> Estimate:
    """Candidate − baseline of two intervals made at the level `half_level(level)`: it covers at least `level`."""
    method = "difference of two intervals (Bonferroni)"
    if mine.value is None or theirs.value is None or np.isinf(theirs.value):
        reason = mine.reason if mine.value is None else theirs.reason
        return unknown(reason or "the baseline's percentile falls among failed requests", level=level)
    low = high = None
    if mine.low is not None and theirs.high is not None and np.isfinite(theirs.high):
        low = mine.low - theirs.high
    if mine.high is not None and theirs.low is not None and np.isfinite(theirs.low):
        high = mine.high - theirs.low
    whole = low is not None and high is not None
    return Estimate(
        mine.value - theirs.value, low if whole else None, high if whole else None, min(mine.n, theirs.n), mine.unit,
        method, mine.source, mine.reason or theirs.reason, level, mine.needs_n or theirs.needs_n,
    )  # fmt: skip


def ratio_of_intervals(mine: Estimate, theirs: Estimate, level: float) -> Estimate:
    """Candidate ÷ baseline of two intervals made at the level `half_level(level)`, of numbers not below 0: it covers at
    least `level`. Where the baseline's is 0 there is no ratio, and where it may be, no interval."""
    method = "ratio of two intervals (Bonferroni)"
    for one in (mine, theirs):
        if one.value is None:
            return replace(one, level=level)
    if not theirs.value or mine.value is None:
        why = f"the baseline's is 0, and so is any multiple of it: {WAY_OUT}"
        return unknown(why, theirs.n, theirs.unit, level=level)
    if np.isinf(theirs.value):
        why = "the baseline's is among failed requests: there is no multiple of it"
        return unknown(why, theirs.n, theirs.unit, level=level)
    low = high = None
    reason = mine.reason or theirs.reason
    if mine.low is not None and mine.high is not None and theirs.low is not None and theirs.high is not None:
        if theirs.low > 0:
            low, high = 0.0 if np.isinf(theirs.high) else mine.low / theirs.high, mine.high / theirs.low
        else:
            reason = f"the baseline's interval reaches 0, so the ratio has no upper bound: {WAY_OUT}"
    return Estimate(
        mine.value / theirs.value, low, high, min(mine.n, theirs.n), mine.unit, method, mine.source, reason, level,
        mine.needs_n or theirs.needs_n,
    )  # fmt: skip


def half_level(level: float) -> float:
    return bonferroni(level, 2)


def decode_parts(pair: Pair, level: float) -> dict[str, Estimate]:
    """`e_ratio`, `c` and `speedup_decode`, of the cases that have a time per token in both arms: in every block
    speedup = E / c, so it holds for their means as well. Where chunks tell the steps of some of them only, E and c are
    of those, and say so."""
    mine, theirs, note = pair.with_both("tpot_s")
    (tpot_c, tpot_b) = _tpot(pair, (mine, theirs))
    speedup = with_note(ratio_of_blocks(pair, tpot_b, tpot_c, level, CHUNK), note)
    steps = _steps(pair, (mine, theirs))
    if isinstance(steps, str):
        none = unknown(steps, level=level)
        return {"e_ratio": none, "c": none, "speedup_decode": speedup}
    (e_c, e_b), (time_c, time_b) = steps.tokens_per_step, _tpot(pair, steps.rows)
    why = "; ".join(part for part in (note, steps.note) if part) or None
    return {
        "e_ratio": with_note(ratio_of_blocks(pair, e_c, e_b, level, steps.source), why),
        "c": with_note(ratio_of_blocks(pair, e_c * time_c, e_b * time_b, level, steps.source), why),
        "speedup_decode": speedup,
    }


def _tpot(pair: Pair, rows: tuple[Ints, Ints]) -> tuple[Floats, Floats]:
    """(candidate, baseline) Σ decode seconds ÷ Σ decode tokens by block."""
    c, b = (
        side.sums(mine, side.frame.decode_s[mine]) / side.sums(mine, side.frame.decode_tokens[mine])
        for side, mine in zip((pair.candidate, pair.baseline), rows, strict=True)
    )
    return c, b


@dataclass(frozen=True)
class _Steps:
    """(candidate, baseline): `tokens_per_step` by block, and the `rows` it is of."""

    tokens_per_step: tuple[Floats, Floats]
    rows: tuple[Ints, Ints]
    source: str
    note: str | None = None


def _steps(pair: Pair, rows: tuple[Ints, Ints]) -> _Steps | str:
    """From the servers' own step counts where both have them for every block and count these rows alone, else from the
    chunks, else from counters that count other requests too; or why nothing tells."""
    counted = _counted(pair, rows)
    if counted is not None:
        return _Steps(counted, rows, COUNTERS)
    told = _chunked(pair, rows)
    if not isinstance(told, str):
        return told
    counted = _counted(pair, (pair.rows, pair.base_rows))
    if counted is None:
        return told
    return _Steps(counted, rows, COUNTERS, "steps are of all requests: no chunks tell those of these cases alone")


def _chunked(pair: Pair, rows: tuple[Ints, Ints]) -> _Steps | str:
    sides = (pair.candidate, pair.baseline)
    told = [~np.isnan(side.steps[0][mine]) for side, mine in zip(sides, rows, strict=True)]
    for side, known in zip(sides, told, strict=True):
        if not known.any():
            return f"{side.name}: no stream's chunks tell its decode steps, and no counter does for every block"
    both = told[0] & told[1]
    if not both.any():
        return "no case has chunks that tell its decode steps in both arms, and no counter does for every block"
    used = rows[0][both], rows[1][both]
    c, b = (
        side.sums(mine, side.steps[1][mine]) / np.maximum(side.sums(mine, side.steps[0][mine]), 0.5)
        for side, mine in zip(sides, used, strict=True)
    )
    left_out = int((~both).sum())
    note = f"{left_out} of {len(both)} cases left out: their chunks do not tell decode steps in both arms"
    return _Steps((c, b), used, CHUNK, note if left_out else None)


def _counted(pair: Pair, rows: tuple[Ints, Ints]) -> tuple[Floats, Floats] | None:
    if not pair.whole or not len(pair.blocks):
        return None
    c, b = (
        _counted_steps(side, mine, pair.blocks)
        for side, mine in zip((pair.candidate, pair.baseline), rows, strict=True)
    )
    return None if np.isnan(np.concatenate([c[pair.blocks], b[pair.blocks]])).any() else (c, b)


def _counted_steps(side: Side, rows: Ints, blocks: Ints) -> Floats:
    """By block; NaN where the server counted more tokens than those of `rows`."""
    found = np.full(len(side.keys), np.nan)
    for at in blocks:
        steps: Steps | None = from_step_counters(side.frame, rows[side.block[rows] == at], side.counters[at])
        if steps is not None and steps.steps > 0:
            found[at] = steps.tokens / steps.steps
    return found
