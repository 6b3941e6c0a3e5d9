"""Numbers of one arm by itself, with intervals (docs/method.md, "Intervals of one arm").

Blocks are the design blocks where there are enough of them, else equal parts of the measured segments by sending
time, none shorter than two median requests, so that what one block holds says little of the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from loadgen.analyze.columns import Bools, Floats, Ints, flat
from loadgen.analyze.counters import combine
from loadgen.analyze.metrics import COUNTED, METRICS, all_sent, column, population, quantile_of
from loadgen.analyze.pairs import unknown, with_note
from loadgen.analyze.rollback import rollback
from loadgen.analyze.samples_by_block import drawn, samples_named, streams
from loadgen.analyze.sides import Side, block_key
from loadgen.analyze.spec_counts import from_counters, from_step_counters, per_request
from loadgen.analyze.statistics import (
    MIN_BLOCKS,
    Estimate,
    mean_bootstrap,
    none_in,
    quantile_bootstrap,
    ratio_of_sums_clustered,
    share_bootstrap,
)
from loadgen.analyze.throughput import met
from loadgen.analyze.values import CHUNK, CLIENT, COUNTERS, PER_REQUEST
from loadgen.drive import Outcome

#: Parts that measured segments are cut into where there are too few design blocks; the least length of one, as a
#: multiple of the median total time
PARTS, LONGEST_MEMORY = 24, 2.0


@dataclass(frozen=True)
class Chosen:
    """The rows of one arm under a selection. `whole`: all requests of the segments they are in."""

    side: Side
    rows: Ints
    whole: bool
    slos: Mapping[str, Any]
    seed: int
    level: float

    @cached_property
    def block(self) -> Ints:
        """(n,) of all rows of the arm: the block of each, for intervals of this arm alone."""
        design = self.side.block
        if len(np.unique(design[self.rows])) >= MIN_BLOCKS:
            return design
        parts = self._parts()
        return design if parts is None else parts

    def _parts(self) -> Ints | None:
        """Equal parts of each segment by sending time; None where they would be too short."""
        frame, rows = self.side.frame, self.rows
        segments = np.unique(frame.segment[rows])
        times = frame.total_time_s[rows]
        times = times[~np.isnan(times)]
        if not len(times):
            return None
        each = -(-PARTS // max(len(segments), 1))
        found, first = np.full(frame.n, -1, dtype=np.int64), 0
        for segment in segments:
            mine = np.flatnonzero((frame.segment == segment) & frame.sent[1])
            sent = frame.sent[0][mine]
            span = int(sent.max() - sent.min()) + 1 if len(mine) else 0
            if span / 1e9 / each < LONGEST_MEMORY * float(np.median(times)):
                return None
            found[mine] = first + (sent - sent.min()) * each // span
            first += each
        return found

    @property
    def windows(self) -> list[Any]:
        segments = set(np.unique(self.side.frame.segment[self.rows]).tolist())
        return [w for w in self.side.data.windows if w.phase.segment in segments]


def estimate_of(chosen: Chosen, name: str, aggregate: str) -> Estimate:
    """Raises nothing for what is not there: `value` None, with the reason."""
    if aggregate == "count":
        n = len(chosen.rows)
        return Estimate(n, n, n, n, "requests", "count", CLIENT, None, chosen.level)
    kind = METRICS[name].kind
    if kind == "request":
        return _of_requests(chosen, name, aggregate)
    if kind == "sample":
        return _of_samples(chosen, name, aggregate)
    if aggregate not in ("value", "rate", "avg"):
        return unknown(f"{name} has no {aggregate}: ask for its value", level=chosen.level)
    if kind == "share":
        return _share(chosen, name)
    return _rate(chosen, name) if kind == "rate" else _count_ratio(chosen, name)


def _of_requests(chosen: Chosen, name: str, aggregate: str) -> Estimate:
    side, rows = chosen.side, chosen.rows
    rows = rows[population(side.frame, name)[rows]]
    values = all_sent(side.frame, name)[rows]
    told = ~np.isnan(values)
    rows, values = rows[told], values[told]
    if not (np.isfinite(values)).any():
        return _nothing(chosen, name, len(rows))
    source = PER_REQUEST if name in COUNTED else CLIENT
    q = quantile_of(aggregate)
    if q is not None:
        return quantile_bootstrap(values, chosen.block[rows], q, seed=chosen.seed, level=chosen.level, source=source)
    if aggregate in ("max", "min"):
        value = float(values.max() if aggregate == "max" else values.min())
        why = "an extreme has no interval"
        return Estimate(value, None, None, len(values), "requests", aggregate, source, why, chosen.level)
    fine = np.isfinite(values)
    if aggregate == "pooled" and name == "tpot_s":
        found = _pooled_tpot(chosen, rows[fine])
    elif aggregate in ("avg", "value"):
        found = mean_bootstrap(
            values[fine], chosen.block[rows][fine], seed=chosen.seed, level=chosen.level, source=source
        )
    else:
        return unknown(f"{name} has no {aggregate}", level=chosen.level)
    failed = int((~fine).sum())
    return with_note(found, f"{failed} requests that did not end ok are not in the mean" if failed else None)


def _pooled_tpot(chosen: Chosen, rows: Ints) -> Estimate:
    """Each token counts once, not each request: the mean whose ratio is E ÷ c."""
    frame = chosen.side.frame
    seconds, tokens = frame.decode_s[rows], frame.decode_tokens[rows]
    return ratio_of_sums_clustered(
        seconds, tokens, chosen.block[rows], unit="blocks", level=chosen.level, source=CHUNK, share=False
    )


def _nothing(chosen: Chosen, name: str, failed: int) -> Estimate:
    """No request has the number: the counters' mean, all of them failed, or not measured."""
    if failed:
        inf = float("inf")
        reason = f"none of {failed} requests ended ok"
        return Estimate(inf, inf, inf, failed, "requests", "all failed", CLIENT, reason, chosen.level)
    if name in COUNTED and chosen.whole:
        counters = combine([w.counters for w in chosen.windows])
        total, count = (counters.get(f"{COUNTED[name]}_{part}") for part in ("sum", "count"))
        if total is not None and count:
            why = "counters give the mean only, without an interval"
            return Estimate(total / count, None, None, int(count), "requests", "Σ ÷ count", COUNTERS, why, chosen.level)
    facts = chosen.side.data.setting.facts
    reason = facts.absent_columns.get(name, f"no request of {chosen.side.name} in this selection has it")
    return unknown(reason, unit="requests", level=chosen.level)


def _of_samples(chosen: Chosen, name: str, aggregate: str) -> Estimate:
    found = drawn(chosen.side, chosen.rows, name)
    unit = "chunks" if name == "chunk_gap_s" else "tokens"
    if not found.n:
        why = f"no ok stream of {chosen.side.name} in this selection has it"
        return unknown(why, unit=unit, source=CHUNK, level=chosen.level)
    block = chosen.block[found.row]
    q = quantile_of(aggregate)
    if q is None:
        if aggregate != "avg":
            return unknown(f"{name} has no {aggregate}", unit=unit, source=CHUNK, level=chosen.level)
        made = mean_bootstrap(found.values, block, seed=chosen.seed, level=chosen.level, source=CHUNK)
    else:
        made = quantile_bootstrap(found.values, block, q, seed=chosen.seed, level=chosen.level, source=CHUNK)
        made = replace(made, value=_exact(chosen, name, q) if found.thinned else made.value)
    method = f"{made.method}; of every {found.n // len(found.values)}th by value" if found.thinned else made.method
    return replace(made, n=found.n, unit=unit, method=method)


def _exact(chosen: Chosen, name: str, q: float) -> float:
    """Nearest rank over all samples of the selection."""
    found = samples_named(chosen.side, name).of(streams(chosen.side, chosen.rows))
    return found.sample(max(int(np.ceil(np.round(q * found.n, 9))), 1))


def hits_of(side: Side, name: str, slos: Mapping[str, Any]) -> Bools | str:
    """(n,) which requests count in a share; or why there is none."""
    if name == "error_share":
        return ~side.frame.ok
    limits = {key: float(limit) for key, limit in slos.items() if limit is not None}
    return met(side.frame, limits) if limits else "the scenario sets no SLO"


def asked_of(side: Side, name: str) -> Bools:
    """(n,) which requests a share is of. What our own drain or stop cut is no error."""
    if name == "error_share":
        return np.asarray(side.frame.outcome != Outcome.ABORTED.value, dtype=np.bool_)
    return np.ones(side.frame.n, dtype=np.bool_)


def _share(chosen: Chosen, name: str) -> Estimate:
    hits = hits_of(chosen.side, name, chosen.slos)
    if isinstance(hits, str):
        return unknown(hits, unit="requests", level=chosen.level)
    asked = asked_of(chosen.side, name)[chosen.rows]
    rows = chosen.rows[asked]
    cut = int((~asked).sum())
    if not len(rows):
        why = (
            f"all {cut} requests were cut by our own drain or stop" if cut else "no request was sent in this selection"
        )
        return unknown(why, unit="requests", level=chosen.level)
    found = share_bootstrap(hits[rows].astype(np.float64), chosen.block[rows], seed=chosen.seed, level=chosen.level)
    return with_note(found, f"{cut} requests that our own drain or stop cut are not in it" if cut else None)


def _rate(chosen: Chosen, name: str) -> Estimate:
    """Σ over the blocks ÷ Σ of their steady windows."""
    counted = _counted_in(chosen, name)
    if isinstance(counted, str):
        return unknown(counted, level=chosen.level)
    mine, amount = counted
    total, duration = _by_block(chosen, mine, amount)
    told = duration > 0
    if not told.any():
        why = next((w.steady_reason for w in chosen.windows if w.steady is None), "no measured segment was begun")
        return unknown(why, level=chosen.level)
    if name in ("requests_per_s", "goodput_requests_per_s") and not total.any():
        return none_in(float(duration[told].sum()), level=chosen.level, source=CHUNK)
    found = ratio_of_sums_clustered(
        total[told], duration[told], np.flatnonzero(told), unit="blocks", level=chosen.level, source=CHUNK, share=False
    )
    uncounted = int(chosen.side.flow.uncounted[mine].sum()) if "tokens" in name else 0
    if uncounted:
        return _at_least(found, f"{uncounted} requests have output that nobody counted")
    return found if found.value else replace(found, reason=f"not one token came in {duration[told].sum():.4g} s")


def _at_least(found: Estimate, why: str) -> Estimate:
    """More came than was counted: there is no upper limit, and of nothing counted no number at all."""
    if not found.value:
        return unknown(why, found.n, found.unit, found.source, found.level)
    high = None if found.high is None else float("inf")
    return with_note(replace(found, high=high), f"{why}: a lower bound only")


def _counted_in(chosen: Chosen, name: str) -> tuple[Ints, Floats] | str:
    """Rows, and what each counts for in the steady windows."""
    side, rows = chosen.side, chosen.rows
    if name == "net_tokens_per_s":
        mine = rows[side.frame.net[rows]]
        return mine, side.flow.steady[mine]
    per_request = side.flow.ended_steady.astype(np.float64)
    if name == "requests_per_s":
        mine = rows[side.frame.ok[rows]]
        return mine, per_request[mine]
    good = hits_of(side, "goodput_share", chosen.slos)
    if isinstance(good, str):
        return good
    mine = rows[good[rows]]
    return mine, (per_request if name == "goodput_requests_per_s" else side.flow.steady)[mine]


def _by_block(chosen: Chosen, rows: Ints, amount: Floats) -> tuple[Floats, Floats]:
    """(Σ amount, seconds) by design block; of token rates of too few blocks by parts of the steady windows."""
    side = chosen.side
    used = np.zeros(len(side.keys), dtype=np.bool_)
    used[[side.keys.index(block_key(w)) for w in chosen.windows]] = True
    duration = np.where(used, np.nan_to_num(side.steady_s), 0.0)
    total = np.nan_to_num(side.sums(rows, amount))
    if used.sum() >= MIN_BLOCKS or not len(rows):
        return total, duration
    return _parts_of_windows(chosen, rows, amount) or (total, duration)


def _parts_of_windows(chosen: Chosen, rows: Ints, amount: Floats) -> tuple[Floats, Floats] | None:
    """Each steady window in equal parts; a request's amount is spread over its chunks inside as their tokens are.

    None where the parts would be too short, or some amount has no chunk (not streamed)."""
    frame, ledgers = chosen.side.frame, chosen.side.frame.ledgers
    windows = [w for w in chosen.windows if w.steady is not None]
    times = frame.total_time_s[rows]
    times = times[~np.isnan(times)]
    each = -(-PARTS // max(len(windows), 1))
    totals, durations = [], []
    for window in windows:
        start, end = window.steady
        mine = np.flatnonzero(frame.segment[rows] == window.phase.segment)
        if not len(times) or (end - start) / 1e9 / each < LONGEST_MEMORY * float(np.median(times)):
            return None
        if (ledgers.chunks[rows[mine]] == 0).any():
            return None
        at = flat(ledgers.offsets, rows[mine])
        owner = np.repeat(mine, ledgers.chunks[rows[mine]])
        inside = (ledgers.at_ns[at] > start) & (ledgers.at_ns[at] <= end)
        weight = np.maximum(ledgers.tokens[at], 1).astype(np.float64) * inside
        whole = np.bincount(owner, weights=weight, minlength=len(rows))
        share = weight[inside] / whole[owner[inside]] * amount[owner[inside]]
        part = (ledgers.at_ns[at][inside] - start - 1) * each // (end - start)
        totals.append(np.bincount(part, weights=share, minlength=each))
        durations.append(np.full(each, (end - start) / 1e9 / each))
    return (np.concatenate(totals), np.concatenate(durations)) if totals else None


def _count_ratio(chosen: Chosen, name: str) -> Estimate:
    """Sums of counts, clustered by case: all repeats of a prompt together."""
    side, rows = chosen.side, chosen.rows
    stats = side.frame.stats
    told = rows[side.frame.ok[rows] & stats.told[rows]]
    if name == "e_decode":
        return _tokens_per_step(chosen)
    if name == "rollback_rate":
        return _rollback(chosen, told)
    mine = told[~np.isnan(stats.drafted[told])]
    if not len(mine):
        return _from_counters(chosen)
    return _clustered(chosen, mine, stats.accepted[mine], stats.drafted[mine], "nothing was drafted")


def _clustered(chosen: Chosen, rows: Ints, part: Floats, whole: Floats, when_zero: str) -> Estimate:
    if not np.nansum(whole) > 0:
        return unknown(when_zero, unit="cases", source=PER_REQUEST, level=chosen.level)
    frame = chosen.side.frame
    return ratio_of_sums_clustered(
        np.nan_to_num(part), np.nan_to_num(whole), frame.case_no[rows], level=chosen.level, source=PER_REQUEST
    )


def _from_counters(chosen: Chosen) -> Estimate:
    counters = combine([w.counters for w in chosen.windows]) if chosen.whole else None
    drafts = from_counters(chosen.side.frame, chosen.rows, counters)
    if drafts is None or not drafts.drafted:
        return unknown(chosen.side.data.setting.why_no_drafts, unit="cases", level=chosen.level)
    why = "counters know no cases, so there is no interval"
    return Estimate(
        drafts.accepted / drafts.drafted,
        None,
        None,
        int(drafts.drafted),
        "tokens",
        "A ÷ T",
        COUNTERS,
        why,
        chosen.level,
    )


def _rollback(chosen: Chosen, told: Ints) -> Estimate:
    """Clustered by case where every count is exact, else the bounds, which no sample makes narrower."""
    side = chosen.side
    counters = combine([w.counters for w in chosen.windows]) if chosen.whole else None
    drafts = per_request(side.frame, chosen.rows) or from_counters(side.frame, chosen.rows, counters)
    setting = side.data.setting
    known = rollback(side.frame, chosen.rows, drafts, counters, setting.artefact, setting.structured)
    if known.exact and known.source == PER_REQUEST:
        stats = side.frame.stats
        return _clustered(chosen, told, stats.bound_low[told], stats.rounds[told], "no round was made")
    reason = known.reason or "counters know no cases, so there is no interval"
    low, high = (None, None) if known.exact else (known.low, known.high)
    return Estimate(known.value, low, high, known.n, "rounds", "bounds", known.source, reason, chosen.level)


def _tokens_per_step(chosen: Chosen) -> Estimate:
    side, rows = chosen.side, chosen.rows
    if chosen.whole:
        server = from_step_counters(side.frame, rows, combine([w.counters for w in chosen.windows]))
        if server is not None:
            why = "counters know no cases, so there is no interval"
            value = server.tokens / server.steps
            return Estimate(
                value, None, None, int(server.steps), "steps", "tokens ÷ steps", COUNTERS, why, chosen.level
            )
    steps, tokens = side.steps
    mine = rows[side.frame.ok[rows] & ~np.isnan(steps[rows])]
    if not len(mine) or not steps[mine].sum() > 0:
        return unknown("no stream's chunks tell its decode steps", unit="cases", source=CHUNK, level=chosen.level)
    return ratio_of_sums_clustered(
        tokens[mine], steps[mine], side.frame.case_no[mine], level=chosen.level, source=CHUNK
    )


def with_value(side: Side, rows: Ints, name: str) -> Ints:
    """The ok requests among `rows` that have the number."""
    mine = rows[side.frame.ok[rows] & population(side.frame, name)[rows]]
    return mine[~np.isnan(column(side.frame, name)[mine])]
