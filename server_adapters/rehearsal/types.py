"""Public data types of the rehearsal engine: what goes in, what a step gives back, what is counted.

Times are seconds of the engine's own clock (virtual or monotonic: the caller passes `now_s`), counts are
tokens. Counting follows vLLM 0.32 (`Scheduler.update_from_output`, `make_spec_decoding_stats`)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

SpecMethod = Literal["draft_model", "ngram"]
FinishReason = Literal["stop", "length", "abort"]
TaskType = Literal["short_qa", "long_form", "structured", "code"]
TASK_TYPES: tuple[TaskType, ...] = ("short_qa", "long_form", "structured", "code")


class RequestError(ValueError):
    """The request can never be served (HTTP 400): `param` names the offending field."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class QueueFullError(RuntimeError):
    """The admission queue is full (HTTP 503): `reason` is the label of `admission_rejections_total`."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the request queue is full ({reason})")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Sampling of one request. `temperature` 0 is greedy; `top_k` 0 or -1 is off; `seed` None: the engine
    picks one. `logprobs`: how many of the most likely tokens are told beside each emitted one; None: nothing is told.
    `min_p`: tokens less likely than this share of the most likely one are left out; 0 is off. `logit_bias`: (token id,
    what is added to its logit).

    `stop` strings end the request after the round in which their text appears: the round's tokens all
    count, the text is cut (vLLM's detokenizer does the same). `min_tokens` masks EOS and `stop_token_ids`
    until reached."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    max_tokens: int = 16
    min_tokens: int = 0
    ignore_eos: bool = False
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    logprobs: int | None = None
    min_p: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Natural logarithms of the target's own distribution at one position, before temperature, top-k, top-p and masks
    (vLLM's default `logprobs_mode`, raw_logprobs): of the emitted token, and of the most likely ones as (id, log
    probability), best first, lowest id at ties. Minus infinity for what the model cannot say."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class OutputFaults:
    """What a broken server does to the output of one request; None: nothing of that kind. Positions count output
    tokens; a fault begins with the first step that finds so many.

    `junk_after_stop`: the output goes on for so many tokens past EOS, a stop id or a stop string. `early_stop_at`: it
    ends there, as if it had stopped. `cross_talk_at`: from there on it is the continuation of another live request.
    `loop_at`: from there on its last `loop_period` tokens are repeated. `garble_at`: from there on its tokens are
    random."""

    junk_after_stop: int | None = None
    early_stop_at: int | None = None
    cross_talk_at: int | None = None
    loop_at: int | None = None
    loop_period: int = 6
    garble_at: int | None = None


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """One prompt to continue. `priority`: lower runs first. `cache_salt` isolates the prefix cache. `faults` None: a
    sound server.

    `task_type` None lets the models recognise the task from the prompt, as the HTTP face does.
    """

    request_id: str
    prompt_token_ids: tuple[int, ...]
    sampling: SamplingParams = SamplingParams()
    priority: int = 0
    cache_salt: str | None = None
    task_type: TaskType | None = None
    faults: OutputFaults | None = None


@dataclass(frozen=True, slots=True)
class SpeculationConfig:
    """Speculation of one engine: proposer, k, and optionally k by batch size as `((start, end, k), ...)`.

    `schedule` ranges are inclusive; a batch size in no range takes the k of the last range before it, or
    `num_speculative_tokens` where there is none. `prompt_lookup_min/max`: n-gram sizes the ngram proposer
    matches. `draft_max_model_len`: beyond it the drafter repeats one token that is never right; it is still
    drafted and counted."""

    method: SpecMethod = "draft_model"
    num_speculative_tokens: int = 4
    schedule: tuple[tuple[int, int, int], ...] = ()
    prompt_lookup_min: int = 2
    prompt_lookup_max: int = 4
    draft_max_model_len: int | None = None

    def k_for(self, batch_size: int) -> int:
        """Draft length for a step that runs `batch_size` requests."""
        k = self.num_speculative_tokens
        for start, end, scheduled in self.schedule:
            if batch_size < start:
                break
            k = scheduled
            if batch_size <= end:
                break
        return min(k, self.num_speculative_tokens)


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """One engine. `speculation` None is the baseline; `num_blocks` and `tensor_parallel` None: from the
    hardware.

    `speed` > 1 makes every step that many times faster; `jitter` is the sigma of a log-normal factor on
    step times. `numerics`: sigma of the noise of the target's logits, nat (numerics.py). `phantom_rounds`: a
    full prefix hit of a new request counts one round of k rejected drafts, as vLLM >= 0.25 does."""

    speculation: SpeculationConfig | None = None
    hardware: str = "h100"
    target_model: str = "70b"
    draft_model: str = "1b"
    tensor_parallel: int | None = None
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    max_model_len: int = 4096
    block_size: int = 16
    num_blocks: int | None = None
    enable_prefix_caching: bool = True
    phantom_rounds: bool = True
    max_num_queued_reqs: int | None = None
    max_num_queued_tokens: int | None = None
    speed: float = 1.0
    jitter: float = 0.02
    numerics: float = 0.0
    seed: int = 0


@dataclass(slots=True)
class Switches:
    """What may be changed while the engine runs; the engine reads it at each step.

    `speculation_enabled` False: plain decoding (kill switch). The others are faults:
    `correction` False resamples a rejected position from p instead of the normalised max(0, p - q), which
    makes the output distribution wrong; `draft_bias` is the probability that a draft position is sampled
    from a shuffled draft distribution (drift: acceptance falls, outputs stay right); `stale_draft` drafts
    without the last token; `slowdown` multiplies the time of a step (a cold server)."""

    speculation_enabled: bool = True
    correction: bool = True
    draft_bias: float = 0.0
    stale_draft: bool = False
    slowdown: float = 1.0


@dataclass(slots=True)
class SpecStats:
    """Per-request speculation, as in vLLM's `metrics.speculative_decoding` (`detailed`)."""

    num_spec_tokens: int
    num_spec_steps: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    acceptance_histogram: list[int] = field(default_factory=list)
    per_step_accepted: list[int] = field(default_factory=list)
    per_step_drafted: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.acceptance_histogram:
            self.acceptance_histogram = [0] * (self.num_spec_tokens + 1)

    def observe(self, drafted: int, accepted: int) -> None:
        """Count one round."""
        self.num_spec_steps += 1
        self.num_draft_tokens += drafted
        self.num_accepted_tokens += accepted
        self.acceptance_histogram[accepted] += 1
        self.per_step_accepted.append(accepted)
        self.per_step_drafted.append(drafted)

    @property
    def rollback_count(self) -> int:
        """Rounds with at least one rejected draft token."""
        return sum(a < d for a, d in zip(self.per_step_accepted, self.per_step_drafted, strict=True))


@dataclass(slots=True)
class RequestTimes:
    """Clock of one request (engine seconds). None until it happened."""

    arrival_s: float
    first_scheduled_s: float | None = None
    first_token_s: float | None = None
    last_token_s: float | None = None


@dataclass(slots=True)
class RequestOutput:
    """What one request got in one step. `new_token_ids` is already trimmed at EOS, stop ids and max_tokens.

    `num_drafted` and `num_accepted` describe the round behind it (0, 0 for a step without drafts), before
    trimming. `stop_reason`: the stop string or stop token id; None for EOS. `text_end`: with a stop string,
    the number of characters of the decoded output to keep. `spec` is None while speculation is not
    configured. `logprobs`: one for each new token, None where the request did not ask."""

    request_id: str
    new_token_ids: list[int]
    finish_reason: FinishReason | None
    stop_reason: str | int | None
    text_end: int | None
    num_drafted: int
    num_accepted: int
    num_prompt_tokens: int
    num_cached_tokens: int
    num_output_tokens: int
    num_preemptions: int
    times: RequestTimes
    spec: SpecStats | None
    logprobs: list[TokenLogprobs] | None = None


@dataclass(slots=True)
class StepResult:
    """One engine step that began at `started_s`. Its outputs exist at `started_s + duration_s`.

    `draft_time_s` + `verify_time_s` <= `duration_s`: the rest is the fixed step overhead. `batch_size` is
    the number of requests scheduled; `prefill_tokens` and `decode_tokens` (1 + drafts per decoding request)
    were computed."""

    started_s: float
    duration_s: float
    draft_time_s: float
    verify_time_s: float
    outputs: list[RequestOutput]
    batch_size: int
    prefill_tokens: int
    decode_tokens: int
    num_preempted: int


@dataclass(slots=True)
class EngineCounters:
    """Cumulative counts since start or `Engine.reset_counters` (names without vLLM's `vllm:` and
    `_total`)."""

    num_drafts: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    num_accepted_tokens_per_pos: list[int] = field(default_factory=list)
    prompt_tokens: int = 0
    prompt_tokens_cached: int = 0
    generation_tokens: int = 0
    prefix_cache_queries: int = 0
    prefix_cache_hits: int = 0
    num_preemptions: int = 0
    decode_outputs: int = 0
    engine_steps: int = 0
    draft_time_s: float = 0.0
    verify_time_s: float = 0.0
    busy_time_s: float = 0.0
    request_success: dict[str, int] = field(default_factory=lambda: {"stop": 0, "length": 0, "abort": 0, "error": 0})
    admission_rejections: dict[str, int] = field(
        default_factory=lambda: {"max_num_queued_reqs": 0, "max_num_queued_tokens": 0}
    )

    def copy(self) -> EngineCounters:
        """An independent copy: what a scrape may see until the next delivery."""
        return replace(
            self,
            num_accepted_tokens_per_pos=list(self.num_accepted_tokens_per_pos),
            request_success=dict(self.request_success),
            admission_rejections=dict(self.admission_rejections),
        )


@dataclass(frozen=True, slots=True)
class EngineGauges:
    """State between two steps."""

    num_requests_running: int
    num_requests_waiting: int
    kv_cache_usage: float
    num_blocks: int
    num_blocks_used: int
