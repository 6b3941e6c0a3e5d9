"""Ready-to-sample rows: a model's distribution after temperature, top-k, top-p and token masks.

A row holds p and its cumulative sums over the ids a model can say (`Tokenizer.output_size`), so that p(x)
is one index, a draw is one bisection and max(0, p - q) is one vector operation. Rows are kept per context
and sampling parameters, within one budget."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from math import exp, inf, log

import numpy as np

from server_adapters.rehearsal.ngram import Floats, NGramModel, Node
from server_adapters.rehearsal.numerics import Numerics
from server_adapters.rehearsal.types import TokenLogprobs

GREEDY_BELOW = 1e-5
_SHUFFLE = 7


class Row:
    """p over the ids that can be said (`vector`; `p` indexes it) and `cdf`, whose last element is exactly
    1."""

    __slots__ = ("cdf", "p", "vector")

    def __init__(self, vector: Floats) -> None:
        cdf = vector.cumsum()
        cdf /= cdf[-1]
        self.vector = vector
        self.p = vector.data
        self.cdf = cdf.data

    def shuffled(self) -> Row:
        """The row of a drafter that has drifted: the same probabilities at the wrong tokens."""
        return Row(np.roll(self.vector, _SHUFFLE))


def token_logprobs(vector: Floats, token_id: int, top: int) -> TokenLogprobs:
    """Log probabilities of a token and of the `top` most likely ones, of a raw distribution (sum 1)."""
    best: list[int] = []
    if top > 0:
        lowest = np.partition(vector, -top)[-top] if top < len(vector) else -inf
        among = np.flatnonzero(vector >= lowest)  # in order of ids, so that a stable sort ranks ties by id
        best = among[np.argsort(-vector[among], kind="stable")][:top].tolist()
    own = float(vector[token_id]) if token_id < len(vector) else 0.0
    return TokenLogprobs(token_id, _log(own), tuple((i, _log(float(vector[i]))) for i in best))


def _log(p: float) -> float:
    return log(p) if p > 0.0 else -inf


@dataclass(frozen=True, slots=True)
class RowShape:
    """What turns a model's p into the sampled p: order of application as in vLLM (mask, temperature, top-k,
    top-p; logit bias before, min-p after the temperature)."""

    temperature: float
    top_p: float
    top_k: int
    masked_ids: tuple[int, ...] = ()
    min_p: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()

    def apply(self, vector: Floats) -> Floats:
        """The sampled distribution for a raw one; temperature 0 puts all mass on the first argmax."""
        if self.masked_ids:
            vector[list(self.masked_ids)] = 0.0
        for token_id, bias in self.logit_bias:
            if token_id < len(vector):
                vector[token_id] *= exp(bias)
        if self.temperature < GREEDY_BELOW:
            best = int(vector.argmax())
            vector[:] = 0.0
            vector[best] = 1.0
            return vector
        if self.temperature != 1.0:
            vector /= vector.max()
            np.power(vector, 1.0 / self.temperature, out=vector)
        if self.min_p > 0.0:
            vector[vector < self.min_p * vector.max()] = 0.0
        if self.top_p < 1.0 or self.top_k > 0:
            self._truncate(vector)
        vector /= vector.sum()
        return vector

    def _truncate(self, vector: Floats) -> None:
        order = np.argsort(-vector, kind="stable")
        if 0 < self.top_k < len(order):
            vector[order[self.top_k :]] = 0.0
        if self.top_p < 1.0:
            ranked = np.cumsum(vector[order])
            kept = int(np.searchsorted(ranked, self.top_p * ranked[-1], side="left")) + 1
            vector[order[kept:]] = 0.0


class RowView:
    """Rows of one model under one shape. `rows` holds the recent ones: look there first, then `build`."""

    def __init__(self, model: NGramModel, shape: RowShape, views: RowViews) -> None:
        self.rows: dict[Node, Row] = {}
        self._older: dict[Node, Row] = {}
        self._model = model
        self._shape = shape
        self._views = views

    def build(self, node: Node) -> Row:
        """The row of a node that is not among the recent ones; it is afterwards."""
        row = self._older.get(node)
        if row is None:
            row = Row(self._shape.apply(self._model.probs(node)))
        self.rows[node] = row
        self._views.count_recent()
        return row

    def perturbed(self, node: Node, numerics: Numerics) -> tuple[Row, Floats]:
        """A row that is made for this once, with noise, and the raw distribution behind it; nothing is kept."""
        raw = numerics.perturb(self._model.probs(node))
        return Row(self._shape.apply(raw.copy())), raw

    def age(self) -> None:
        """Drop the older rows; the recent ones become older."""
        self._older, self.rows = self.rows, {}


class RowViews:
    """The views in use. At most `row_limit` rows are kept, in two generations: when the recent ones of all views
    reach half of it, they become older and what was older goes, unless it was asked for meanwhile.

    Beyond `limit` views the least recently asked for is dropped (sequences keep the ones they hold).
    """

    def __init__(self, row_limit: int, limit: int = 256) -> None:
        self._generation = row_limit // 2
        self._recent = 0
        self._limit = limit
        self._views: OrderedDict[tuple[int, RowShape], RowView] = OrderedDict()

    def get(self, model: NGramModel, shape: RowShape) -> RowView:
        """The view of a model under a shape."""
        key = (id(model), shape)
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = RowView(model, shape, self)
            if len(self._views) > self._limit:
                self._views.popitem(last=False)
        else:
            self._views.move_to_end(key)
        return view

    def count_recent(self) -> None:
        """Count one more recent row and turn the generations where it is time."""
        self._recent += 1
        if self._recent >= self._generation:
            self._recent = 0
            for view in self._views.values():
                view.age()
