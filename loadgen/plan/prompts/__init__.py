"""Prompts of our own: endless, unique from their first words on, and different in every sentence.

Written for load, not for acceptance: text that a grammar makes is not a user's, and reports say so.
"""

from __future__ import annotations

from typing import Any

from loadgen.plan.prompts.code import code
from loadgen.plan.prompts.longform import long_form, prose
from loadgen.plan.prompts.qa import short_qa
from loadgen.plan.prompts.structured import structured
from loadgen.plan.streams import Draw

__all__ = ["TASK_TYPES", "generate", "prose"]

_PLAIN = {"short_qa": short_qa, "long_form": long_form, "code": code}
TASK_TYPES = (*_PLAIN, "structured")


def generate(task_type: str, seed: int, chars: int) -> tuple[str, dict[str, Any] | None]:
    """(prompt, its JSON Schema or None) of about `chars` characters: to within a word, unless the shortest
    meaningful prompt is longer. Equal seeds give equal text. KeyError: a task type without a generator.
    """
    draw = Draw("prompt", task_type, seed)
    if task_type == "structured":
        return structured(draw, chars)
    return _PLAIN[task_type](draw, chars), None
