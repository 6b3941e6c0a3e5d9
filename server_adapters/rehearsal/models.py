"""The language models of the rehearsal engine: a target and a weaker draft per task, one tokenizer, one gate.

Both are n-gram models of the same text; the draft has a lower order and saw a part of it. The gate recognises the task
of a prompt (naive Bayes over the prompts of the text) and picks the models, as a router of experts would.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from server_adapters.rehearsal.corpus import TASK_TYPES, Document, documents
from server_adapters.rehearsal.ngram import BreakSymbols, Floats, NGramModel, Node, TrainingText
from server_adapters.rehearsal.rows import RowViews
from server_adapters.rehearsal.tokenizer import Tokenizer
from server_adapters.rehearsal.types import TaskType

_DOCUMENTS: dict[TaskType, int] = {"short_qa": 1500, "long_form": 350, "structured": 600, "code": 600}
_DRAFT_SHARE = 0.25
_TARGET_ORDER, _DRAFT_ORDER = 5, 3
_TARGET_DISCOUNT, _DRAFT_DISCOUNT = 0.5, 0.6
_TARGET_MIN_COUNT = 2
_CUE_SMOOTHING = 0.5
_ROW_LIMIT = 6000
_SEPARATOR = "\n\n"


class Models:
    """Everything learnt. Immutable but for its caches; share one instance between engines of one thread."""

    def __init__(self, seed: int = 0) -> None:
        texts = {task: documents(task, _DOCUMENTS[task], seed) for task in TASK_TYPES}
        self.tokenizer = Tokenizer(part for docs in texts.values() for doc in docs for part in (*doc, _SEPARATOR))
        self.separator_ids = tuple(self.tokenizer.encode(_SEPARATOR))
        breaks = self._break_ids()
        trained = {task: self._training_text(docs, breaks) for task, docs in texts.items()}
        base = _base(list(trained.values()), self.tokenizer.vocab_size)
        self.target: dict[TaskType, NGramModel] = {}
        self.draft: dict[TaskType, NGramModel] = {}
        for task, docs in texts.items():
            symbols = BreakSymbols.for_tokens(breaks, trained[task], self.tokenizer.vocab_size)
            self.target[task] = NGramModel(
                trained[task], symbols, base, order=_TARGET_ORDER, discount=_TARGET_DISCOUNT, min_count=_TARGET_MIN_COUNT
            )
            part = self._training_text(docs[: int(len(docs) * _DRAFT_SHARE)], breaks)
            self.draft[task] = NGramModel(
                part, symbols, base, order=_DRAFT_ORDER, discount=_DRAFT_DISCOUNT, min_count=1
            )
        self._cues = self._learn_cues(texts)
        self.views = RowViews(_ROW_LIMIT)

    def classify(self, prompt_token_ids: Sequence[int]) -> TaskType:
        """Task of a prompt, from the tokens after its last user mark (all of them where there is none)."""
        ids = list(prompt_token_ids)
        if self.tokenizer.user_id in ids:
            ids = ids[len(ids) - ids[::-1].index(self.tokenizer.user_id) :]
        return TASK_TYPES[int(self._cues[:, ids].sum(axis=1).argmax())] if ids else TASK_TYPES[0]

    def start(self, model: NGramModel, prompt_token_ids: Sequence[int]) -> Node:
        """Node of a model at the end of a prompt; a prompt that ends in nothing known counts as a finished one."""
        node = self._read(model, prompt_token_ids[-(model.order - 1) :])
        return node if node is not model.root else self._read(model, self.separator_ids)

    @staticmethod
    def _read(model: NGramModel, ids: Sequence[int]) -> Node:
        node = model.root
        for token in ids:
            node = model.advance(node, model.symbols.symbol(token, 0))
        return node

    def _break_ids(self) -> list[int]:
        texts = [self.tokenizer.token_text(i) for i in range(self.tokenizer.vocab_size)]
        return [i for i, text in enumerate(texts) if text == "." or (text[:1] == "\n" and text != _SEPARATOR)]

    def _training_text(self, docs: Sequence[Document], break_ids: Sequence[int]) -> TrainingText:
        """Every document twice, after a chat prompt and after a bare one; EOS predicts the next answer's begin."""
        tok = self.tokenizer
        is_break = set(break_ids)
        tokens: list[int] = []
        counted: list[bool] = []
        depth: list[int] = []
        breaks: list[int] = []
        for prompt, answer in docs:
            answer_ids = tok.encode(answer)
            chat, bare = tok.render_chat([("user", prompt)]), tok.encode(prompt)
            for before, after in ((chat, answer_ids), (bare, [*self.separator_ids, *answer_ids])):
                document = [*before, *after, tok.eos_id, answer_ids[0]]
                number = 0
                for at, token in enumerate(document):
                    inside = at >= len(before)
                    number += inside and token in is_break
                    breaks.append(number if token in is_break else 0)
                    counted.append(inside)
                tokens.extend(document)
                depth.extend(range(len(document)))
        return TrainingText(
            np.array(tokens), np.array(counted, dtype=np.bool_), np.array(depth), np.array(breaks)
        )

    def _learn_cues(self, texts: dict[TaskType, list[Document]]) -> Floats:
        """log p(token | task) of the prompts, tasks by tokens; tokens of no prompt are neutral."""
        counts = np.zeros((len(TASK_TYPES), self.tokenizer.vocab_size))
        for row, task in zip(counts, TASK_TYPES, strict=True):
            for prompt, _ in texts[task]:
                np.add.at(row, self.tokenizer.encode(prompt), 1.0)
        smoothed = counts / counts.sum(axis=1, keepdims=True) * 1000.0 + _CUE_SMOOTHING
        logs: Floats = np.log(smoothed / smoothed.sum(axis=0))
        logs[:, counts.sum(axis=0) == 0] = 0.0
        return logs


def _base(texts: list[TrainingText], vocab_size: int) -> Floats:
    """Unigrams of all tasks together: the last level of every model. Tokens no answer contains have probability 0."""
    counts = np.zeros(vocab_size)
    for text in texts:
        counts += np.bincount(text.tokens[text.counted], minlength=vocab_size) / text.counted.sum()
    shares: Floats = counts / counts.sum()
    return shares


@lru_cache(maxsize=2)
def load_models(seed: int = 0) -> Models:
    """The models of a seed, trained at the first call (under two seconds) and kept."""
    return Models(seed)
