"""Ready-to-sample rows: a model's distribution after temperature, top-k, top-p and token masks.

A row holds p and its cumulative sums over the ids a model can say (`Tokenizer.output_size`), so that p(x)
is one index, a draw is one bisection and max(0, p - q) is one vector operation. Rows are kept per context
and sampling parameters, within one budget."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass

import numpy as np

from server_adapters.rehearsal.ngram import Floats, NGramModel, Node

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


@dataclass(frozen=True, slots=True)
class RowShape:
    """What turns a model's p into the sampled p: order of application as in vLLM (mask, temperature, top-k,
    top-p)."""

    temperature: float
    top_p: float
    top_k: int
    masked_ids: tuple[int, ...] = ()

    def apply(self, vector: Floats) -> Floats:
        """The sampled distribution for a raw one; temperature 0 puts all mass on the first argmax."""
        if self.masked_ids:
            vector[list(self.masked_ids)] = 0.0
        if self.temperature < GREEDY_BELOW:
            best = int(vector.argmax())
            vector[:] = 0.0
            vector[best] = 1.0
            return vector
        if self.temperature != 1.0:
            vector /= vector.max()
            np.power(vector, 1.0 / self.temperature, out=vector)
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


class RowPool:
    """Budget of rows for all views together: the oldest row goes first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rows: deque[tuple[dict[Node, Row], Node]] = deque()

    def admit(self, rows: dict[Node, Row], node: Node, row: Row) -> None:
        """Keep a new row, dropping the oldest beyond the limit."""
        rows[node] = row
        self._rows.append((rows, node))
        if len(self._rows) > self._limit:
            oldest, gone = self._rows.popleft()
            del oldest[gone]


class RowView:
    """Rows of one model under one shape. `rows` is the cache: look there first, then `build`."""

    def __init__(self, model: NGramModel, shape: RowShape, pool: RowPool) -> None:
        self.model = model
        self.rows: dict[Node, Row] = {}
        self._shape = shape
        self._pool = pool

    def build(self, node: Node) -> Row:
        """Compute and keep the row of a node."""
        row = Row(self._shape.apply(self.model.probs(node)))
        self._pool.admit(self.rows, node, row)
        return row


class RowViews:
    """The views in use, least recently asked for dropped beyond `limit` (sequences keep the ones they
    hold)."""

    def __init__(self, row_limit: int, limit: int = 256) -> None:
        self._pool = RowPool(row_limit)
        self._limit = limit
        self._views: OrderedDict[tuple[int, RowShape], RowView] = OrderedDict()

    def get(self, model: NGramModel, shape: RowShape) -> RowView:
        """The view of a model under a shape."""
        key = (id(model), shape)
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = RowView(model, shape, self._pool)
            if len(self._views) > self._limit:
                self._views.popitem(last=False)
        else:
            self._views.move_to_end(key)
        return view
