"""The language models of the rehearsal engine: a target and a weaker draft per task, one tokenizer, one gate.

Both are n-gram models of the same text; the draft has a lower order and saw a part of it. The gate recognises the task
of a prompt and picks the models, as a router of experts would. Both also follow the topic of the prompt: its rarest
word that answers take up.

The constants below were chosen so that answers are mostly well-formed and rows are few; acceptance follows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from server_adapters.rehearsal.corpus import TASK_TYPES, documents
from server_adapters.rehearsal.gate import Gate
from server_adapters.rehearsal.ngram import BreakSymbols, Floats, NGramModel, Node, TrainingText
from server_adapters.rehearsal.rows import RowViews
from server_adapters.rehearsal.tokenizer import Tokenizer
from server_adapters.rehearsal.types import TaskType

_DOCUMENTS: dict[TaskType, int] = {"short_qa": 1500, "long_form": 900, "structured": 1200, "code": 1500}
_DRAFT_SHARE = 0.08
_TARGET_ORDER, _DRAFT_ORDER = 4, 3
_TARGET_DISCOUNT, _DRAFT_DISCOUNT = 0.15, 0.95
_TARGET_MIN_COUNT = 4
_TARGET_TOPIC_REACH, _DRAFT_TOPIC_REACH = 3, 2
_TARGET_TOPIC_MIN_COUNT, _DRAFT_TOPIC_MIN_COUNT = 8, 4
_TARGET_NOVELTY, _DRAFT_NOVELTY = 0.1, 0.15
_TOPIC_MIN, _TOPIC_MAX = 5, 0.6  # a topic word is in at least 5 prompts and in less than 60 %
_ROW_LIMIT = 8000
_SEPARATOR = "\n\n"

Ids = Sequence[int]
#: Token ids of a prompt and of its answer.
_Encoded = tuple[Ids, Ids]


class Models:
    """Everything learnt. Immutable but for its caches; share one instance between engines of one thread."""

    def __init__(self, seed: int = 0) -> None:
        texts = {task: documents(task, _DOCUMENTS[task], seed) for task in TASK_TYPES}
        pairs = [pair for docs in texts.values() for pair in docs]
        self.tokenizer = Tokenizer([_SEPARATOR, *(answer for _, answer in pairs)], [prompt for prompt, _ in pairs])
        self.separator_ids = tuple(self.tokenizer.encode(_SEPARATOR))
        breaks = self._break_ids()
        encode = self.tokenizer.encode
        encoded = {task: [(encode(p), encode(a)) for p, a in docs] for task, docs in texts.items()}
        self._words = [self.tokenizer.token_text(i).strip().lower() for i in range(self.tokenizer.vocab_size)]
        self._topics = {task: self._learn_topics(docs) for task, docs in encoded.items()}
        trained = {task: self._training_text(docs, breaks, self._topics[task]) for task, docs in encoded.items()}
        base = _base(list(trained.values()), self.tokenizer.output_size)
        self.target: dict[TaskType, NGramModel] = {}
        self.draft: dict[TaskType, NGramModel] = {}
        for task, docs in encoded.items():
            symbols = BreakSymbols.for_tokens(breaks, trained[task], self.tokenizer.vocab_size)
            self.target[task] = NGramModel(
                trained[task],
                symbols,
                base,
                order=_TARGET_ORDER,
                discount=_TARGET_DISCOUNT,
                min_count=_TARGET_MIN_COUNT,
                novelty=_TARGET_NOVELTY,
                topic_reach=_TARGET_TOPIC_REACH,
                topic_min_count=_TARGET_TOPIC_MIN_COUNT,
            )
            part = self._training_text(docs[: int(len(docs) * _DRAFT_SHARE)], breaks, self._topics[task])
            self.draft[task] = NGramModel(
                part,
                symbols,
                base,
                order=_DRAFT_ORDER,
                discount=_DRAFT_DISCOUNT,
                min_count=1,
                novelty=_DRAFT_NOVELTY,
                topic_reach=_DRAFT_TOPIC_REACH,
                topic_min_count=_DRAFT_TOPIC_MIN_COUNT,
            )
        self._gate = Gate({task: [prompt for prompt, _ in docs[:200]] for task, docs in texts.items()})
        self.views = RowViews(_ROW_LIMIT)

    def begun(self, prompt_token_ids: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        """A prompt, and what it holds of its answer: the tokens after the assistant's last mark, where no user speaks
        after it. So an answer that has begun goes on as it would have."""
        ids, mark = list(prompt_token_ids), self.tokenizer.assistant_id
        if mark not in ids:
            return prompt_token_ids, ()
        at = len(ids) - ids[::-1].index(mark)
        return (prompt_token_ids, ()) if self.tokenizer.user_id in ids[at:] else (ids[:at], ids[at:])

    def classify(self, prompt_token_ids: Sequence[int]) -> TaskType:
        """Task of a prompt, from the tokens after its last user mark (all of them where there is none)."""
        ids = list(self.begun(prompt_token_ids)[0])
        if self.tokenizer.user_id in ids:
            ids = ids[len(ids) - ids[::-1].index(self.tokenizer.user_id) :]
        return self._gate.task_type(self.tokenizer.decode(ids))

    def start(self, task_type: TaskType, prompt_token_ids: Sequence[int]) -> tuple[Node, Node]:
        """Nodes of target and draft at the end of a prompt; one that ends in nothing known counts as finished."""
        topic = self._topic(prompt_token_ids, self._topics[task_type])
        target, draft = self.target[task_type], self.draft[task_type]
        return self._read(target, prompt_token_ids, topic), self._read(draft, prompt_token_ids, topic)

    def _read(self, model: NGramModel, ids: Sequence[int], topic: int) -> Node:
        for known in (ids[-(model.order - 1) :], self.separator_ids):
            node = model.begin(topic)
            for token in known:
                node = model.advance(node, model.symbols.symbol(token, 0))
            if node.context:
                return node
        return model.begin(topic)

    def _topic(self, prompt_token_ids: Sequence[int], topics: Mapping[str, int]) -> int:
        """The rarest topic word of a prompt (the highest number), 0 where there is none."""
        words = self._words
        return max((topics.get(words[t], 0) for t in prompt_token_ids), default=0)

    def _learn_topics(self, docs: Sequence[_Encoded]) -> dict[str, int]:
        """Words of prompts that answers take up, except the common ones, numbered from the most frequent."""
        words = self._words
        said = {words[t] for t in {token for _, answer in docs for token in answer}}
        seen = Counter(word for prompt, _ in docs for word in {words[t] for t in prompt})
        rare = [
            (n, w) for w, n in seen.items() if w.isalnum() and w in said and _TOPIC_MIN <= n < len(docs) * _TOPIC_MAX
        ]
        return {word: number for number, (_, word) in enumerate(sorted(rare, reverse=True), start=1)}

    def _break_ids(self) -> list[int]:
        texts = [self.tokenizer.token_text(i) for i in range(self.tokenizer.vocab_size)]
        return [i for i, text in enumerate(texts) if text == "." or (text[:1] == "\n" and text != _SEPARATOR)]

    def _training_text(self, docs: Sequence[_Encoded], breaks: Ids, topic_words: Mapping[str, int]) -> TrainingText:
        """Every document twice, after a chat prompt and after a bare one; EOS predicts the next answer's
        begin."""
        tok = self.tokenizer
        ids: list[int] = []
        lengths: list[int] = []  # of documents, and of what stands before their answers
        before: list[int] = []
        topics: list[int] = []
        for prompt, answer in docs:
            topics += [self._topic(prompt, topic_words)] * 2
            chat = (tok.user_id, *prompt, tok.assistant_id)
            for read, said in ((chat, answer), (prompt, (*self.separator_ids, *answer))):
                document = (*read, *said, tok.eos_id, answer[0])
                ids += document
                lengths.append(len(document))
                before.append(len(read))
        tokens, begins = np.array(ids), np.cumsum(lengths) - lengths
        depth = np.arange(len(tokens)) - np.repeat(begins, lengths)
        counted = depth >= np.repeat(before, lengths)
        is_break = np.isin(tokens, breaks)
        so_far = np.concatenate([[0], np.cumsum(is_break & counted)])
        number = so_far[1:] - np.repeat(so_far[begins], lengths)
        return TrainingText(tokens, counted, depth, np.where(is_break, number, 0), np.repeat(topics, lengths))


def _base(texts: list[TrainingText], vocab_size: int) -> Floats:
    """Unigrams of all tasks together: the last level of every model. Tokens no answer contains have
    probability 0."""
    counts = np.zeros(vocab_size)
    for text in texts:
        counts += np.bincount(text.tokens[text.counted], minlength=vocab_size) / text.counted.sum()
    shares: Floats = counts / counts.sum()
    return shares


@lru_cache(maxsize=2)
def load_models(seed: int = 0) -> Models:
    """The models of a seed, trained at the first call (under two seconds) and kept."""
    return Models(seed)
