"""The section `quality`: what is asked to compare the arms' answers (docs/quality.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from loadgen.scenario.base import MAX_TOKENS, FilePath, Model
from loadgen.scenario.workload import TaskType

#: What a pass is for: greedy answers under load and one at a time, sampled answers, second tokens.
PassKind = Literal["greedy", "alone", "sampled", "second"]
Temperature = Annotated[float, Field(gt=0, le=2)]
_AS_SAMPLED = "default: the task's where that is above 0, else 1"


class SampledKeys(Model):
    """Answers with a temperature: each prompt many times, with seeds of its own for every arm and answer."""

    prompts_per_task: Annotated[int, Field(ge=1, le=1000)] = Field(6, description="prompts of each task")
    samples: Annotated[int, Field(ge=2, le=1000)] = Field(8, description="answers to each prompt, of each arm")
    temperature: Temperature | None = Field(None, description=_AS_SAMPLED)
    logprobs: bool = Field(
        True, description="ask for the log probability of every token that is drawn, where all servers are vLLM"
    )


class SecondTokenKeys(Model):
    """Answers of two tokens, many to few prompts: what finds a missing correction step."""

    prompts: Annotated[int, Field(ge=1, le=1000)] = Field(2, description="prompts")
    samples: Annotated[int, Field(ge=20, le=100_000)] = Field(1200, description="answers to each prompt, of each arm")
    temperature: Temperature | None = Field(None, description=_AS_SAMPLED)
    task_type: TaskType | None = Field(None, description="whose prompts; default: those of all tasks in turn")


class KnownAnswerKeys(Model):
    """Cases whose right answer is known."""

    built_in: bool = Field(True, description="ask the built-in set: arithmetic, copying, spelling, facts")
    file: FilePath | None = Field(
        None, description="JSONL of own cases: prompt, expected, and optionally match, case_id, max_tokens"
    )


class QualityKeys(Model):
    """How `specload quality` compares the arms' answers."""

    cases_per_task: Annotated[int, Field(ge=1, le=10_000)] = Field(
        10, description="greedy cases of each task; each is asked at both loads"
    )
    repeats: Annotated[int, Field(ge=1, le=20)] = Field(
        2,
        description="passes of each candidate over the greedy cases, at each load; the baseline has one more, its "
        "reference. A difference is repeatable from 2 on",
    )
    concurrency: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        None, description="users under load; default: the most of the scenario's load, at most 8"
    )
    max_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS)] = Field(128, description="no answer is longer")
    sampled: SampledKeys | None = Field(SampledKeys(), description="answers with a temperature; null = none")
    second_tokens: SecondTokenKeys | None = Field(
        SecondTokenKeys(), description="many answers of two tokens; null = none"
    )
    known_answers: KnownAnswerKeys = Field(KnownAnswerKeys(), description="cases whose right answer is known")
    known_divergences: bool = Field(
        True, description="ask prompts at which servers are known to differ when they speculate"
    )
    formats: dict[TaskType, Literal["json", "python"]] = Field(
        {"structured": "json", "code": "python"},
        description="by task type, what its answers are; prompts with a JSON Schema are checked by it",
    )
    reasks: Annotated[int, Field(ge=0, le=100_000)] = Field(
        200, description="divergences that are asked again for their log probabilities, at most"
    )
    top_logprobs: Annotated[int, Field(ge=1, le=20)] = Field(
        20, description="log probabilities that are asked for there; servers allow 20, some fewer"
    )
    level: Annotated[float, Field(gt=0, le=0.05)] = Field(
        0.002, description="chance of a false alarm that all tests together are held to"
    )
    keep_text: bool = Field(
        True, description="keep prompts, answers and token ids in the run directory; false drops them at the end"
    )


@dataclass(frozen=True, slots=True)
class PassTask:
    """`prompts` prompts of the task `index`. `origin`: the task of the user's scenario whose prompts they are; below 0:
    a set of our own."""

    index: int
    prompts: int
    origin: int


@dataclass(frozen=True, slots=True)
class QualityPass:
    """One stage of a quality run. `samples`: answers to each prompt, of each arm. `again`: how many of them are asked
    once more with the same seed. `own_seeds`: each arm and answer has a seed of its own; else all arms are asked with
    the same. `candidate_passes`: how often each candidate is asked all of it; `baseline_passes`: the baseline.
    `max_tokens`: no answer is longer. `blocks`: parts in which all passes take turns, as far as there are requests for
    them. `left_out`: arms that refuse to be asked so."""

    stage: str
    kind: PassKind
    tasks: tuple[PassTask, ...]
    samples: int
    again: int
    own_seeds: bool
    baseline_passes: int
    candidate_passes: int
    max_tokens: int
    blocks: int
    left_out: tuple[str, ...] = ()

    @property
    def prompts(self) -> int:
        return sum(task.prompts for task in self.tasks)

    @property
    def requests(self) -> int:
        """Of one arm in one pass."""
        return self.prompts * (self.samples + self.again)
