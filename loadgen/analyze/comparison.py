"""The table of the comparison: every candidate beside the baseline, by load, task type and length
(docs/method.md, "Comparison")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from loadgen.analyze.columns import Ints
from loadgen.analyze.comparison_text import sentence
from loadgen.analyze.conditions import cache_hits
from loadgen.analyze.decompose import pair_of
from loadgen.analyze.estimates import Estimates, Query, Where
from loadgen.analyze.groups import Group
from loadgen.analyze.metrics import METRICS
from loadgen.analyze.pairs import Pair, unknown
from loadgen.analyze.rollback import rollback
from loadgen.analyze.segments import INPUT_EDGES, OUTPUT_EDGES, segment_names
from loadgen.analyze.sides import Side
from loadgen.analyze.spec_counts import from_counters, per_request
from loadgen.analyze.statistics import LEVEL, Estimate, bonferroni, coefficient_of_variation
from loadgen.analyze.summary import ComparisonRow, Interval, Metric, N, Rollback, Speedup
from loadgen.analyze.windows import SegmentWindow

#: What a row shows besides speedup and E / c: (metric, aggregates)
SHOWN: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("ttft_s", ("p50", "p95", "p99")),
    ("tpot_s", ("p50", "p95")),
    ("total_time_s", ("p50", "p95", "p99")),
    ("non_stream_total_time_s", ("p50", "p95")),
    ("token_latency_s", ("p95", "p99")),
    ("chunk_gap_s", ("p99",)),
    ("error_share", ("value",)),
    ("goodput_requests_per_s", ("value",)),
    ("output_len", ("avg",)),
    ("server_queue_s", ("avg",)),
    ("server_prefill_s", ("avg",)),
    ("server_decode_s", ("avg",)),
)
#: What a row of a length segment shows
SHOWN_OF_SEGMENTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("ttft_s", ("p50", "p95")),
    ("tpot_s", ("p50", "p95")),
    ("total_time_s", ("p50", "p95", "p99")),
    ("error_share", ("value",)),
    ("output_len", ("avg",)),
)
#: Metrics that some runs cannot have; without a value in either arm they are left out of the row
_OPTIONAL = ("non_stream_total_time_s", "goodput_requests_per_s")
#: Numbers that may be 0, or whose ratio says little: they have a difference
_BY_DIFFERENCE = ("error_share", "output_len", "server_queue_s", "server_prefill_s", "server_decode_s")


@dataclass(frozen=True)
class Cut:
    """One row to be made. `where`: its selectors but the arm; `family`: rows of its breakdown, of all candidates."""

    candidate: str
    stage: str
    task_type: str | None = None
    input_segment: str | None = None
    output_segment: str | None = None
    family: int = 1

    @property
    def where(self) -> dict[str, str]:
        parts = {
            "stage": self.stage,
            "task_type": self.task_type,
            "input_segment": self.input_segment,
            "output_segment": self.output_segment,
        }
        return {name: value for name, value in parts.items() if value is not None}

    @property
    def shown(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return SHOWN if self.input_segment is None and self.output_segment is None else SHOWN_OF_SEGMENTS

    @property
    def breakdown(self) -> tuple[str, ...]:
        return tuple(self.where)


def compare(estimates: Estimates) -> list[ComparisonRow]:
    """Whole stages first, then their parts. Nothing where there is one arm."""
    if estimates.baseline is None:
        return []
    cuts = [cut for name in estimates.arms if name != estimates.baseline for cut in _cuts(estimates, name)]
    sizes: dict[tuple[str, ...], int] = {}
    for cut in cuts:
        sizes[cut.breakdown] = sizes.get(cut.breakdown, 0) + 1
    rows = [_row(estimates, cut, sizes[cut.breakdown]) for cut in cuts]
    return [row for row in rows if row is not None]


def _cuts(estimates: Estimates, candidate: str) -> Iterator[Cut]:
    """Only parts that are not the whole they are a part of."""
    stages = estimates.stages()
    yield from (Cut(candidate, stage) for stage in stages)
    for stage in stages:
        base = Cut(candidate, stage)
        tasks = _present(estimates, base, "task_type", estimates.tasks())
        for task in (None, *tasks) if len(tasks) > 1 else (None,):
            if task is not None:
                yield Cut(candidate, stage, task)
            part = Cut(candidate, stage, task)
            inputs = _present(estimates, part, "input_segment", segment_names(INPUT_EDGES))
            yield from (Cut(candidate, stage, task, input_segment=s) for s in inputs if len(inputs) > 1)
            outputs = _present(estimates, part, "output_segment", segment_names(OUTPUT_EDGES))
            yield from (Cut(candidate, stage, task, output_segment=s) for s in outputs if len(outputs) > 1)


def _present(estimates: Estimates, cut: Cut, name: str, values: tuple[str, ...] | list[str]) -> list[str]:
    """Of `values`, those that a request of the cut is known to have in both arms."""
    pair = estimates.pair(cut.candidate, cut.where)
    if not isinstance(pair, Pair):
        return []
    here = [set(side.labels[name][rows]) for side, rows in pair.sides]
    return [value for value in values if all(value in labels for labels in here)]


def _row(estimates: Estimates, cut: Cut, family: int) -> ComparisonRow | None:
    pair = estimates.pair(cut.candidate, cut.where)
    baseline = estimates.baseline
    if not isinstance(pair, Pair) or baseline is None:
        return None
    windows = [_windows(side, cut.stage) for side in (pair.candidate, pair.baseline)]
    if not windows[0] or not windows[1]:
        return None
    phase = windows[1][0].phase
    groups = [Group(rows, w, pair.whole) for rows, w in ((pair.rows, windows[0]), (pair.base_rows, windows[1]))]
    pooled = pair_of((cut.candidate, pair.candidate.data, groups[0]), (baseline, pair.baseline.data, groups[1]), {})
    where: Where = tuple({"arm": cut.candidate, **cut.where}.items())
    speedup = _speedup(estimates, pair, where)
    word = _word(estimates.estimate(Query("speedup", "value", where), bonferroni(LEVEL, family)))
    paired = estimates.one_window and len(pair.blocks) > 0 and cut.stage not in estimates.unpaired
    row = ComparisonRow(
        stage=cut.stage, concurrency=phase.concurrency, rate_per_s=phase.rate_per_s, task_type=cut.task_type,
        input_segment=cut.input_segment, output_segment=cut.output_segment, candidate=cut.candidate, baseline=baseline,
        design=estimates.design, paired=paired, blocks=len(pair.blocks),
        requests=len(pair.matched[0]), speedup=speedup,
        e_decode=_relative(estimates, "e_ratio", where), c=_relative(estimates, "c", where),
        speedup_decode=_relative(estimates, "speedup_decode", where),
        baseline_running=pooled.baseline_running, candidate_running=pooled.candidate_running,
        like_for_like=pooled.like_for_like,
        acceptance_rate=shown(estimates.estimate(Query("acceptance_rate", "value", where))),
        rollback_rate=_rollback(pair, groups[0]), cache_hit_share=_cache(pair, groups),
        repeat_variation=_variation(pair, speedup.kind) if pair.whole else {},
        metrics=list(_metrics(estimates, where, baseline, cut.shown)), verdict_word=word, family=family, sentence="",
    )  # fmt: skip
    return row.model_copy(update={"sentence": sentence(row)})


def _windows(side: Side, stage: str) -> tuple[SegmentWindow, ...]:
    return tuple(w for w in side.data.windows if w.phase.stage == stage)


def _speedup(estimates: Estimates, pair: Pair, where: Where) -> Speedup:
    kind = estimates.kind(pair)
    return Speedup(
        kind=kind.kind,
        why=kind.why,
        value=_relative(estimates, "speedup", where),
        tpot=_relative(estimates, "speedup_decode", where),
        total_time=_relative(estimates, "speedup_total_time", where),
    )


def _relative(estimates: Estimates, name: str, where: Where) -> Interval:
    return shown(estimates.estimate(Query(name, "value", where)))


def _word(speedup: Estimate) -> Literal["faster", "slower", "no difference shown", "not enough data"]:
    if speedup.value is None or speedup.low is None or speedup.high is None:
        return "not enough data"
    return "faster" if speedup.low > 1 else "slower" if speedup.high < 1 else "no difference shown"


def shown(found: Estimate) -> Interval:
    """For a file or a table: no infinities."""
    made = found.published()
    return Interval(
        value=made.value, low=made.low, high=made.high, n=made.n, source=made.source, reason=made.reason,
        unit=made.unit, method=made.method, level=made.level, needs_n=made.needs_n,
        infinite=found.infinite,
    )  # fmt: skip


def _metrics(
    estimates: Estimates, where: Where, baseline: str, wanted: tuple[tuple[str, tuple[str, ...]], ...]
) -> Iterator[Metric]:
    for name, aggregates in wanted:
        for aggregate in aggregates:
            metric = _metric(estimates, where, baseline, name, aggregate)
            if name not in _OPTIONAL or metric.candidate.value is not None or metric.baseline.value is not None:
                yield metric


def _metric(estimates: Estimates, where: Where, baseline: str, name: str, aggregate: str) -> Metric:
    base_where = tuple({**dict(where), "arm": baseline}.items())
    spec = METRICS[name]
    mine, theirs = (estimates.estimate(Query(name, aggregate, w)) for w in (where, base_where))
    ratio = estimates.estimate(Query(name, aggregate, where, "ratio"))
    difference = estimates.estimate(Query(name, aggregate, where, "difference")) if name in _BY_DIFFERENCE else None
    reason = next((e.reason for e in (mine, theirs) if e.value is None), None)
    return Metric(
        name=name, aggregate=aggregate, unit=spec.unit, lower_is_better=spec.lower_is_better,
        baseline=shown(theirs), candidate=shown(mine), ratio=shown(ratio),
        difference=None if difference is None else shown(difference), reason=reason,
    )  # fmt: skip


def _rollback(pair: Pair, group: Group) -> Rollback:
    frame, setting = pair.candidate.frame, pair.candidate.data.setting
    drafts = per_request(frame, group.rows) or from_counters(frame, group.rows, group.counters)
    return rollback(frame, group.rows, drafts, group.counters, setting.artefact, setting.structured)


def _cache(pair: Pair, groups: list[Group]) -> dict[str, N]:
    sides = (pair.candidate, pair.baseline)
    return {side.name: cache_hits(side.frame, group) for side, group in zip(sides, groups, strict=True)}


def _variation(pair: Pair, kind: str) -> Mapping[str, Interval]:
    """Coefficient of variation across repeats of what the speedup is made of, by arm."""
    found = {}
    for side, rows in ((pair.candidate, pair.rows), (pair.baseline, pair.base_rows)):
        repeats = np.array([key[1] for key in side.keys])[pair.blocks]
        per_repeat = [_of_repeat(side, rows, pair.blocks[repeats == r], kind) for r in np.unique(repeats)]
        known = np.array([value for value in per_repeat if not np.isnan(value)], dtype=np.float64)
        if len(known):
            found[side.name] = shown(coefficient_of_variation(known))
        else:
            found[side.name] = shown(unknown("no repeat is finished in both arms", unit="repeats"))
    return found


def _of_repeat(side: Side, rows: Ints, blocks: Ints, kind: str) -> float:
    mine = rows[np.isin(side.block[rows], blocks)]
    if kind == "net_throughput":
        seconds = np.nansum(side.whole_s[blocks])
        net = mine[side.frame.net[mine]]
        return float(side.flow.run[net].sum() / seconds) if seconds > 0 else float("nan")
    ok = mine[side.frame.ok[mine] & ~np.isnan(side.frame.decode_s[mine])]
    tokens = side.frame.decode_tokens[ok].sum()
    return float(side.frame.decode_s[ok].sum() / tokens) if tokens > 0 else float("nan")
