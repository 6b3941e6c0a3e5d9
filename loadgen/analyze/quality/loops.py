"""Repetition loops: an output whose end repeats itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from loadgen.analyze.quality.types import Output

#: An end of at least so many tokens that is at least so many times the same is a loop (docs/quality.md, "Classes").
LOOP_TOKENS, LOOP_TIMES = 24, 4


@dataclass(frozen=True, slots=True)
class Loop:
    """From `start` on the output repeats `period` tokens (words where ids are not told), `times` times."""

    start: int
    period: int
    times: float


def loop_in(output: Output) -> Loop | None:
    """The loop an output ends in, that of the shortest period; None where it ends in none.

    A last id of `stop_ids` is not looked at.
    """
    ids = list(output.token_ids) if output.token_ids is not None else _word_numbers(output.text)
    if output.token_ids is not None and ids and ids[-1] in output.stop_ids:
        ids.pop()
    sequence = np.asarray(ids, dtype=np.int64)
    n = len(sequence)
    for period in range(1, n // LOOP_TIMES + 1):
        other = np.flatnonzero(sequence[period:] != sequence[:-period])
        start = int(other[-1]) + 1 if len(other) else 0
        if n - start >= max(LOOP_TOKENS, LOOP_TIMES * period):
            return Loop(start, period, (n - start) / period)
    return None


def _word_numbers(text: str) -> list[int]:
    numbers: dict[str, int] = {}
    return [numbers.setdefault(word, len(numbers)) for word in text.split()]
