"""Measured requests of one arm, as a whole and in groups."""

from __future__ import annotations

from pydantic import Field

from loadgen.analyze.summary.base import D, Model, N


class Rollback(Model):
    value: float | None
    low: float | None
    high: float | None
    exact: bool
    n: int
    source: str
    reason: str | None = None


class Requests(Model):
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


class Stream(Model):
    ttft_s: D
    ttft_answer_s: D
    ttft_from_due_s: D
    total_time_s: D
    total_time_from_due_s: D


class NonStream(Model):
    total_time_s: D
    total_time_from_due_s: D
    generation_speed: D


class Throughput(Model):
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


class RollbackRuns(Model):
    """Rollbacks one after the other within a request, and whether they go with the tail (docs/method.md).

    `share`: requests with a run of at least 3; `share_in_…_tail`: the same among the requests above the group's
    P95 of that number.
    """

    longest: N
    mean: N
    share: N
    share_in_tpot_tail: N
    share_in_total_time_tail: N


class Speculation(Model):
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


class Conditions(Model):
    """Under what a group was measured: every number of the group stands under these."""

    input_len: dict[str, float | int | None]
    output_len: dict[str, float | int | None]
    temperature: list[float]
    top_p: list[float]
    top_k: list[int]
    batch_size_mean: N
    concurrency_mean: N
    cache_hit_share: N


class G(Model):
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


class Failure(Model):
    """Measured requests that did not succeed, of one cause. `example`: the message most of them had, redacted."""

    outcome: str
    error_class: str | None
    error_status: int | None
    n: int
    task_types: list[str]
    example: str | None


class Arm(Model):
    overall: G
    by: list[G]
    failures: list[Failure] = Field(default_factory=list)
