"""The contract of summary.json (schema 1): names, units, and what absence looks like.

Durations in seconds, ratios 0–1, rates per second. A number that could not be had is
null with a reason beside it, never 0.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SUMMARY_SCHEMA = 1


class _Model(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True, serialize_by_alias=True
    )


class Absent(_Model):
    """In place of a part that was not measured."""

    value: None = None
    reason: str


class D(_Model):
    """A distribution. Percentiles are nearest rank over all samples; null below the sample
    size they need, with the reason in `reasons` (docs/method.md, "Percentiles"). `per` says what
    one sample is. `all_sent` is the second view: failed and drain-cut requests count as +∞.
    """

    n: int
    unit: str = "s"
    per: str  # "request", "chunk", "token", "arrival"
    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None
    intervals: dict[str, tuple[float, float]] = {}
    source: str
    reason: str | None = None
    reasons: dict[str, str] = {}
    all_sent: AllSent | None = None


class AllSent(_Model):
    """Percentiles over every request sent; null and named in `infinite` where the rank falls among failures."""

    n: int
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    infinite: list[str] = []


class N(_Model):
    """One number with its range (low = high = value where exact and no interval is claimed).

    `n` counts the denominator of a ratio (drafted tokens of α, rounds, steps), else requests. A `reason`
    beside a value says what is missing from it.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int
    source: str
    reason: str | None = None


class Rollback(_Model):
    value: float | None
    low: float | None
    high: float | None
    exact: bool
    n: int
    source: str
    reason: str | None = None


class Requests(_Model):
    """scheduled = sent + dropped + unsent; sent = Σ outcomes. What was never sent belongs to its arm and
    stage only, so in groups by task, length or temperature the accounting is null."""

    scheduled: int | None
    sent: int
    dropped: int | None
    unsent: int | None
    late: int | None
    capped_in_flight: int | None
    capped_rate: int | None
    outcomes: dict[str, int]


class Stream(_Model):
    ttft_s: D
    ttft_answer_s: D
    ttft_from_due_s: D
    total_time_s: D
    total_time_from_due_s: D


class NonStream(_Model):
    total_time_s: D
    total_time_from_due_s: D
    generation_speed: D


class Throughput(_Model):
    """`net_tokens_per_s`: steady-state window; `_run`: the whole measured time.

    `wasted_uncounted_requests`: failed ones with output that nobody counted, so not in `wasted_tokens`.
    """

    net_tokens_per_s: N
    net_tokens_per_s_run: N
    goodput_requests_per_s: N
    goodput_tokens_per_s: N
    wasted_tokens: int
    wasted_uncounted_requests: int
    window_rule: str


class RollbackRuns(_Model):
    """Rollbacks one after the other within a request, and whether they go with the tail (docs/method.md).

    `share`: requests with a run of at least 3; `share_in_…_tail`: the same among the requests above the group's
    P95 of that number.
    """

    longest: N
    mean: N
    share: N
    share_in_tpot_tail: N
    share_in_total_time_tail: N


class Speculation(_Model):
    drafted: N
    accepted: N
    rounds: N
    acceptance_rate: N
    acceptance_rate_per_request_mean: N
    e_verified: N
    e_emitted: N
    e_decode: N
    draft_coverage: N
    overshoot_tokens: N
    drafted_per_output_token: N
    per_position: list[N]
    per_position_conditional: list[N]
    rollback_rate: Rollback
    rollback_runs: RollbackRuns
    representative: bool
    representative_reason: str | None
    flags: list[str]


class Conditions(_Model):
    """Under what a group was measured: every number of the group stands under these."""

    input_len: dict[str, float | int | None]
    output_len: dict[str, float | int | None]
    temperature: list[float]
    top_p: list[float]
    top_k: list[int]
    batch_size_mean: N
    concurrency_mean: N
    cache_hit_share: N


class G(_Model):
    """One group of measured requests of one arm. `Arm.by` holds these combinations, unused keys null:
    task_type; input_segment; output_segment; task × input segment; task × output segment; temperature;
    task × temperature where a task has several; temperature × top_p × top_k where a temperature has several;
    stage (with its concurrency); task × stage. Segment names are "<lo>-<hi>" in tokens (docs/method.md).
    """

    task_type: str | None = None
    input_segment: str | None = None
    output_segment: str | None = None
    concurrency: int | None = None
    stage: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    requests: Requests
    stream: Stream
    non_stream: NonStream
    tpot_s: D
    chunk_gap_s: D
    token_latency_s: D
    tokens_per_chunk: D
    generation_speed: D
    generation_speed_p5: N
    jitter: N
    jitter_between_minutes: N
    server_ttft_s: D
    server_tpot_s: D
    server_queue_s: D
    server_prefill_s: D
    server_decode_s: D
    draft_time_s: D
    verify_time_s: D
    throughput: Throughput
    speculation: Speculation
    conditions: Conditions


class Failure(_Model):
    """Measured requests that did not succeed, of one cause. `example`: the message most of them had, redacted."""

    outcome: str
    error_class: str | None
    error_status: int | None
    n: int
    task_types: list[str]
    example: str | None


class Arm(_Model):
    overall: G
    by: list[G]
    failures: list[Failure] = []


class Reconciliation(_Model):
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


class Decomposition(_Model):
    """E tokens per step, a step costs c× a plain one, so decoding is E/c× faster (pooled means).

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
    """A number with its interval, from the statistics (docs/method.md, "Intervals").

    `n` counts `unit`s ("requests", "blocks", "cases"); `method` says how the interval was made, `level` how sure it
    is. Too few units: `low` and `high` null, the reason says "not enough data" and `needs_n` how many it takes.
    """

    unit: str
    method: str
    level: float = 0.95
    needs_n: int | None = None


class Metric(_Model):
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


class Speedup(_Model):
    """Above 1 = the candidate is faster. `kind` "net_throughput": net tokens per second, candidate ÷ baseline; "tpot":
    mean time per output token, baseline ÷ candidate, with the same ratio of `total_time` beside it. `why` this kind."""

    kind: Literal["net_throughput", "tpot"]
    why: str
    value: Interval
    tpot: Interval
    total_time: Interval


class ComparisonRow(_Model):
    """A candidate beside the baseline under one load: same design blocks, same cases. Null selectors = all.

    `paired`: the blocks were driven in one window, so that drift of the servers meets both arms alike. The word is
    that of the speedup at a level corrected for the `family` rows beside it (Bonferroni); printed intervals are
    95 % each. `output_segment` is that of the baseline's answer: the same cases in both arms.
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


class Finding(_Model):
    """A rule of docs/findings.md that holds in this run: a sentence, its numbers and under what they were measured."""

    id: str
    text: str
    numbers: dict[str, float | None]
    conditions: dict[str, Any]
    severity: Literal["good", "info", "warning", "bad"]


class Unpaired(_Model):
    """One number of two runs made apart, request by request: Mann–Whitney, with the Hodges–Lehmann shift (second −
    first) and the share of pairs in which the second's is larger (ties half). `p_adjusted`: Holm, over all rows."""

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


class RunsCompared(_Model):
    """Two runs side by side. `paired`: their plans are equal, so cases are; they were still not run in one window."""

    first: str
    second: str
    paired: bool
    why: str
    rows: list[ComparisonRow] = []
    unpaired: list[Unpaired] = []
    notes: list[str] = []


class Difference(_Model):
    """One fact in which arms are not alike, or that is wrong of an arm by itself (docs/environment.md).

    `values` by arm, null where not known. `inconclusive`: no verdict can pass. `declared`: would be, and the
    scenario says it is meant. `may_differ`: part of what is compared. Differences not shown are `noted`.
    """

    key: str
    values: dict[str, Any]
    rule: Literal["may_differ", "declared", "noted", "inconclusive"]
    text: str


class PromptMismatch(_Model):
    """Prompt tokens of one case in two arms."""

    case_id: str
    stage: str
    baseline: int
    arm: int


class PromptTokens(_Model):
    """Cases of an arm against the baseline's. `same_text` False: prompts carry a unique first line, so single tokens
    are no mismatch, and `median_difference` (tokens, arm − baseline) is judged."""

    arm: str
    baseline: str
    cases: int
    mismatched: int
    same_text: bool
    median_difference: float | None = None
    examples: list[PromptMismatch] = []
    reason: str | None = None


class CacheHits(_Model):
    """Prompt tokens found in the prefix cache ÷ asked for, in one stage and repeat of one arm."""

    arm: str
    stage: str
    repeat_idx: int
    share: N


class Equality(_Model):
    """Whether the arms were asked the same under the same conditions, from the records. `foreign_share`: the
    server's output tokens that were not for us, by arm."""

    prompt_tokens: list[PromptTokens]
    cache_hits: list[CacheHits]
    foreign_share: dict[str, N]


class Validity(_Model):
    """Is this a measurement of the server? `reasons`: why not, worst first, each a sentence with its number and
    limits (docs/method.md, "Validity"); empty where valid. `client`: what was judged, over the whole run."""

    state: Literal["valid", "doubtful", "invalid"]
    reasons: list[str]
    client: dict[str, N]


class Summary(_Model):
    schema_version: int = Field(SUMMARY_SCHEMA, alias="schema")
    run_id: str
    finished: bool
    validity: Validity
    arms: dict[str, Arm]
    decomposition: list[Decomposition]
    reconciliation: list[Reconciliation]
    environment: list[Difference]
    equality: Equality
    comparison: Absent | list[ComparisonRow]
    findings: Absent | list[Finding]
    verdict: Absent | dict[str, Any]
    conditions: dict[str, Any]
