"""Own prompts: JSONL, one prompt a line."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from pydantic import Field, ValidationError, model_validator

from loadgen.scenario.base import Model, PositiveInt, refuse
from loadgen.scenario.model import Scenario
from loadgen.scenario.problems import sentences
from loadgen.scenario.workload import Task, TaskType

#: Further problems of one file are counted, not listed.
MAX_LISTED = 20
#: Of one file: all of it is held in memory, some times over.
MAX_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class OwnPrompt:
    """One prompt of the user. `prompt`: text, or chat messages as the OpenAI API has them.

    `max_tokens` None: drawn from the task's output_len. `case_id` is the row's, else made from the
    prompt itself, so that it survives a new order of the file."""

    case_id: str
    task_type: str
    prompt: str | tuple[dict[str, Any], ...]
    max_tokens: int | None
    json_schema: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class PromptSet:
    """The prompts of one task. `sha256` is of the whole file; `left_out`: its rows of other task types."""

    sha256: str
    prompts: tuple[OwnPrompt, ...]
    left_out: int = 0


class _Message(Model, extra="allow"):
    role: str = Field(min_length=1)
    content: Any


class PromptRow(Model):
    """One line of the file."""

    prompt: str | None = Field(None, min_length=1, description="text; either this or messages")
    messages: list[_Message] | None = Field(
        None, min_length=1, description="chat messages with role and content, sent as they are; endpoint chat only"
    )
    task_type: TaskType | None = Field(
        None, description="which task the row belongs to; default: every task that names the file"
    )
    case_id: str | None = Field(
        None, min_length=1, max_length=128, description="name of the prompt in results; default: made from the prompt"
    )
    max_tokens: PositiveInt | None = Field(None, description="default: drawn from the task's output_len")
    json_schema: dict[str, Any] | None = Field(
        None, description="schema of the answer; enforced where the task says json_schema: true"
    )

    @model_validator(mode="after")
    def _one(self) -> PromptRow:
        if (self.prompt is None) == (self.messages is None):
            refuse([((), "needs either prompt or messages, and not both")])
        return self


class PromptReader:
    """Reads the prompt files of a scenario's tasks. Problems of all files are in `problems`."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.problems: list[str] = []
        #: case_id -> (digest of the prompt, where it stands), over all files
        self._cases: dict[str, tuple[str, str]] = {}

    def read(self, task: Task, path: Path) -> PromptSet | None:
        """The prompts of `task`; None where something is wrong with the file."""
        before = len(self.problems)
        data = self._bytes(path)
        if data is None:
            return None
        prompts: list[OwnPrompt] = []
        seen: dict[str, str] = {}
        rows = left_out = 0
        for where, row in self._rows(data, str(path)):
            rows += 1
            if row.task_type not in (None, task.task_type):
                left_out += 1
                continue
            prompts.append(self._prompt(task, row, where, seen))
        if not prompts and len(self.problems) == before:
            what = f"none of its {rows} rows is of task_type {task.task_type}" if rows else "holds no prompts"
            self.problems.append(f"{path}: {what}")
        self._shorten(before, path)
        return (
            None
            if len(self.problems) > before
            else PromptSet(hashlib.sha256(data).hexdigest(), tuple(prompts), left_out)
        )

    def _bytes(self, path: Path) -> bytes | None:
        try:
            size = path.stat().st_size
            if not path.is_file():
                reason = "not a regular file"
            elif size > MAX_BYTES:
                reason = f"{size:,} bytes are more than {MAX_BYTES:,}: take a sample of its lines"
            else:
                return path.read_bytes()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not a usable path"
        self.problems.append(f"{path}: prompts cannot be read: {reason}")
        return None

    def _rows(self, data: bytes, name: str) -> Iterator[tuple[str, PromptRow]]:
        for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
            where = f"{name}:{number}"
            if not line.strip():
                continue
            try:
                value = orjson.loads(line.decode("utf-8"))
            except UnicodeDecodeError as error:
                self.problems.append(f"{where}: is not UTF-8 (byte {error.start + 1} of the line)")
                continue
            except orjson.JSONDecodeError as error:
                self.problems.append(f"{where}: is not JSON: {error}; one object a line")
                continue
            try:
                yield where, PromptRow.model_validate(value)
            except ValidationError as error:
                self.problems += sentences(error, PromptRow, lambda _, at=where: at)  # type: ignore[misc]

    def _prompt(self, task: Task, row: PromptRow, where: str, seen: dict[str, str]) -> OwnPrompt:
        prompt = row.prompt or tuple(m.model_dump() for m in row.messages or ())
        digest = hashlib.sha256(orjson.dumps(prompt, option=orjson.OPT_SORT_KEYS)).hexdigest()
        case_id = row.case_id or f"own-{digest[:12]}"
        self.problems += [f"{where}: {text}" for text in self._row_problems(task, row)]
        if case_id in seen:
            what = (
                f'case_id "{case_id}" is that of {seen[case_id]}'
                if row.case_id
                else f"is the prompt of {seen[case_id]}"
            )
            self.problems.append(f"{where}: {what} again; every prompt once, or each with a case_id of its own")
        elif self._cases.setdefault(case_id, (digest, where))[0] != digest:
            self.problems.append(f'{where}: case_id "{case_id}" is another prompt in {self._cases[case_id][1]}')
        seen.setdefault(case_id, where)
        return OwnPrompt(case_id, task.task_type, prompt, row.max_tokens, row.json_schema)

    def _row_problems(self, task: Task, row: PromptRow) -> Iterator[str]:
        if row.messages is not None and self.scenario.workload.endpoint == "completions":
            yield "messages need workload.endpoint: chat (it is completions)"
        if row.max_tokens is None and task.output_len is None:
            yield "max_tokens is missing, and the task has no output_len to draw it from"
        least = (task.sampling or self.scenario.sampling).min_tokens
        if row.max_tokens is not None and row.max_tokens < least:
            yield f"max_tokens ({row.max_tokens}) is below sampling.min_tokens ({least})"
        if task.json_schema and row.json_schema is None:
            yield "json_schema is missing, but the task asks the server to enforce it (json_schema: true)"

    def _shorten(self, before: int, path: Path) -> None:
        more = len(self.problems) - before - MAX_LISTED
        if more > 0:
            del self.problems[before + MAX_LISTED :]
            self.problems.append(f"{path}: and {more} more problems")


def read_prompts(scenario: Scenario) -> tuple[dict[int, PromptSet], list[str]]:
    """Prompt sets by the index of their task, and everything that is wrong with the files."""
    reader = PromptReader(scenario)
    found: dict[int, PromptSet] = {}
    for i, task in enumerate(scenario.workload.tasks):
        if task.prompts is None:
            continue
        prompts = reader.read(task, task.prompts)
        if prompts is not None:
            found[i] = prompts
    return found, list(dict.fromkeys(reader.problems))
