"""The engine: admission, one step at a time, counters. No clock and no I/O: the caller brings `now_s`.

    engine.submit(request, now_s)
    while engine.has_work:
        result = engine.step(now_s)
        now_s += result.duration_s      # the HTTP face sleeps, `simulate` adds
        deliver(result.outputs)

Counts follow vLLM 0.32: one draft is one request in one step with a non-empty draft list; accepted tokens
are counted before the output is trimmed; the first token comes from the prefill step and belongs to no
round."""

from __future__ import annotations

from math import isfinite

from server_adapters.rehearsal.admission import validate
from server_adapters.rehearsal.hardware import Roofline
from server_adapters.rehearsal.kvcache import BlockPool
from server_adapters.rehearsal.models import Models, load_models
from server_adapters.rehearsal.numerics import Numerics
from server_adapters.rehearsal.output_faults import begin_faults
from server_adapters.rehearsal.rows import Row
from server_adapters.rehearsal.sampler import SequenceSampler
from server_adapters.rehearsal.scheduler import Scheduler, SequenceState, StepPlan
from server_adapters.rehearsal.steptime import StepClock
from server_adapters.rehearsal.stopping import StopRule
from server_adapters.rehearsal.tokenizer import Tokenizer
from server_adapters.rehearsal.types import (
    EngineConfig,
    EngineCounters,
    EngineGauges,
    EngineRequest,
    FinishReason,
    QueueFullError,
    RequestError,
    RequestOutput,
    SpecStats,
    StepResult,
    Switches,
)


class Engine:
    """One engine replica. `switches` may be changed at any time and hold from the next step on.

    Raises ValueError for a configuration that cannot run (unknown preset, impossible noise, weights or one
    full-length request that do not fit the memory). Everything random derives from `config.seed` and the requests'
    seeds."""

    def __init__(self, config: EngineConfig, models: Models | None = None) -> None:
        self.config = config
        self.models = models or load_models()
        self.switches = Switches()
        speculation = config.speculation
        drafting = speculation is not None and speculation.method == "draft_model"
        self.roofline = Roofline(
            config.hardware,
            config.target_model,
            config.draft_model if drafting else None,
            config.tensor_parallel,
        )
        self.num_blocks = config.num_blocks or self.roofline.kv_capacity_tokens() // config.block_size
        if self.num_blocks * config.block_size < config.max_model_len:
            raise ValueError(f"max_model_len {config.max_model_len} exceeds the KV cache ({self.num_blocks} blocks)")
        self._pool = BlockPool(self.num_blocks, config.block_size, caching=config.enable_prefix_caching)
        self._scheduler = Scheduler(
            self._pool,
            max_num_seqs=config.max_num_seqs,
            max_num_batched_tokens=config.max_num_batched_tokens,
            max_model_len=config.max_model_len,
        )
        self._sequences: dict[str, SequenceState] = {}
        self._submitted = 0
        self._phantoms = config.phantom_rounds and speculation is not None and not speculation.schedule
        if not (isfinite(config.numerics) and config.numerics >= 0.0):
            raise ValueError(f"numerics must be finite and not negative, not {config.numerics}")
        self._numerics = Numerics(config.numerics, config.seed) if config.numerics > 0.0 else None
        self._steps = 0
        self._clock = StepClock(config, self.roofline)
        self.reset_counters()

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of both models."""
        return self.models.tokenizer

    @property
    def has_work(self) -> bool:
        """True while a request runs or waits."""
        return bool(self._sequences)

    def reset_counters(self) -> None:
        """Start all counters at zero, as a restarted server does."""
        k = self.config.speculation.num_speculative_tokens if self.config.speculation else 0
        self.counters = EngineCounters(num_accepted_tokens_per_pos=[0] * k)

    def reset_prefix_cache(self) -> bool:
        """Forget cached blocks; False (and nothing done) while requests hold blocks."""
        return self._pool.clear()

    def gauges(self) -> EngineGauges:
        """Running, waiting and KV blocks in use, between two steps."""
        used = self.num_blocks - self._pool.num_free
        return EngineGauges(
            len(self._scheduler.running),
            self._scheduler.num_waiting,
            used / self.num_blocks,
            self.num_blocks,
            used,
        )

    def submit(self, request: EngineRequest, now_s: float) -> None:
        """Queue a request that arrives at `now_s`.

        Raises RequestError where it can never be served, QueueFullError (counted) where the queue is full.
        """
        validate(request, self.config, self.tokenizer.vocab_size)
        if request.request_id in self._sequences:
            raise RequestError("request id is in use", "request_id")
        self._check_queue()
        params, speculation = request.sampling, self.config.speculation
        number, self._submitted = self._submitted, self._submitted + 1
        seed = params.seed if params.seed is not None else self.config.seed * 1_000_003 + number
        task_type = request.task_type or self.models.classify(request.prompt_token_ids)
        sampler = SequenceSampler(
            self.models, task_type, request.prompt_token_ids, params, seed, speculation, self.switches, self._numerics
        )
        spec = SpecStats(speculation.num_speculative_tokens) if speculation else None
        rule = StopRule(params, self.tokenizer.eos_id, request.faults)
        sequence = SequenceState(request, sampler, spec, number, now_s, rule)
        self._sequences[request.request_id] = sequence
        self._scheduler.add(sequence)

    def abort(self, request_id: str, now_s: float) -> RequestOutput | None:
        """End a request now. Its final output, or None where it is unknown or already finished."""
        sequence = self._sequences.get(request_id)
        if sequence is None:
            return None
        sequence.times.last_token_s = sequence.times.last_token_s or now_s
        self._finish(sequence, "abort")
        return self._output(sequence, [], "abort")

    def step(self, now_s: float) -> StepResult | None:
        """Run one step that begins at `now_s`; None where there is nothing to run."""
        k = self._draft_length()
        plan = self._scheduler.plan(k)
        if not plan.prefills and not plan.decodes:
            return None
        self._steps += 1
        if self._numerics is not None:
            self._numerics.begin(self._steps)
        self._book_admissions(plan, now_s)
        prefilled = sum(tokens for _, tokens in plan.prefills)
        proposals = [(s, *self._propose(s, drafts)) for s, drafts in plan.decodes]
        draft_s, verify_s, total_s = self._clock.times(plan, proposals, self.switches)
        result = StepResult(
            now_s,
            total_s,
            draft_s,
            verify_s,
            [],
            len(plan.prefills) + len(plan.decodes),
            prefilled,
            sum(1 + len(drafts) for _, drafts, _ in proposals),
            plan.num_preempted,
        )
        end_s = now_s + total_s
        for sequence, drafts, rows in proposals:
            result.outputs.append(self._decode(sequence, drafts, rows, end_s))
        for sequence, tokens in plan.prefills:
            output = self._prefill(sequence, tokens, len(plan.prefills) == 1, k, end_s)
            if output is not None:
                result.outputs.append(output)
        self._book_step(result)
        return result

    def _draft_length(self) -> int:
        speculation = self.config.speculation
        if speculation is None or not self.switches.speculation_enabled:
            return 0
        return speculation.k_for(len(self._scheduler.running))

    def _propose(self, sequence: SequenceState, most: int) -> tuple[list[int], list[Row | None]]:
        self._begin_faults(sequence)
        if most == 0 or self.config.speculation is None:
            return [], []
        limit = self.config.speculation.draft_max_model_len
        if limit is not None and len(sequence.token_ids) + most > limit:
            return [self.tokenizer.user_id] * most, [None] * most  # an id no model ever says
        return sequence.sampler.propose(most)

    def _decode(
        self, sequence: SequenceState, drafts: list[int], rows: list[Row | None], end_s: float
    ) -> RequestOutput:
        tokens, accepted = sequence.sampler.verify(drafts, rows)
        if drafts:
            self._count_round(sequence, len(drafts), accepted)
        self.counters.decode_outputs += 1
        return self._emit(sequence, tokens, len(drafts), accepted, end_s)

    def _prefill(self, sequence: SequenceState, tokens: int, alone: bool, k: int, end_s: float) -> RequestOutput | None:
        """Book a chunk; the chunk that completes the sequence also gives its next token."""
        hit_all_but_one = tokens == 1 and sequence.num_computed == sequence.num_cached > 0
        done = sequence.num_computed + tokens
        self._scheduler.computed(sequence, done)
        if done < len(sequence.token_ids):
            return None
        phantom = k if self._phantoms and hit_all_but_one and alone else 0
        if phantom:
            self._count_round(sequence, phantom, 0)
        self._begin_faults(sequence)
        new_tokens, _ = sequence.sampler.verify([], [])
        return self._emit(sequence, new_tokens, phantom, 0, end_s)

    def _emit(
        self, sequence: SequenceState, tokens: list[int], drafted: int, accepted: int, end_s: float
    ) -> RequestOutput:
        """Trim, append and book new tokens of a sequence whose other tokens are all computed."""
        rule, position = sequence.stop_rule, len(sequence.token_ids) - sequence.num_prompt
        room = self.config.max_model_len - len(sequence.token_ids)
        kept, reason, stop_reason = rule.cut(tokens, position, room)
        sequence.token_ids += kept
        self.counters.generation_tokens += len(kept)
        self._scheduler.computed(sequence, len(sequence.token_ids) - 1)
        times = sequence.times
        times.last_token_s = end_s
        if times.first_token_s is None:
            times.first_token_s = end_s
        text_end = None
        if rule.has_strings:
            text = self.tokenizer.decode(sequence.token_ids[sequence.num_prompt :])
            if (found := rule.search(text, position + len(kept))) is not None:
                reason, (stop_reason, text_end) = "stop", found
        if reason is not None:
            self._finish(sequence, reason)
        return self._output(sequence, kept, reason, stop_reason, text_end, drafted, accepted)

    def _begin_faults(self, sequence: SequenceState) -> None:
        begin_faults(sequence, self._scheduler.running, self.config.seed, self.tokenizer.output_size)

    def _finish(self, sequence: SequenceState, reason: FinishReason) -> None:
        self.counters.request_success[reason] += 1
        del self._sequences[sequence.request.request_id]
        self._scheduler.remove(sequence)

    def _count_round(self, sequence: SequenceState, drafted: int, accepted: int) -> None:
        counters = self.counters
        counters.num_drafts += 1
        counters.num_draft_tokens += drafted
        counters.num_accepted_tokens += accepted
        for at in range(accepted):
            counters.num_accepted_tokens_per_pos[at] += 1
        if sequence.spec is not None:
            sequence.spec.observe(drafted, accepted)

    def _output(
        self,
        sequence: SequenceState,
        tokens: list[int],
        reason: FinishReason | None,
        stop_reason: str | int | None = None,
        text_end: int | None = None,
        drafted: int = 0,
        accepted: int = 0,
    ) -> RequestOutput:
        return RequestOutput(
            sequence.request.request_id,
            tokens,
            reason,
            stop_reason,
            text_end,
            drafted,
            accepted,
            sequence.num_prompt,
            sequence.num_cached,
            len(sequence.token_ids) - sequence.num_prompt,
            sequence.num_preemptions,
            sequence.times,
            sequence.spec,
            None if sequence.request.sampling.logprobs is None else sequence.sampler.logprobs[: len(tokens)],
        )

    def _book_admissions(self, plan: StepPlan, now_s: float) -> None:
        counters = self.counters
        for sequence in plan.admitted:
            if sequence.times.first_scheduled_s is None:
                sequence.times.first_scheduled_s = now_s
                sequence.num_cached = sequence.num_computed
                counters.prompt_tokens += sequence.num_prompt
                counters.prompt_tokens_cached += sequence.num_cached
                if self.config.enable_prefix_caching:
                    counters.prefix_cache_queries += sequence.num_prompt
                    counters.prefix_cache_hits += sequence.num_cached
        counters.num_preemptions += plan.num_preempted

    def _book_step(self, result: StepResult) -> None:
        counters = self.counters
        counters.engine_steps += 1
        counters.draft_time_s += result.draft_time_s
        counters.verify_time_s += result.verify_time_s
        counters.busy_time_s += result.duration_s

    def _check_queue(self) -> None:
        """vLLM's limits: requests that wait or run; prompt tokens of requests without a first token."""
        config = self.config
        reason = None
        if config.max_num_queued_reqs is not None and len(self._sequences) >= config.max_num_queued_reqs:
            reason = "max_num_queued_reqs"
        elif config.max_num_queued_tokens is not None:
            in_prefill = (s.num_prompt for s in self._sequences.values() if s.times.first_token_s is None)
            if sum(in_prefill) >= config.max_num_queued_tokens:
                reason = "max_num_queued_tokens"
        if reason is not None:
            self.counters.admission_rejections[reason] += 1
            raise QueueFullError(reason)
