"""The gate: which task a prompt asks for. Naive Bayes over the words of a prompt, each counted once."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping

from server_adapters.rehearsal.corpus import TASK_TYPES
from server_adapters.rehearsal.corpus.requests import REQUESTS
from server_adapters.rehearsal.types import TaskType

_WORDS = re.compile(r"[a-z]{2,}")
_FLOOR = 0.02  # share of prompts that is granted to a word in any task


class Gate:
    """Learns from requests as people write them and from the prompts of the training text, half and half."""

    def __init__(self, prompts: Mapping[TaskType, Iterable[str]]) -> None:
        shares: dict[TaskType, dict[str, float]] = {}
        for task in TASK_TYPES:
            asked, generated = _shares(REQUESTS[task]), _shares(prompts[task])
            words = asked.keys() | generated.keys()
            shares[task] = {w: (asked.get(w, 0.0) + generated.get(w, 0.0)) / 2 for w in words}
        self._scores: dict[str, tuple[float, ...]] = {}
        for word in set().union(*shares.values()):
            column = [shares[task].get(word, 0.0) + _FLOOR for task in TASK_TYPES]
            self._scores[word] = tuple(math.log(share / sum(column)) for share in column)

    def task_type(self, text: str) -> TaskType:
        """The most likely task; the first of `TASK_TYPES` for a text without a known word."""
        totals = [0.0] * len(TASK_TYPES)
        for word in sorted(set(_WORDS.findall(text.lower())) & self._scores.keys()):
            for at, score in enumerate(self._scores[word]):
                totals[at] += score
        return TASK_TYPES[totals.index(max(totals))]


def _shares(texts: Iterable[str]) -> dict[str, float]:
    """Share of the texts that contain each word."""
    sets = [set(_WORDS.findall(text.lower())) for text in texts]
    counts = Counter(word for words in sets for word in words)
    return {word: n / len(sets) for word, n in counts.items()}
