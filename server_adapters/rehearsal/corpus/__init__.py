"""Text of our own, generated from small grammars: prompts with their answers, per task type.

The grammars differ in entropy the way the tasks do: JSON and code repeat themselves, prose does not.
Nothing here sets an acceptance rate; it follows from how well the weaker model learns each text."""

from __future__ import annotations

import random
from collections.abc import Callable

from server_adapters.rehearsal.corpus import code, long_form, short_qa, structured
from server_adapters.rehearsal.types import TASK_TYPES, TaskType

Document = tuple[str, str]
_GRAMMARS: dict[TaskType, Callable[[random.Random], Document]] = {
    "short_qa": short_qa.document,
    "long_form": long_form.document,
    "structured": structured.document,
    "code": code.document,
}


def documents(task_type: TaskType, count: int, seed: int) -> list[Document]:
    """`count` pairs (prompt, answer) of one task type; the same seed gives the same text."""
    rng = random.Random(f"{seed}/{task_type}")
    grammar = _GRAMMARS[task_type]
    return [grammar(rng) for _ in range(count)]


__all__ = ["TASK_TYPES", "Document", "documents"]
