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
from dataclasses import replace

import numpy as np

from server_adapters.rehearsal.models import Models
from server_adapters.rehearsal.ngram import Floats, Node
from server_adapters.rehearsal.numerics import Numerics
from server_adapters.rehearsal.proposer import NGramProposer
from server_adapters.rehearsal.rows import Row, RowShape, token_logprobs
from server_adapters.rehearsal.scripts import Script
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
    so far; `logprobs` are those of the last `verify`, where the request wants them; a `script` says the tokens instead
    of the target. With `numerics` the target's rows have noise; the drafter's, which change no output, have none."""

    def __init__(
        self,
        models: Models,
        task_type: TaskType,
        prompt_token_ids: Sequence[int],
        params: SamplingParams,
        seed: int,
        speculation: SpeculationConfig | None,
        switches: Switches,
        numerics: Numerics | None = None,
    ) -> None:
        self.position = 0
        self.script: Script | None = None
        self.logprobs: list[TokenLogprobs] = []
        self._num_logprobs = params.logprobs
        self._switches, self._numerics = switches, numerics
        self._min_tokens = params.min_tokens
        self._eos_id = models.tokenizer.eos_id
        self._target, self._draft = models.target[task_type], models.draft[task_type]
        self._break_tables = self._target.symbols.tables
        self._breaks = 0
        prompt, said = models.begun(prompt_token_ids)
        self._target_node, self._draft_node = models.start(task_type, prompt)
        self._stale_node = self._draft_node
        for token in said:
            self._go_on(token)
        self._uniforms = uniforms(seed)
        shape = RowShape(
            params.temperature, params.top_p, params.top_k, min_p=params.min_p, logit_bias=params.logit_bias
        )
        sayable = models.tokenizer.output_size
        self._output_size = sayable
        masked_ids = tuple(sorted(t for t in {self._eos_id, *params.stop_token_ids} if t < sayable))
        masked = replace(shape, masked_ids=masked_ids) if params.min_tokens else shape
        self._shapes = masked, shape
        self._views = models.views
        self._set_views()
        self._lookup = None
        if speculation is not None and speculation.method == "ngram":
            self._lookup = NGramProposer(prompt_token_ids, speculation.prompt_lookup_min, speculation.prompt_lookup_max)

    def _set_views(self) -> None:
        """The rows of both models under this request's sampling, until `min_tokens` and after."""
        get, (masked, plain) = self._views.get, self._shapes
        self._target_views = get(self._target, masked), get(self._target, plain)
        self._draft_views = get(self._draft, masked), get(self._draft, plain)
        self._raw_view = None if self._num_logprobs is None else get(self._target, RowShape(1.0, 1.0, 0))

    def adopt(self, other: SequenceSampler) -> None:
        """Go on in the context of another request, as if its cache were ours; sampling and chance stay our own."""
        self._target, self._draft, self._break_tables = other._target, other._draft, other._break_tables
        self._target_node, self._draft_node, self._stale_node = other._target_node, other._draft_node, other._stale_node
        self._breaks = other._breaks
        self._set_views()

    def propose(self, k: int) -> tuple[list[int], list[Row | None]]:
        """At most k draft tokens, and for each the distribution it was drawn from (None: certain)."""
        if self._lookup is not None:
            tokens = self._lookup.propose(k)
            return tokens, [None] * len(tokens)
        if self.script is not None and self.script.drafted:
            return self.script.tokens(self.position, k), [None] * k
        return self._propose_with_model(k)

    def verify(self, drafts: Sequence[int], proposals: Sequence[Row | None]) -> tuple[list[int], int]:
        """Tokens of one step and how many drafts were accepted: always accepted + 1 tokens. No drafts:
        plain decoding."""
        if self.script is not None:
            return self._follow(self.script, drafts)
        target, draft, tables, draws = self._target, self._draft, self._break_tables, self._uniforms
        masked, plain = self._target_views
        numerics = self._numerics
        sayable = self._output_size
        unmasked_at = self._min_tokens - self.position
        node, draft_node, stale, number = self._target_node, self._draft_node, self._stale_node, self._breaks
        emitted: list[int] = []
        raws: list[Floats] | None = None if self._raw_view is None else []
        accepted = 0
        going = True
        while going:
            view = plain if accepted >= unmasked_at else masked
            raw = None
            if numerics is None:
                row = view.rows.get(node.shared) or view.build(node.shared)
            else:
                row, raw = view.perturbed(node.shared, numerics)
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
            if raws is not None:
                raws.append(self._raw(node) if raw is None else raw)
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
        self._said(emitted, raws)
        return emitted, accepted

    def _follow(self, script: Script, drafts: Sequence[int]) -> tuple[list[int], int]:
        """As `verify`, where the tokens are already known: a draft is accepted where it is the next of them."""
        known = script.tokens(self.position, len(drafts) + 1)
        accepted = next((i for i, draft in enumerate(drafts) if draft != known[i]), len(drafts))
        emitted = known[: accepted + 1]
        raws: list[Floats] | None = None if self._raw_view is None else []
        for token in emitted:
            if raws is not None:
                raws.append(self._raw(self._target_node))
            self._go_on(token)
        self._said(emitted, raws)
        return emitted, accepted

    def _go_on(self, token: int) -> None:
        """Both models after one more token of the answer."""
        table = self._break_tables[token]
        self._breaks = self._breaks + 1 if table is not None else 0 if token == self._eos_id else self._breaks
        symbol = self._target.symbols.symbol(token, self._breaks)
        self._target_node = self._target.advance(self._target_node, symbol)
        self._stale_node, self._draft_node = self._draft_node, self._draft.advance(self._draft_node, symbol)

    def _said(self, emitted: Sequence[int], raws: Sequence[Floats] | None) -> None:
        """Book emitted tokens; `raws` are the target's distributions they stood in, where they are wanted."""
        self.position += len(emitted)
        if self._lookup is not None:
            self._lookup.extend(emitted)
        top = self._num_logprobs
        if raws is not None and top is not None:
            self.logprobs = [token_logprobs(raw, token, top) for raw, token in zip(raws, emitted, strict=True)]

    def _raw(self, node: Node) -> Floats:
        """The target's own distribution at a node."""
        view = self._raw_view
        assert view is not None
        return (view.rows.get(node.shared) or view.build(node.shared)).vector

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
