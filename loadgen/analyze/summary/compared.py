"""Two of something side by side: sources of one number, arms, runs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from loadgen.analyze.summary.base import Model, N
from loadgen.analyze.summary.groups import Rollback


class Reconciliation(Model):
    """Two sources of one number over one window. `difference` = client − server."""

    arm: str
    window: str
    name: str
    client: float | None
    server: float | None
    difference: float | None
    tolerance: float
    idle_edges: bool
    ok: bool | None
    note: str


class Decomposition(Model):
    """E tokens per step, a step costs c× a plain one, so decoding is E/c× faster (pooled means of the same cases).
    Where the baseline speculates too, E times its tokens per step.

    `net_throughput_ratio`: candidate ÷ baseline net tokens/s of the stage, without an interval: it also holds
    prefill, queueing and what the load asked for.
    """

    stage: str
    concurrency: int | None
    candidate: str
    baseline: str
    e_decode: N
    c: N
    speedup_decode: N
    net_throughput_ratio: N
    baseline_running: N
    candidate_running: N
    like_for_like: bool | None
    sentence: str


class Interval(N):
    """A number with its interval, from the statistics (docs/method.md, "Intervals of one arm").

    `n` counts `unit`s ("requests", "blocks", "cases"); `method` says how the interval was made, `level` how sure it
    is. Too few units: `low` and `high` null, the reason says "not enough data" and `needs_n` how many it takes.
    `infinite`: which of value, low and high are null because they are +∞, among failed requests or without a limit.
    """

    unit: str
    method: str
    level: float = 0.95
    needs_n: int | None = None
    infinite: tuple[str, ...] = ()


class Metric(Model):
    """One number of both arms, percentiles in the all-sent view. `ratio` and `difference`: candidate ÷ baseline and
    candidate − baseline, over paired design blocks; the difference only of numbers whose ratio says little."""

    name: str
    aggregate: str
    unit: str
    lower_is_better: bool | None
    baseline: Interval
    candidate: Interval
    ratio: Interval
    difference: Interval | None = None
    reason: str | None = None


class Speedup(Model):
    """Above 1 = the candidate is faster. `kind` "net_throughput": net tokens per second, candidate ÷ baseline; "tpot":
    mean time per output token, baseline ÷ candidate, with the same ratio of `total_time` beside it. `why` this kind."""

    kind: Literal["net_throughput", "tpot"]
    why: str
    value: Interval
    tpot: Interval
    total_time: Interval


class ComparisonRow(Model):
    """A candidate beside the baseline under one load: same design blocks, same cases. Null selectors = all.

    `paired`: the blocks were driven in one window, so that drift of the servers meets both arms alike. The word is
    that of the speedup at a level corrected for the `family` rows beside it (Bonferroni); printed intervals are
    95 % each. `output_segment` is that of the case: the same cases in both arms.
    """

    stage: str
    concurrency: int | None
    rate_per_s: float | None
    task_type: str | None = None
    input_segment: str | None = None
    output_segment: str | None = None
    candidate: str
    baseline: str
    design: str
    paired: bool
    blocks: int
    requests: int
    speedup: Speedup
    e_decode: Interval
    c: Interval
    speedup_decode: Interval
    baseline_running: N
    candidate_running: N
    like_for_like: bool | None
    acceptance_rate: Interval
    rollback_rate: Rollback
    cache_hit_share: dict[str, N]
    repeat_variation: dict[str, Interval]
    metrics: list[Metric]
    verdict_word: Literal["faster", "slower", "no difference shown", "not enough data"]
    family: int
    sentence: str

    def metric(self, name: str, aggregate: str) -> Metric | None:
        return next((m for m in self.metrics if (m.name, m.aggregate) == (name, aggregate)), None)


class Unpaired(Model):
    """One number of two runs made apart, its medians in windows: Mann–Whitney, with the Hodges–Lehmann shift (second −
    first) and the share of pairs in which the second's is larger (ties half). `p_adjusted`: Holm, over all rows.
    `first_n`, `second_n` count windows, `first_median` and `second_median` are the medians of theirs."""

    stage: str
    arm: str
    name: str
    unit: str
    first_median: float | None
    second_median: float | None
    first_n: int
    second_n: int
    p: float | None
    p_adjusted: float | None
    shift: Interval
    larger_share: Interval
    word: Literal["higher", "lower", "no difference shown", "not enough data"]


class RunsCompared(Model):
    """Two runs side by side. `paired`: their plans are equal, so cases are; they were still not run in one window."""

    first: str
    second: str
    paired: bool
    why: str
    rows: list[ComparisonRow] = Field(default_factory=list)
    unpaired: list[Unpaired] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
