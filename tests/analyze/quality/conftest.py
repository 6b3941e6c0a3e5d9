"""Outputs from lists of tokens and words, and from the rehearsal engine's own sampler."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from loadgen.analyze import Output
from server_adapters.rehearsal import Models, SamplingParams, SpeculationConfig, Switches, TaskType, load_models
from server_adapters.rehearsal.sampler import SequenceSampler
from server_adapters.rehearsal.stopping import trim

Make = Callable[..., Output]


def build(
    text: str = "",
    ids: Sequence[int] | None = None,
    *,
    case: str = "c",
    arm: str = "baseline",
    repeat: int = 0,
    finish: str | None = "stop",
    **more: Any,
) -> Output:
    return Output(case, arm, repeat, None if ids is None else tuple(ids), text, finish, **more)


@pytest.fixture(scope="session")
def output() -> Make:
    """output(text, ids, case=, arm=, repeat=, finish=, …): an `Output`."""
    return build


@dataclass(frozen=True)
class Server:
    """One arm of the rehearsal engine's own sampler; `tokens(case, seed)` are its answers."""

    models: Models
    speculation: SpeculationConfig | None = None
    switches: Switches = field(default_factory=Switches)

    def sampler(self, task: TaskType, ids: Sequence[int], seed: int, temperature: float) -> SequenceSampler:
        params = SamplingParams(temperature=temperature)
        return SequenceSampler(self.models, task, ids, params, seed, self.speculation, self.switches)

    def answer(self, sampler: SequenceSampler, max_tokens: int, k: int = 4) -> tuple[list[int], str, int, int]:
        """Of a fresh sampler: (token ids, finish reason, drafted, accepted), cut as the engine cuts."""
        params = SamplingParams(max_tokens=max_tokens)
        ids: list[int] = []
        drafted = accepted = 0
        while True:
            drafts, rows = sampler.propose(k) if self.speculation is not None and ids else ([], [])
            emitted, taken = sampler.verify(drafts, rows)
            drafted, accepted = drafted + len(drafts), accepted + taken
            kept, finish, _ = trim(emitted, len(ids), 1 << 20, params, self.models.tokenizer.eos_id)
            ids += kept
            if finish is not None:
                return ids, finish, drafted, accepted

    def answers(
        self, task: TaskType, ids: Sequence[int], n: int, max_tokens: int, seed: int, k: int = 4
    ) -> list[tuple[list[int], str, int, int]]:
        """`n` answers to one prompt at temperature 1, from one stream of chance: copies of one fresh sampler."""
        fresh = self.sampler(task, ids, seed, 1.0)
        return [self.answer(copy(fresh), max_tokens, k) for _ in range(n)]


@pytest.fixture(scope="session")
def models() -> Models:
    return load_models()


@pytest.fixture(scope="session")
def server(models: Models) -> Callable[..., Server]:
    """server(speculation=…, switches=…): an arm without sockets."""
    return partial(Server, models)
