"""N-gram language models with absolute discounting, walked as an automaton.

p(w | h) = max(c(h w) - d, 0) / c(h) + gamma(h) p(w | h'), h' being h without its oldest symbol, down to the unigrams of
all tasks. A node is the longest known suffix of what was read, so a step is one dictionary lookup.

Symbols of a context are token ids, except for break tokens (line and sentence ends), which carry their
running number in the answer: the model knows how far the answer has come, learns how long answers are, and
reaches EOS by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
_SYMBOL_BITS = 12
_SYMBOL_MASK = (1 << _SYMBOL_BITS) - 1
_NOTHING_NEW = -1
MAX_ORDER = 5  # a packed context and its successor fill 60 of 64 bits at order 5
_MAX_NODES = 40_000  # per model; then they are built again as they are met
_MAX_KEPT_STEPS = 64  # per node; rarer steps are searched again, so that memory stays bounded


class Node:
    """One context of a model under one topic: its successors, and the interpolation levels that give its distribution.

    `shared` is the node whose distribution is the same: itself, or the one without topic where the topic adds nothing.
    """

    __slots__ = ("context", "levels", "next", "shared", "topic")

    def __init__(
        self, topic: int, context: tuple[int, ...], levels: tuple[tuple[int, int], ...], shared: Node | None = None
    ) -> None:
        self.topic = topic
        self.context = context
        self.levels = levels
        self.next: dict[int, Node] = {}
        self.shared = shared or self


@dataclass(frozen=True, slots=True)
class _Level:
    """Counts of all contexts of one length: `index` maps a packed context to its slice of successors."""

    index: dict[int, int]
    starts: npt.NDArray[np.int64]
    tokens: npt.NDArray[np.int64]
    shares: Floats
    gammas: Floats


@dataclass(frozen=True, slots=True)
class TrainingText:
    """Documents of one task, concatenated. `counted` marks the tokens whose prediction is learnt; `depth`
    is the number of tokens of the same document before each; `breaks` the running number of each break
    token, else 0; `topics` the topic of each document (0: none)."""

    tokens: npt.NDArray[np.int64]
    counted: npt.NDArray[np.bool_]
    depth: npt.NDArray[np.int64]
    breaks: npt.NDArray[np.int64]
    topics: npt.NDArray[np.int64]


@dataclass(slots=True)
class BreakSymbols:
    """Symbol of the n-th break: `tables[token]` is None for other tokens, else symbols by number, the last
    one kept."""

    tables: list[list[int] | None] = field(default_factory=list)

    @classmethod
    def for_tokens(cls, break_ids: Sequence[int], text: TrainingText, vocab_size: int) -> BreakSymbols:
        """Numbers 0..max seen in `text` get their own symbols behind the vocabulary."""
        tables: list[list[int] | None] = [None] * vocab_size
        first = vocab_size
        for token in break_ids:
            highest = int(text.breaks[text.tokens == token].max(initial=0))
            tables[token] = list(range(first, first + highest + 1))
            first += highest + 1
        if first >= 1 << _SYMBOL_BITS:
            raise ValueError(f"{first} symbols do not fit {_SYMBOL_BITS} bits")
        return cls(tables)

    def symbol(self, token: int, number: int) -> int:
        """Symbol of a token that is the `number`-th break of its answer (ignored for other tokens)."""
        table = self.tables[token]
        return token if table is None else table[min(number, len(table) - 1)]

    def symbols(self, text: TrainingText) -> npt.NDArray[np.int64]:
        """`symbol` of every token of a text."""
        found = text.tokens.copy()
        for token, table in enumerate(self.tables):
            if table is not None:
                at = text.tokens == token
                found[at] = np.array(table)[np.minimum(text.breaks[at], len(table) - 1)]
        return found


class NGramModel:
    """A model of one task. `order` n looks back n - 1 symbols; contexts seen fewer than `min_count` times
    are dropped. With a `topic_reach` above 0 the model also looks at the topic of the prompt together with the last
    `topic_reach` symbols (at least `topic_min_count` times). Longer contexts that change the distribution by less than
    `novelty` are left out, which keeps the number of different distributions small.
    """

    def __init__(
        self,
        text: TrainingText,
        symbols: BreakSymbols,
        base: Floats,
        *,
        order: int,
        discount: float,
        min_count: int,
        topic_reach: int = 0,
        topic_min_count: int = 1,
        novelty: float = 0.0,
    ) -> None:
        if not 2 <= order <= MAX_ORDER:
            raise ValueError(f"order must be within 2 and {MAX_ORDER}")
        self.order = order
        self.symbols = symbols
        packed = symbols.symbols(text)
        self._levels = []
        for length in range(order):
            at = np.flatnonzero(text.counted & (text.depth >= length))
            context = [packed[at - back] for back in range(length, 0, -1)]
            least = min_count if length > 1 else 1
            self._levels.append(_count(context, text.tokens[at], discount, least, novelty if length > 1 else 0.0))
        self._topic_reach = topic_reach
        if topic_reach > 0:
            at = np.flatnonzero(text.counted & (text.depth >= topic_reach) & (text.topics > 0))
            context = [text.topics[at], *(packed[at - back] for back in range(topic_reach, 0, -1))]
            self._levels.append(_count(context, text.tokens[at], discount, topic_min_count, novelty))
        self._root_probs = self._add_level(base.copy(), 0, 0)
        self._nodes: dict[tuple[int, tuple[int, ...]], Node] = {}
        self._distributions: dict[tuple[tuple[int, int], ...], Node] = {}

    def begin(self, topic: int = 0) -> Node:
        """The node before any symbol, under a topic."""
        return self._node(topic if self._topic_reach else 0, ())

    def advance(self, node: Node, symbol: int) -> Node:
        """The node after one more symbol."""
        following = node.next.get(symbol)
        if following is None:
            following = self._node(node.topic, (*node.context, symbol)[-(self.order - 1) :])
            if len(node.next) < _MAX_KEPT_STEPS:
                node.next[symbol] = following
        return following

    def probs(self, node: Node) -> Floats:
        """p(. | node) over the ids that can be said, float64, sums to 1."""
        vector = self._root_probs.copy()
        for level, index in node.levels:
            self._add_level(vector, level, index)
        return vector

    def _add_level(self, vector: Floats, level: int, index: int) -> Floats:
        counts = self._levels[level]
        start, end = counts.starts[index], counts.starts[index + 1]
        vector *= counts.gammas[index]
        vector[counts.tokens[start:end]] += counts.shares[start:end]
        return vector

    def _node(self, topic: int, context: tuple[int, ...]) -> Node:
        """Node of the longest suffix of a context that was seen."""
        while context and _pack(context) not in self._levels[len(context)].index:
            context = context[1:]
        node = self._nodes.get((topic, context))
        if node is None:
            if len(self._nodes) >= _MAX_NODES:
                self._nodes.clear()
                self._distributions.clear()
            levels = self._levels_of(topic, context)
            node = Node(topic, context, levels, self._distributions.get(levels))
            self._distributions.setdefault(levels, node)
            self._nodes[topic, context] = node
        return node

    def _levels_of(self, topic: int, context: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        """The interpolation levels of a context, shortest first, without those that say nothing new."""
        keys = [(length, context[-length:]) for length in range(1, len(context) + 1)]
        if topic and len(context) >= self._topic_reach:
            keys.append((self.order, (topic, *context[-self._topic_reach :])))
        found = [(level, self._levels[level].index.get(_pack(key), _NOTHING_NEW)) for level, key in keys]
        return tuple((level, index) for level, index in found if index != _NOTHING_NEW)


def _pack(context: Sequence[int]) -> int:
    key = 0
    for symbol in context:
        key = key << _SYMBOL_BITS | symbol
    return key


def _count(
    context: Sequence[npt.NDArray[np.int64]],
    tokens: npt.NDArray[np.int64],
    discount: float,
    min_count: int,
    novelty: float,
) -> _Level:
    """Successor shares of every context (its symbols oldest first, one array each; none: one context, key 0).

    A context whose shares are within `novelty` (total variation) of those without its oldest symbol is known, but has
    no counts of its own.
    """
    pairs, counts = np.unique(_keys([*context, tokens], len(tokens)), return_counts=True)
    contexts, group = np.unique(pairs >> _SYMBOL_BITS, return_inverse=True)
    totals = np.bincount(group, weights=counts)
    kept = new = totals >= min_count
    if novelty > 0.0:
        shorter = _shares_without_oldest(context, tokens, pairs)
        changes = np.bincount(group, weights=np.maximum(counts / totals[group] - shorter, 0.0))
        new = kept & (changes >= novelty)
    successors = np.bincount(group)
    keep_pair = new[group]
    shares = (counts - discount) / totals[group]
    starts = np.concatenate([[0], np.cumsum(successors[new])]).astype(np.int64)
    positions = np.where(new, np.cumsum(new) - 1, _NOTHING_NEW)
    index = dict(zip(contexts[kept].tolist(), positions[kept].tolist(), strict=True))
    gammas = discount * successors / totals
    return _Level(index, starts, (pairs & _SYMBOL_MASK)[keep_pair], shares[keep_pair], gammas[new])


def _keys(symbols: Sequence[npt.NDArray[np.int64]], count: int) -> npt.NDArray[np.int64]:
    keys = np.zeros(count, dtype=np.int64)
    for column in symbols:
        keys = keys << _SYMBOL_BITS | column
    return keys


def _shares_without_oldest(
    context: Sequence[npt.NDArray[np.int64]], tokens: npt.NDArray[np.int64], pairs: npt.NDArray[np.int64]
) -> Floats:
    """For each pair (context, token), the share of the token after the context without its oldest symbol."""
    known, counts = np.unique(_keys([*context[1:], tokens], len(tokens)), return_counts=True)
    _, group = np.unique(known >> _SYMBOL_BITS, return_inverse=True)
    shares = counts / np.bincount(group, weights=counts)[group]
    mask = (1 << _SYMBOL_BITS * len(context)) - 1
    found: Floats = shares[np.searchsorted(known, pairs & mask)]
    return found
