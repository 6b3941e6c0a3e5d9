"""N-gram language models with absolute discounting, walked as an automaton.

p(w | h) = max(c(h w) - d, 0) / c(h) + gamma(h) p(w | h'), h' being h without its oldest symbol, down to the unigrams of
all tasks. A node is the longest known suffix of what was read, so a step is one dictionary lookup.

Symbols of a context are token ids, except for break tokens (line and sentence ends), which carry their running number
in the answer: the model knows how far the answer has come, learns how long answers are, and reaches EOS by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
_SYMBOL_BITS = 12
MAX_ORDER = 5


class Node:
    """One context of a model: its successors, and the interpolation levels that give its distribution."""

    __slots__ = ("context", "levels", "next")

    def __init__(self, context: tuple[int, ...], levels: tuple[tuple[int, int], ...]) -> None:
        self.context = context
        self.levels = levels
        self.next: dict[int, Node] = {}


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
    """Documents of one task, concatenated. `counted` marks the tokens whose prediction is learnt; `depth` is the
    number of tokens of the same document before each; `breaks` the running number of each break token, else 0."""

    tokens: npt.NDArray[np.int64]
    counted: npt.NDArray[np.bool_]
    depth: npt.NDArray[np.int64]
    breaks: npt.NDArray[np.int64]


@dataclass(slots=True)
class BreakSymbols:
    """Symbol of the n-th break: `tables[token]` is None for other tokens, else symbols by number, the last one kept."""

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


class NGramModel:
    """A model of one task. `order` n looks back n - 1 symbols; contexts seen fewer than `min_count` times are dropped."""

    def __init__(
        self, text: TrainingText, symbols: BreakSymbols, base: Floats, *, order: int, discount: float, min_count: int
    ) -> None:
        if not 1 <= order <= MAX_ORDER:
            raise ValueError(f"order must be within 1 and {MAX_ORDER}")
        self.order = order
        self.symbols = symbols
        self.vocab_size = len(base)
        packed = np.array(
            [symbols.symbol(t, n) for t, n in zip(text.tokens.tolist(), text.breaks.tolist(), strict=True)]
        )
        self._levels = [
            _count(text, packed, length, discount, min_count if length > 1 else 1) for length in range(order)
        ]
        self._root_probs = self._level_probs(base.copy(), 0, 0)
        self._nodes: dict[tuple[int, ...], Node] = {(): Node((), ())}
        self.root = self._nodes[()]

    def advance(self, node: Node, symbol: int) -> Node:
        """The node after one more symbol."""
        following = node.next.get(symbol)
        if following is None:
            following = self._longest_suffix((*node.context, symbol)[-(self.order - 1) :] if self.order > 1 else ())
            node.next[symbol] = following
        return following

    def probs(self, node: Node) -> Floats:
        """p(. | node) over the vocabulary, float64, sums to 1."""
        vector = self._root_probs.copy()
        for length, index in node.levels:
            self._level_probs(vector, length, index)
        return vector

    def _level_probs(self, vector: Floats, length: int, index: int) -> Floats:
        level = self._levels[length]
        start, end = level.starts[index], level.starts[index + 1]
        vector *= level.gammas[index]
        vector[level.tokens[start:end]] += level.shares[start:end]
        return vector

    def _longest_suffix(self, context: tuple[int, ...]) -> Node:
        while context:
            node = self._nodes.get(context)
            if node is not None:
                return node
            index = self._levels[len(context)].index.get(_pack(context))
            if index is not None:
                shorter = self._longest_suffix(context[1:])
                node = self._nodes[context] = Node(context, (*shorter.levels, (len(context), index)))
                return node
            context = context[1:]
        return self.root


def _pack(context: Sequence[int]) -> int:
    key = 0
    for symbol in context:
        key = key << _SYMBOL_BITS | symbol
    return key


def _count(
    text: TrainingText, symbols: npt.NDArray[np.int64], length: int, discount: float, min_count: int
) -> _Level:
    """Successor shares of every context of `length` symbols (with length 0: one context, key 0)."""
    at = np.flatnonzero(text.counted & (text.depth >= length))
    keys = np.zeros(len(at), dtype=np.int64)
    for back in range(length, 0, -1):
        keys = keys << _SYMBOL_BITS | symbols[at - back]
    pairs, counts = np.unique(keys << _SYMBOL_BITS | text.tokens[at], return_counts=True)
    contexts, first, group = np.unique(pairs >> _SYMBOL_BITS, return_index=True, return_inverse=True)
    totals = np.bincount(group, weights=counts)
    kept = totals >= min_count
    successors = np.bincount(group)
    keep_pair = kept[group]
    shares = (counts - discount) / totals[group]
    starts = np.concatenate([[0], np.cumsum(successors[kept])]).astype(np.int64)
    index = {key: i for i, key in enumerate(contexts[kept].tolist())}
    gammas = discount * successors / totals
    return _Level(
        index, starts, (pairs & ((1 << _SYMBOL_BITS) - 1))[keep_pair], shares[keep_pair], gammas[kept]
    )
