"""Rules about acceptance, rollbacks, where the time goes, and what the arms did differently."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from loadgen.analyze.columns import Floats
from loadgen.analyze.comparison import shown
from loadgen.analyze.comparison_text import place, times
from loadgen.analyze.estimates import Query
from loadgen.analyze.findings.base import Facts, Rule, above, below, finding, of_arms, of_row
from loadgen.analyze.segments import INPUT_EDGES, OUTPUT_EDGES, segment_names
from loadgen.analyze.statistics import Estimate
from loadgen.analyze.summary import Arm, Finding, N
from loadgen.analyze.trend import kendall

#: A segment's rollback rate is above all others' together by at least so much; a fall of acceptance worth saying
CLUSTERED, DRIFT = 0.05, 0.03
#: Blocks a trend needs, and the chance of seeing one where there is none
TREND_BLOCKS, TREND_P = 10, 0.01
#: Share of the server's time that a part has when it is where the time is
MOST = 0.5
#: Difference in answer length, and variation across repeats, worth saying
LENGTH_SHIFT, VARIATION = 0.02, 0.05


def acceptance_drifting_down(facts: Facts, rule: Rule) -> Iterator[Finding]:
    """Of one stage: Mann–Kendall over its blocks in order of time, and a fall from the first to the last third."""
    for name in facts.candidates:
        for stage in facts.estimates.stages():
            rates = _rates_in_time(facts, name, stage)
            if len(rates) < TREND_BLOCKS:
                continue
            third = len(rates) // 3
            first, last = float(rates[:third].mean()), float(rates[-third:].mean())
            trend = kendall(rates)
            if trend.tau < 0 and trend.p < TREND_P and first - last >= DRIFT:
                text = (
                    f"At {stage} the acceptance of {name} falls while the load is the same: {first:.1%} in the first "
                    f"third of {len(rates)} blocks, {last:.1%} in the last (Mann–Kendall p = {trend.p:.2g}). Draft and "
                    "target may be out of step, or caches changed what is drafted."
                )
                numbers: dict[str, float | N | None] = {
                    "first_third": first, "last_third": last, "tau": trend.tau, "p": trend.p,
                    "blocks": float(len(rates)),
                }  # fmt: skip
                yield finding(rule, text, numbers, {"stage": stage, **of_arms(facts, name)})


def _rates_in_time(facts: Facts, arm: str, stage: str) -> Floats:
    """Acceptance of each block (or part of the measured time), in order of sending."""
    chosen = facts.estimates.chosen(arm, {"stage": stage})
    frame = chosen.side.frame
    rows = chosen.rows[frame.ok[chosen.rows] & (np.nan_to_num(frame.stats.drafted[chosen.rows]) > 0)]
    block = chosen.block[rows]
    found: list[tuple[int, float]] = []
    for number in np.unique(block[block >= 0]):
        mine = rows[block == number]
        rate = float(frame.stats.accepted[mine].sum() / frame.stats.drafted[mine].sum())
        found.append((int(frame.sent[0][mine].min()), rate))
    return np.array([rate for _, rate in sorted(found)], dtype=np.float64)


def rollbacks_clustered_in_segment(facts: Facts, rule: Rule) -> Iterator[Finding]:
    for name in facts.candidates:
        for kind, edges in (("input_segment", INPUT_EDGES), ("output_segment", OUTPUT_EDGES)):
            rates = {s: _rollback(facts, name, kind, s) for s in segment_names(edges)}
            known = {s: rate for s, rate in rates.items() if rate.low is not None and rate.high is not None}
            for segment, rate in known.items():
                others = [other for s, other in known.items() if s != segment]
                ceiling = max((o.high for o in others if o.high is not None), default=1.0)
                if rate.value is not None and rate.low is not None and rate.low > ceiling + CLUSTERED:
                    what = kind.split("_")[0]
                    text = (
                        f"Rollbacks of {name} are clustered where the {what} is {segment} tokens: {rate.value:.0%} of "
                        f"the rounds there, at most {ceiling:.0%} in the other segments."
                    )
                    numbers: dict[str, float | N | None] = {"rollback_rate": shown(rate), "others_at_most": ceiling}
                    yield finding(rule, text, numbers, {kind: segment, **of_arms(facts, name)})


def _rollback(facts: Facts, arm: str, kind: str, segment: str) -> Estimate:
    return facts.estimates.estimate(Query("rollback_rate", "value", (("arm", arm), (kind, segment))))


@dataclass(frozen=True)
class _Split:
    """Means in seconds, of `n` requests at least."""

    queue: float
    prefill: float
    decode: float
    n: int

    @property
    def parts(self) -> dict[str, float]:
        total = self.queue + self.prefill + self.decode
        return {} if total <= 0 else {k: getattr(self, k) / total for k in ("queue", "prefill", "decode")}


def time_in_queue(facts: Facts, rule: Rule) -> Iterator[Finding]:
    yield from _time_in(facts, rule, "queue", "requests wait more than they are worked on: the server is overloaded")


def time_in_prefill(facts: Facts, rule: Rule) -> Iterator[Finding]:
    yield from _time_in(facts, rule, "prefill", "speculation does not touch prefill")


def time_in_decode(facts: Facts, rule: Rule) -> Iterator[Finding]:
    yield from _time_in(facts, rule, "decode", "this is the part that speculation can shorten")


def _time_in(facts: Facts, rule: Rule, part: str, meaning: str) -> Iterator[Finding]:
    """By arm: the stages in which that part is most of the server's time."""
    for name, arm in facts.arms.items():
        splits = _splits(arm)
        shares = {stage: split.parts for stage, split in splits.items() if split.parts}
        mine = {stage: parts for stage, parts in shares.items() if parts[part] > MOST}
        if mine:
            most = max(mine, key=lambda stage: mine[stage][part])
            text = (
                f"The server time of {name} is mostly {part} at {', '.join(mine)} (at {most} {mine[most][part]:.0%} "
                f"of it, over {splits[most].n:,} requests): {meaning}."
            )
            numbers: dict[str, float | N | None] = {f"{k}_share": v for k, v in mine[most].items()}
            numbers["requests"] = float(splits[most].n)
            yield finding(rule, text, numbers, {"stage": most, "stages": list(mine), **of_arms(facts, name)})


def _splits(arm: Arm) -> dict[str, _Split]:
    """Means by stage, of stages that tell all three."""
    found: dict[str, _Split] = {}
    for g in arm.by:
        queue, prefill, decode = g.server_queue_s.mean, g.server_prefill_s.mean, g.server_decode_s.mean
        if g.stage is None or g.task_type is not None:
            continue
        if queue is not None and prefill is not None and decode is not None:
            n = min(g.server_queue_s.n, g.server_prefill_s.n, g.server_decode_s.n)
            found[g.stage] = _Split(queue, prefill, decode, n)
    return found


def output_length_shift(facts: Facts, rule: Rule) -> Iterator[Finding]:
    """Answers of other lengths: total time and throughput are then not of the same work."""
    for row in facts.stages:
        metric = row.metric("output_len", "avg")
        ratio = metric.ratio if metric is not None else None
        if ratio is None or ratio.value is None or abs(ratio.value - 1) < LENGTH_SHIFT:
            continue
        if above(ratio, 1) or below(ratio, 1):
            word = "longer" if ratio.value > 1 else "shorter"
            text = (
                f"At {place(row)} the answers of {row.candidate} are {word}: {times(ratio)} of the baseline's length. "
                "Total time and throughput are then not of the same work."
            )
            yield finding(rule, text, {"output_len_ratio": ratio}, of_row(facts, row))


def errors_up(facts: Facts, rule: Rule) -> Iterator[Finding]:
    for row in facts.stages:
        metric = row.metric("error_share", "value")
        if metric is not None and above(metric.difference, 0):
            text = (
                f"At {place(row)} more requests of {row.candidate} fail: {metric.candidate.value or 0:.1%} against "
                f"{metric.baseline.value or 0:.1%}. Means are of the others; percentiles of requests beside the "
                "baseline count failures as +∞."
            )
            numbers = {"candidate": metric.candidate, "baseline": metric.baseline, "difference": metric.difference}
            yield finding(rule, text, numbers, of_row(facts, row))


def not_like_for_like(facts: Facts, rule: Rule) -> Iterator[Finding]:
    for row in facts.stages:
        if row.like_for_like is False:
            mine, theirs = row.candidate_running, row.baseline_running
            text = (
                f"At {place(row)} the servers ran different batches ({mine.value or 0:.1f} requests in "
                f"{row.candidate}, {theirs.value or 0:.1f} in {row.baseline}): E and c also hold that difference."
            )
            yield finding(rule, text, {"candidate_running": mine, "baseline_running": theirs}, of_row(facts, row))


def baseline_not_reproducible(facts: Facts, rule: Rule) -> Iterator[Finding]:
    for row in facts.stages:
        varies = row.repeat_variation.get(row.baseline)
        if varies is not None and varies.value is not None and varies.value > VARIATION:
            text = (
                f"At {place(row)} the baseline does not repeat itself: its speed varies by {varies.value:.1%} "
                f"(coefficient of variation over {varies.n} repeats)."
            )
            yield finding(rule, text, {"variation": varies}, of_row(facts, row))


def acceptance_not_representative(facts: Facts, rule: Rule) -> Iterator[Finding]:
    for name in facts.candidates:
        found = facts.arms[name].overall.speculation
        if not found.representative and (found.rounds.value or 0) > 0:
            text = (
                f"The acceptance of {name} does not speak for real traffic: {found.representative_reason}. "
                "So neither does its gain."
            )
            yield finding(rule, text, {"acceptance_rate": found.acceptance_rate}, of_arms(facts, name))


def greedy_only(facts: Facts, rule: Rule) -> Iterator[Finding]:
    for name in facts.candidates:
        found = facts.arms[name].overall
        if found.conditions.temperature == [0.0] and (found.speculation.rounds.value or 0) > 0:
            text = (
                f"Every request of {name} was greedy (temperature 0): neither sampling nor the rejection of sampled "
                "drafts was run, so speed and acceptance of sampled traffic are not shown."
            )
            numbers: dict[str, float | N | None] = {"requests": float(found.requests.sent)}
            yield finding(rule, text, numbers, of_arms(facts, name))
