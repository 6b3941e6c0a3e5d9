"""What is asked: task mix, lengths, sampling, caches."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from loadgen.scenario.base import FilePath, Loc, Model, NotNegativeInt, Share, refuse
from loadgen.scenario.lengths import Length, PairedLengths, shortest

#: Task types that have a prompt generator.
GENERATED = ("short_qa", "long_form", "structured", "code")

TaskType = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]

#: Request fields that belong to other keys of the scenario or to specload itself, and which of them.
OWNED_FIELDS = {
    "model": "arms.<arm>.model",
    "prompt": "workload.tasks.<n>.prompts",
    "messages": "workload.tasks.<n>.prompts",
    "max_tokens": "workload.tasks.<n>.output_len",
    "max_completion_tokens": "workload.tasks.<n>.output_len",
    "stream": "workload.stream_fraction",
    "cache_salt": "workload.cache",
    "response_format": "workload.tasks.<n>.json_schema",
    "structured_outputs": "workload.tasks.<n>.json_schema",
    "guided_json": "workload.tasks.<n>.json_schema",
    "temperature": "sampling.temperature",
    "top_p": "sampling.top_p",
    "top_k": "sampling.top_k",
    "seed": "sampling.seed",
    "stop": "sampling.stop",
    "ignore_eos": "sampling.ignore_eos",
    "min_tokens": "sampling.min_tokens",
    "stream_options": "specload itself",
    "return_token_ids": "specload itself",
    "request_id": "specload itself",
    "n": "specload itself: one answer a request",
    "best_of": "specload itself: one answer a request",
    "use_beam_search": "specload itself: one answer a request",
    "echo": "specload itself: prompt tokens would count as output",
}


class SamplingKeys(Model):
    """Sampling parameters. All are sent with every request and stored with every record (F18, H9)."""

    temperature: Annotated[float, Field(ge=0, le=2)] = Field(0.0, description="0 = greedy")
    top_p: Annotated[float, Field(gt=0, le=1)] = Field(1.0, description="1 = off")
    top_k: Annotated[int, Field(ge=-1)] = Field(-1, description="-1 = off; 0 is ambiguous and refused")
    seed: NotNegativeInt | None = Field(
        0, description="per-case seeds derive from it; null = the server's own randomness"
    )
    stop: list[Annotated[str, Field(min_length=1)]] = Field(
        default_factory=list, description="stop strings; vLLM then gives no per-request statistics"
    )
    ignore_eos: bool = Field(False, description="true makes acceptance not representative")
    min_tokens: NotNegativeInt = Field(0, description="no end of text before so many output tokens")
    extra: dict[str, Any] = Field(default_factory=dict, description="further request fields, sent as they are")

    @model_validator(mode="after")
    def _consistent(self) -> SamplingKeys:
        problems: list[tuple[Loc, str]] = []
        if self.top_k == 0:
            problems.append((("top_k",), "must be -1 (off) or at least 1 (got 0): servers read 0 differently"))
        problems += [
            (("extra", field), f"is set by {OWNED_FIELDS[field]}, not here")
            for field in self.extra
            if field in OWNED_FIELDS
        ]
        refuse(problems)
        return self


class Task(Model):
    """One kind of traffic."""

    task_type: TaskType = Field(
        description="label in every result; short_qa, long_form, structured and code have generators"
    )
    weight: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        1.0, description="share of requests, relative to the other tasks' weights"
    )
    prompts: FilePath | None = Field(
        None,
        description="JSONL of own prompts: one object a line with prompt or messages, and optionally task_type, "
        "case_id, max_tokens, json_schema; default: generated, which is not representative for acceptance",
    )
    input_len: Length | None = Field(None, description="prompt tokens of generated prompts")
    output_len: Length | None = Field(
        None, description="max_tokens of a request; own prompts that have max_tokens keep theirs"
    )
    lengths: PairedLengths | None = Field(None, description="instead of input_len and output_len")
    json_schema: bool = Field(
        False,
        description="ask the server to enforce the prompt's JSON Schema (structured, or own prompts that have one)",
    )
    sampling: SamplingKeys | None = Field(None, description="instead of the scenario's sampling, as a whole")

    @model_validator(mode="after")
    def _consistent(self) -> Task:
        if self.lengths is not None and (self.input_len is not None or self.output_len is not None):
            refuse([(("lengths",), "contradicts input_len and output_len: pairs give both lengths")])
        refuse(self._generated() if self.prompts is None else self._own())
        return self

    def _generated(self) -> list[tuple[Loc, str]]:
        problems: list[tuple[Loc, str]] = []
        if self.task_type not in GENERATED:
            names = ", ".join(GENERATED)
            problems.append(
                (("task_type",), f'"{self.task_type}" has no generator ({names} have): give own prompts with prompts')
            )
        if self.lengths is None and (self.input_len is None or self.output_len is None):
            problems.append(((), "generated prompts need input_len and output_len, or lengths"))
        if self.json_schema and self.task_type != "structured":
            problems.append((("json_schema",), "only generated prompts of task_type structured have a JSON Schema"))
        return problems

    def _own(self) -> list[tuple[Loc, str]]:
        return [
            ((key,), "contradicts prompts: own prompts have the length they have; output_len may be given")
            for key in ("input_len", "lengths")
            if getattr(self, key) is not None
        ]

    @property
    def shortest_output(self) -> int | None:
        """The smallest max_tokens that can be drawn; None where only the prompts' own are known."""
        if self.lengths is not None:
            return min(output for _, output in self.lengths.pairs)
        return None if self.output_len is None else shortest(self.output_len)


class SharedPrefix(Model):
    """A first part that many prompts have in common."""

    fraction: Share = Field(0.0, description="share of requests that begin with it, 0–1")
    tokens: NotNegativeInt = Field(0, description="its length, tokens")

    @model_validator(mode="after")
    def _consistent(self) -> SharedPrefix:
        if (self.fraction > 0) != (self.tokens > 0):
            refuse([((), f"fraction ({self.fraction:g}) and tokens ({self.tokens}) must both be 0 or both be above 0")])
        return self


class Workload(Model):
    """Task mix and how it is asked."""

    tasks: list[Task] = Field(min_length=1, description="the mix; weights are relative")
    endpoint: Literal["completions", "chat"] = Field("chat", description="/v1/completions or /v1/chat/completions")
    stream_fraction: Share = Field(1.0, description="share of requests that stream, 0–1; the others are reported apart")
    shared_prefix: SharedPrefix = Field(SharedPrefix(), description="a first part that many prompts have in common")
    cache: Literal["cold", "warm"] = Field(
        "cold", description="cold: a fresh cache salt for every request; warm: prompts may hit the prefix cache"
    )
    keep_text: bool = Field(False, description="store prompts and answers in the run directory")

    @model_validator(mode="after")
    def _consistent(self) -> Workload:
        if not any(task.weight > 0 for task in self.tasks):
            refuse([(("tasks",), "at least one weight must be above 0 (they sum to 0)")])
        return self
