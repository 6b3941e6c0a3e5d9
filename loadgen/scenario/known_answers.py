"""Cases whose right answer is known: own ones from JSONL, and a small built-in set."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import orjson
from pydantic import Field, ValidationError, model_validator

from loadgen.scenario.base import MAX_TOKENS, Model, refuse
from loadgen.scenario.problems import sentences

Match = Literal["exact", "contains", "number", "regex"]
#: Further problems of one file are counted, not listed.
MAX_LISTED = 20
MAX_TOKENS_DEFAULT = 48


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """One case. `match` says when an answer is right (`KnownAnswerRow`)."""

    case_id: str
    prompt: str
    expected: str
    match: Match
    max_tokens: int = MAX_TOKENS_DEFAULT


class KnownAnswerRow(Model):
    """One line of the file."""

    prompt: str = Field(min_length=1, description="text that is asked")
    expected: str = Field(min_length=1, description="the right answer, or a regular expression for it")
    match: Match = Field(
        "contains",
        description="exact: the answer is it, white space around apart; contains: it stands in the answer, in capitals "
        "or not; number: that number stands in the answer, by itself; regex: the expression is found in the answer",
    )
    case_id: str | None = Field(None, min_length=1, max_length=128, description="default: made from the prompt")
    max_tokens: int = Field(MAX_TOKENS_DEFAULT, ge=1, le=MAX_TOKENS, description="length of the answer at most")

    @model_validator(mode="after")
    def _usable(self) -> KnownAnswerRow:
        if self.match == "number" and not _is_number(self.expected):
            refuse([(("expected",), f"must be a number where match is number (got {self.expected[:40]!r})")])
        if self.match == "regex":
            try:
                re.compile(self.expected)
            except re.error as error:
                refuse([(("expected",), f"is no regular expression: {error}")])
        return self

    def answer(self) -> KnownAnswer:
        return KnownAnswer(self.case_id or _named(self.prompt), self.prompt, self.expected, self.match, self.max_tokens)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _named(prompt: str) -> str:
    return f"known-{hashlib.sha256(prompt.encode()).hexdigest()[:12]}"


def read_known_answers(path: Path) -> tuple[tuple[KnownAnswer, ...], list[str]]:
    """The cases of a file, and everything that is wrong with it."""
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a usable path"
        return (), [f"{path}: known answers cannot be read: {reason}"]
    problems: list[str] = []
    found: dict[str, KnownAnswer] = {}
    for where, row in _rows(data, str(path), problems):
        answer = row.answer()
        if answer.case_id in found or answer.case_id in _BUILT_IN_IDS:
            problems.append(f'{where}: case_id "{answer.case_id}" again; every case once')
        found.setdefault(answer.case_id, answer)
    if not found and not problems:
        problems.append(f"{path}: holds no known answers")
    more = len(problems) - MAX_LISTED
    if more > 0:
        problems = [*problems[:MAX_LISTED], f"{path}: and {more} more problems"]
    return tuple(found.values()), problems


def _rows(data: bytes, name: str, problems: list[str]) -> Iterator[tuple[str, KnownAnswerRow]]:
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        where = f"{name}:{number}"
        if not line.strip():
            continue
        try:
            yield where, KnownAnswerRow.model_validate(orjson.loads(line))
        except orjson.JSONDecodeError as error:
            problems.append(f"{where}: is not JSON: {error}; one object a line")
        except ValidationError as error:
            problems += sentences(error, KnownAnswerRow, lambda _, at=where: at)  # type: ignore[misc]


def _built_in() -> Iterator[KnownAnswer]:
    sums = {"17 + 25": 42, "61 - 14": 47, "9 * 8": 72, "144 / 12": 12, "35 + 48": 83, "100 - 58": 42, "7 * 13": 91,
            "15 + 16 + 17": 48}  # fmt: skip
    for task, result in sums.items():
        yield KnownAnswer(f"sum-{task.replace(' ', '')}", f"What is {task}? Answer with the number alone.",
                          str(result), "number")  # fmt: skip
    copied = ("blue lantern 4471", "quartz-violin-88", "seven grey herons", "Xk9-Lm2-Pq7", "north by northwest")
    for i, text in enumerate(copied):
        yield KnownAnswer(f"copy-{i}", f"Repeat exactly, without anything else: {text}", text, "contains")
    for word in ("lamp", "river", "stone", "candle", "orbit"):
        spelt = "[ ,.-]*".join(word)
        yield KnownAnswer(
            f"spell-{word}", f'Spell the word "{word}" letter by letter, with spaces.', f"(?i){spelt}", "regex"
        )
    facts = {
        "What is the capital of France?": "Paris", "What is the capital of Japan?": "Tokyo",
        "Which planet is closest to the sun?": "Mercury", "Which metal has the chemical symbol Au?": "gold",
        "How many months has a year?": "twelve|12", "Who wrote Romeo and Juliet?": "Shakespeare",
    }  # fmt: skip
    for i, (question, answer) in enumerate(facts.items()):
        yield KnownAnswer(f"fact-{i}", f"{question} Answer in one word.", rf"(?i)\b({answer})\b", "regex")


#: Asked unless the scenario says otherwise: easy enough for small models that follow instructions at all.
BUILT_IN: tuple[KnownAnswer, ...] = tuple(_built_in())
_BUILT_IN_IDS = frozenset(answer.case_id for answer in BUILT_IN)
