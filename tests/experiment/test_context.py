"""What is said before a run of requests and the server's context."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from loadgen.experiment import check
from loadgen.scenario import load_scenario
from server_adapters.rehearsal.config import RehearsalConfig

Start = Callable[[RehearsalConfig], AbstractContextManager[str]]
SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
SHORT = [f"workload.tasks.{i}.{key}={{kind: fixed, value: {n}}}" for i in range(3)
         for key, n in (("input_len", 300), ("output_len", 20))]  # fmt: skip
OWN = ["workload.tasks=[{task_type: code, prompts: data/own_prompts.jsonl}]"]
END = "what breaks on long sequences alone is not shown: add a task from 80% of the limit on"


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ([], []),
        (
            SHORT,
            [
                "candidate: no long context is known in this soak: the longest of the first 520 requests of known "
                f"length asks for 320 tokens with its answer, 4% of the server's 8192; {END}"
            ],
        ),
        (OWN, [f"candidate: no long context is known in this soak: no prompt has a known length; {END}"]),
        ([*SHORT, "experiment=run"], []),
    ],
    ids=["long", "short", "own prompts", "no soak"],
)
async def test_a_soak_without_long_contexts_says_so(rehearsal: Start, overrides: list[str], said: list[str]) -> None:
    """J3: the ready soak comes near the limit; one that does not shows nothing of long sequences, and says so."""
    with rehearsal(RehearsalConfig(spec="draft:k=4", model="8b", max_model_len=8192)) as url:
        found = await check(load_scenario(SCENARIOS / "soak.yaml", overrides, {"candidate": url}))
    assert [note for note in found.notes if "long context" in note] == said
