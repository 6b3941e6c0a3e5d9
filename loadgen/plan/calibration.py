"""How many characters give how many tokens: estimated, fitted to counts, corrected by what servers report.

tokens ≈ base + per_char × characters, by task type: the base is the chat template's share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from loadgen.plan.prompts import generate
from loadgen.plan.types import LengthModel

Counts = Sequence[tuple[int, int]]

#: Tokens per character of our generated text under byte-pair vocabularies of 32,000 to 150,000 tokens.
ESTIMATE = LengthModel(
    base={"short_qa": 0.0, "long_form": 0.0, "structured": 0.0, "code": 0.0},
    per_char={"short_qa": 0.24, "long_form": 0.23, "structured": 0.31, "code": 0.31},
    source="estimate",
)
_PROBE_CHARS = (400, 700, 1200, 2000, 3500, 6000)
#: Slopes outside this belong to no tokenizer: one token per byte is 1 for our text, 20 characters a token 0.05.
_LEAST, _MOST = 0.05, 1.5


def chars_for(lengths: LengthModel, task_type: str, tokens: int, whole: bool = True) -> int:
    """Characters that make `tokens` tokens; without the base where the text is not a `whole` prompt.

    A task type that was not fitted has the estimate's numbers. Never below 0.
    """
    model = lengths if task_type in lengths.per_char else ESTIMATE
    base = model.base.get(task_type, 0.0) if whole else 0.0
    return max(0, round((tokens - base) / model.per_char[task_type]))


@lru_cache(maxsize=256)
def probe_texts(task_type: str, seed: int) -> tuple[str, ...]:
    """Prompts of several sizes, to be counted by a tokenizer. KeyError: a task type without a generator."""
    return tuple(generate(task_type, (seed << 8) + i, chars)[0] for i, chars in enumerate(_PROBE_CHARS))


def fit_lengths(counts: Mapping[str, Counts], source: str) -> LengthModel:
    """The model that fits counted texts, {task type: [(characters, tokens), …]}.

    Least squares of the relative error, so that short prompts count as much as long ones. Where sizes do not
    differ, or the line makes no sense, the mean ratio with base 0. ValueError: a task without a count
    above 0.
    """
    base: dict[str, float] = {}
    per_char: dict[str, float] = {}
    for task_type, pairs in counts.items():
        usable = [(chars, tokens) for chars, tokens in pairs if chars > 0 and tokens > 0]
        if not usable:
            raise ValueError(f"no token counts for {task_type}")
        base[task_type], per_char[task_type] = _line(usable)
    return LengthModel(base, per_char, source)


def correct_lengths(model: LengthModel, observed: Mapping[str, Counts]) -> LengthModel:
    """The model after servers have reported prompt tokens: {task type: [(requested tokens, prompt tokens), …]}.

    `model` is the one those prompts were made with: it tells their characters. Requests for less than the
    shortest prompt say nothing about its length and are left out. Tasks without observations keep their
    numbers; the source becomes "estimate+usage".
    """
    usable: dict[str, list[tuple[int, int]]] = {}
    for task, pairs in observed.items():
        sized = [(chars_for(model, task, requested), tokens) for requested, tokens in pairs]
        usable[task] = [(chars, tokens) for chars, tokens in sized if chars > _shortest(task) and tokens > 0]
    fitted = fit_lengths({task: pairs for task, pairs in usable.items() if pairs}, "estimate+usage")
    if not fitted.per_char:
        return model
    return replace(fitted, base=model.base | fitted.base, per_char=model.per_char | fitted.per_char)


@lru_cache
def _shortest(task_type: str) -> int:
    """Characters below which a prompt of a task type may come out longer than asked."""
    return max(len(generate(task_type, seed, 0)[0]) for seed in range(20))


def _line(pairs: Counts) -> tuple[float, float]:
    """(base, slope) that minimise Σ ((base + slope × chars − tokens) / chars)²."""
    weights = [1.0 / chars**2 for chars, _ in pairs]
    total = sum(weights)
    mean_chars = sum(w * c for w, (c, _) in zip(weights, pairs, strict=True)) / total
    mean_tokens = sum(w * t for w, (_, t) in zip(weights, pairs, strict=True)) / total
    spread = sum(w * (c - mean_chars) ** 2 for w, (c, _) in zip(weights, pairs, strict=True))
    largest = max(c for c, _ in pairs)
    if largest > 1.2 * min(c for c, _ in pairs):
        product = sum(w * (c - mean_chars) * (t - mean_tokens) for w, (c, t) in zip(weights, pairs, strict=True))
        slope = product / spread
        base = mean_tokens - slope * mean_chars
        if _LEAST <= slope <= _MOST and base >= 0:
            return base, slope
    return 0.0, min(max(sum(t for _, t in pairs) / sum(c for c, _ in pairs), _LEAST), _MOST)
