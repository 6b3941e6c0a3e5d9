"""Which requests compute how many tokens in the next step: continuous batching with chunked prefill (vLLM
V1).

Running requests go first, in order of (priority, arrival), then waiting ones while sequences, token budget
and KV blocks allow. A running request that gets no block preempts the last one of that order, which loses
its blocks and waits again at its old place, to recompute prompt and output. Drafts reserve their full
length in budget and blocks."""

from __future__ import annotations

import heapq
from bisect import insort
from dataclasses import dataclass, field

from server_adapters.rehearsal.kvcache import BlockPool, extend_chain
from server_adapters.rehearsal.sampler import SequenceSampler
from server_adapters.rehearsal.stopping import StopRule
from server_adapters.rehearsal.types import EngineRequest, RequestTimes, SpecStats


class SequenceState:
    """A request inside the engine. `token_ids` is prompt and output; the first `num_computed` have KV
    entries. `crossed`: it goes on as another request (a fault)."""

    __slots__ = (
        "blocks",
        "crossed",
        "hashes",
        "key",
        "num_cached",
        "num_computed",
        "num_preemptions",
        "num_prompt",
        "request",
        "sampler",
        "spec",
        "stop_rule",
        "times",
        "token_ids",
    )

    def __init__(
        self,
        request: EngineRequest,
        sampler: SequenceSampler,
        spec: SpecStats | None,
        number: int,
        now_s: float,
        stop_rule: StopRule,
    ) -> None:
        self.request = request
        self.sampler = sampler
        self.spec = spec
        self.key = (request.priority, number)
        self.token_ids = list(request.prompt_token_ids)
        self.num_prompt = len(self.token_ids)
        self.num_computed = 0
        self.num_cached = 0
        self.num_preemptions = 0
        self.blocks: list[int] = []
        self.hashes: list[int] = []
        self.times = RequestTimes(now_s)
        self.stop_rule = stop_rule
        self.crossed = False


@dataclass(slots=True)
class StepPlan:
    """Work of one step: prefill chunks as (sequence, tokens), decodes as (sequence, most drafts)."""

    prefills: list[tuple[SequenceState, int]] = field(default_factory=list)
    decodes: list[tuple[SequenceState, int]] = field(default_factory=list)
    admitted: list[SequenceState] = field(default_factory=list)
    num_preempted: int = 0


class Scheduler:
    """Queues and KV blocks. `plan` decides a step, `computed` books what it computed, `remove` ends a
    request."""

    def __init__(self, pool: BlockPool, *, max_num_seqs: int, max_num_batched_tokens: int, max_model_len: int) -> None:
        self.pool = pool
        self.running: list[SequenceState] = []
        self._waiting: list[tuple[tuple[int, int], SequenceState]] = []
        self._max_num_seqs = max_num_seqs
        self._budget = max_num_batched_tokens
        self._max_model_len = max_model_len

    @property
    def num_waiting(self) -> int:
        """Requests that wait, preempted ones included."""
        return len(self._waiting)

    def add(self, sequence: SequenceState) -> None:
        """Queue a request."""
        heapq.heappush(self._waiting, (sequence.key, sequence))

    def remove(self, sequence: SequenceState) -> None:
        """Forget a running or waiting request and give its blocks back."""
        if sequence in self.running:
            self.running.remove(sequence)
        else:
            self._waiting = [entry for entry in self._waiting if entry[1] is not sequence]
            heapq.heapify(self._waiting)
        self.pool.release(sequence.blocks)
        sequence.blocks = []

    def plan(self, k: int) -> StepPlan:
        """Decide the next step, with at most k drafts per decoding request."""
        plan = StepPlan()
        budget = self._plan_running(plan, k, self._budget)
        if not plan.num_preempted:
            self._plan_waiting(plan, budget)
        return plan

    def computed(self, sequence: SequenceState, num_computed: int) -> None:
        """Book that the KV entries of the first `num_computed` tokens exist; full blocks become findable."""
        sequence.num_computed = num_computed
        size = self.pool.block_size
        known = len(sequence.hashes)
        if self.pool.caching and num_computed // size > known:
            extend_chain(sequence.hashes, sequence.token_ids, num_computed, size, sequence.request.cache_salt)
            for at in range(known, len(sequence.hashes)):
                self.pool.publish(sequence.blocks[at], sequence.hashes[at])

    def _plan_running(self, plan: StepPlan, k: int, budget: int) -> int:
        at = 0
        while at < len(self.running) and budget > 0:
            sequence = self.running[at]
            length = len(sequence.token_ids)
            pending = length - sequence.num_computed
            decoding = pending == 1 and length > sequence.num_prompt
            drafts = max(0, min(k, budget - 1, self._max_model_len - 1 - length)) if decoding else 0
            tokens = min(pending, budget) + drafts
            if not self._grow(sequence, tokens, plan):
                break
            if decoding:
                plan.decodes.append((sequence, drafts))
            else:
                plan.prefills.append((sequence, tokens))
            budget -= tokens
            at += 1
        return budget

    def _grow(self, sequence: SequenceState, tokens: int, plan: StepPlan) -> bool:
        """Blocks for more tokens, preempting from the end; False where the sequence itself had to go."""
        missing = -(-(sequence.num_computed + tokens) // self.pool.block_size) - len(sequence.blocks)
        if missing <= 0:
            return True
        while (blocks := self.pool.allocate(missing)) is None:
            victim = self.running.pop()
            self.pool.release(victim.blocks)
            victim.blocks, victim.hashes = [], []
            victim.num_computed = 0
            victim.num_preemptions += 1
            plan.num_preempted += 1
            self.add(victim)
            if victim is sequence:
                return False
        sequence.blocks += blocks
        return True

    def _plan_waiting(self, plan: StepPlan, budget: int) -> None:
        while self._waiting and len(self.running) < self._max_num_seqs and budget > 0:
            sequence = self._waiting[0][1]
            tokens = self._admit(sequence, budget)
            if tokens is None:
                return
            heapq.heappop(self._waiting)
            insort(self.running, sequence, key=lambda s: s.key)
            plan.prefills.append((sequence, tokens))
            plan.admitted.append(sequence)
            budget -= tokens

    def _admit(self, sequence: SequenceState, budget: int) -> int | None:
        """Cached prefix and blocks for the first chunk; its size, or None where the blocks are missing."""
        pool, size, length = self.pool, self.pool.block_size, len(sequence.token_ids)
        cached: list[int] = []
        hashes: list[int] = []
        if pool.caching:
            extend_chain(hashes, sequence.token_ids, length - 1, size, sequence.request.cache_salt)
            cached = pool.lookup(hashes)
        tokens = min(length - len(cached) * size, budget)
        pool.share(cached)
        fresh = pool.allocate(-(-(len(cached) * size + tokens) // size) - len(cached))
        if fresh is None:
            pool.release(cached)
            return None
        sequence.blocks = cached + fresh
        sequence.hashes = hashes[: len(cached)]
        sequence.num_computed = len(cached) * size
        return tokens
