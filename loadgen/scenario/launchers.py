"""What starts and stops the server of a sweep's point: the rehearsal engine, vLLM, or commands of the user's."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from loadgen.scenario.arms import Command
from loadgen.scenario.base import FilePath, Loc, Model, PageUrl, Seconds, refuse
from loadgen.scenario.comparison import ArmName

MAX_K = 64
DraftLength = Annotated[int, Field(ge=0, le=MAX_K)]


class RehearsalLauncher(Model):
    """A rehearsal engine at the arm's URL, as `specload rehearse`."""

    kind: Literal["rehearsal"] = Field(description="the rehearsal engine")
    arm: ArmName | None = Field(None, description="the arm that it starts; default: the only one")
    k: DraftLength = Field(0, description="draft length where k is no axis")
    method: Literal["draft", "ngram"] = Field("draft", description="how drafts are made")
    options: dict[str, str | float | int | bool] = Field(
        default_factory=dict, description="further options of `specload rehearse`, without their dashes"
    )
    start_timeout_s: Seconds = Field(60.0, description="how long it may take until it answers")


class VllmLauncher(Model):
    """`vllm serve` at the arm's URL."""

    kind: Literal["vllm"] = Field(description="a real vLLM")
    arm: ArmName | None = Field(None, description="the arm that it starts; default: the only one")
    k: DraftLength = Field(0, description="draft length where k is no axis")
    cpu: bool = Field(False, description="the tiny models on this machine's CPU, as `make vllm` sets them up")
    python: FilePath | None = Field(None, description="Python that has vLLM; default: this one; not with cpu")
    model: str | None = Field(None, min_length=1, description="name or folder of the target model; not with cpu")
    speculative_config: dict[str, Any] = Field(
        default_factory=lambda: {"method": "draft_model"},
        description="vLLM's own object, without num_speculative_tokens, which is k",
    )
    args: list[str] = Field(default_factory=list, description="further arguments of `vllm serve`")
    env: dict[str, str] = Field(
        default_factory=dict, description="environment variables; no secrets: they are seen in the process list"
    )
    start_timeout_s: Seconds = Field(900.0, description="how long it may take until it answers")
    stop_timeout_s: Seconds = Field(30.0, description="how long it may take to end")

    @model_validator(mode="after")
    def _consistent(self) -> VllmLauncher:
        problems: list[tuple[Loc, str]] = []
        if self.cpu:
            problems += [((key,), "contradicts cpu: true") for key in ("python", "model") if getattr(self, key)]
        elif self.model is None:
            problems.append((("model",), "is missing (or cpu: true for the tiny models)"))
        if "num_speculative_tokens" in self.speculative_config:
            problems.append((("speculative_config", "num_speculative_tokens"), "is set by k, not here"))
        refuse(problems)
        return self


class CommandLauncher(Model):
    """Your own commands. Their environment has SPECLOAD_K, SPECLOAD_ARM, SPECLOAD_URL, and SPECLOAD_<AXIS> for every
    axis of the point."""

    kind: Literal["command"] = Field(description="commands of your own")
    arm: ArmName | None = Field(None, description="the arm that they start; default: the only one")
    k: DraftLength = Field(0, description="draft length where k is no axis")
    start: Command = Field(
        description="command that starts the server: a list of words, or a text for /bin/sh; without stop it is the "
        "server itself and stays in the foreground"
    )
    stop: Command | None = Field(
        None, description="command that stops it, where start returns once it has started the server elsewhere"
    )
    health_url: PageUrl | None = Field(None, description="answers 200 once it is ready; default: the arm's /health")
    start_timeout_s: Seconds = Field(900.0, description="how long it may take until it answers")
    stop_timeout_s: Seconds = Field(120.0, description="how long stop may take, or the server after SIGTERM")


Launcher = Annotated[RehearsalLauncher | VllmLauncher | CommandLauncher, Field(discriminator="kind")]
