"""Sampling of one sequence: plain, and speculative with exact rejection sampling (Leviathan et al. 2023,
Chen et al. 2023).

A draft token x from q is accepted with probability min(1, p(x) / q(x)); at the first rejection the token
comes from the normalised max(0, p - q); after k acceptances one more token comes from p. Greedy needs no
rule of its own: its rows put all mass on the argmax (lowest id at ties), so acceptance is equality. All
randomness of a request comes from its own Philox stream, so its output does not depend on what it is
batched with."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np

from server_adapters.rehearsal.models import Models
from server_adapters.rehearsal.ngram import Node
from server_adapters.rehearsal.proposer import NGramProposer
from server_adapters.rehearsal.rows import Row, RowShape, token_logprobs
from server_adapters.rehearsal.types import SamplingParams, SpeculationConfig, Switches, TaskType, TokenLogprobs

_BUFFERED_UNIFORMS = 64


def uniforms(seed: int) -> Iterator[float]:
    """Endless uniform numbers in [0, 1) of a seed (any integer)."""
    generator = np.random.Generator(np.random.Philox(key=seed % (1 << 128)))
    while True:
        yield from generator.random(_BUFFERED_UNIFORMS).tolist()


def residual_token(p: Row, q: Row | None, drafted: int, u: float) -> int:
    """Token after a rejection: from max(0, p - q), normalised. `q` None: the drafter was certain of
    `drafted`."""
    rest = p.vector.copy()
    if q is None:
        rest[drafted : drafted + 1] = 0.0
    else:
        rest -= q.vector
        np.maximum(rest, 0.0, out=rest)
    cumulative = rest.cumsum()
    total = cumulative[-1]
    if total <= 0.0:  # p and q agree but for rounding: nothing is left over to correct
        return bisect_right(p.cdf, u)
    cumulative /= total
    return int(cumulative.searchsorted(u, side="right"))


class SequenceSampler:
    """The sampling state of one request. `task_type` picks the models; `position` counts the tokens drawn
    so far; `logprobs` are those of the last `verify`, where the request wants them."""

    def __init__(
        self,
        models: Models,
        task_type: TaskType,
        prompt_token_ids: Sequence[int],
        params: SamplingParams,
        seed: int,
        speculation: SpeculationConfig | None,
        switches: Switches,
    ) -> None:
        self.position = 0
        self.logprobs: list[TokenLogprobs] = []
        self._num_logprobs = params.logprobs
        self._switches = switches
        self._min_tokens = params.min_tokens
        self._eos_id = models.tokenizer.eos_id
        self._target, self._draft = models.target[task_type], models.draft[task_type]
        self._break_tables = self._target.symbols.tables
        self._breaks = 0
        self._target_node, self._draft_node = models.start(task_type, prompt_token_ids)
        self._stale_node = self._draft_node
        self._uniforms = uniforms(seed)
        shape = RowShape(params.temperature, params.top_p, params.top_k)
        sayable = models.tokenizer.output_size
        self._output_size = sayable
        masked_ids = tuple(sorted(t for t in {self._eos_id, *params.stop_token_ids} if t < sayable))
        masked = RowShape(params.temperature, params.top_p, params.top_k, masked_ids) if params.min_tokens else shape
        views = models.views
        self._target_views = views.get(self._target, masked), views.get(self._target, shape)
        self._draft_views = views.get(self._draft, masked), views.get(self._draft, shape)
        self._raw_view = None if params.logprobs is None else views.get(self._target, RowShape(1.0, 1.0, 0))
        self._lookup = None
        if speculation is not None and speculation.method == "ngram":
            self._lookup = NGramProposer(prompt_token_ids, speculation.prompt_lookup_min, speculation.prompt_lookup_max)

    def propose(self, k: int) -> tuple[list[int], list[Row | None]]:
        """At most k draft tokens, and for each the distribution it was drawn from (None: certain)."""
        if self._lookup is not None:
            tokens = self._lookup.propose(k)
            return tokens, [None] * len(tokens)
        return self._propose_with_model(k)

    def verify(self, drafts: Sequence[int], proposals: Sequence[Row | None]) -> tuple[list[int], int]:
        """Tokens of one step and how many drafts were accepted: always accepted + 1 tokens. No drafts:
        plain decoding."""
        target, draft, tables, draws = self._target, self._draft, self._break_tables, self._uniforms
        masked, plain = self._target_views
        sayable = self._output_size
        unmasked_at = self._min_tokens - self.position
        node, draft_node, stale, number = self._target_node, self._draft_node, self._stale_node, self._breaks
        emitted: list[int] = []
        visited: list[Node] | None = None if self._raw_view is None else []
        accepted = 0
        going = True
        while going:
            view = plain if accepted >= unmasked_at else masked
            row = view.rows.get(node.shared) or view.build(node.shared)
            if accepted < len(drafts):
                token = drafts[accepted]
                q = proposals[accepted]
                p = row.p[token] if token < sayable else 0.0
                if next(draws) * (1.0 if q is None else q.p[token]) < p:
                    accepted += 1
                else:
                    going = False
                    token = self._recover(row, q, token)
            else:
                going = False
                token = bisect_right(row.cdf, next(draws))
            emitted.append(token)
            if visited is not None:
                visited.append(node.shared)
            symbol = token
            table = tables[token]
            if table is not None:
                number += 1
                symbol = table[number] if number < len(table) else table[-1]
            elif token == self._eos_id:
                number = 0
            node = node.next.get(symbol) or target.advance(node, symbol)
            stale = draft_node
            draft_node = draft_node.next.get(symbol) or draft.advance(draft_node, symbol)
        self._target_node, self._draft_node, self._stale_node, self._breaks = node, draft_node, stale, number
        self.position += len(emitted)
        if self._lookup is not None:
            self._lookup.extend(emitted)
        if visited is not None:
            self._tell(emitted, visited)
        return emitted, accepted

    def _tell(self, emitted: Sequence[int], visited: Sequence[Node]) -> None:
        """Log probabilities of the emitted tokens at the nodes they were drawn from."""
        view, top = self._raw_view, self._num_logprobs
        assert view is not None
        assert top is not None
        rows = (view.rows.get(node) or view.build(node) for node in visited)
        self.logprobs = [token_logprobs(row.vector, token, top) for row, token in zip(rows, emitted, strict=True)]

    def _recover(self, row: Row, q: Row | None, drafted: int) -> int:
        u = next(self._uniforms)
        if not self._switches.correction:
            return bisect_right(row.cdf, u)
        return residual_token(row, q, drafted, u)

    def _propose_with_model(self, k: int) -> tuple[list[int], list[Row | None]]:
        draft, tables, draws = self._draft, self._break_tables, self._uniforms
        masked, plain = self._draft_views
        unmasked_at = self._min_tokens - self.position
        bias = self._switches.draft_bias
        node = self._stale_node if self._switches.stale_draft else self._draft_node
        number = self._breaks
        tokens: list[int] = []
        rows: list[Row | None] = []
        for at in range(k):
            view = plain if at >= unmasked_at else masked
            row = view.rows.get(node.shared) or view.build(node.shared)
            if bias > 0.0 and next(draws) < bias:
                row = row.shuffled()
            token = bisect_right(row.cdf, next(draws))
            tokens.append(token)
            rows.append(row)
            symbol = token
            table = tables[token]
            if table is not None:
                number += 1
                symbol = table[number] if number < len(table) else table[-1]
            elif token == self._eos_id:
                number = 0
            node = node.next.get(symbol) or draft.advance(node, symbol)
        return tokens, rows
