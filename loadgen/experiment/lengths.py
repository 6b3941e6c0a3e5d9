"""How long is a prompt in this server's tokens? Asked of the server, else of a tokenizer, else estimated."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx

from loadgen.errors import ScenarioError
from loadgen.experiment.preflight import Preflight, ReadyArm
from loadgen.plan import ESTIMATE, LengthModel, fit_lengths, probe_texts
from loadgen.scenario import LoadedScenario, Scenario


async def measure_lengths(loaded: LoadedScenario, ready: Preflight) -> LengthModel:
    """Fit tokens against characters of sample prompts of every generated task type.

    The first arm that can count is asked; all arms get the same text, whatever its count there
    (prompt token counts of the arms are compared from the records). Without a server that counts, a
    `tokenizer` of an arm is used, and without that an estimate, which warm-up's usage corrects.
    """
    scenario = loaded.scenario
    tasks = sorted({t.task_type for t in scenario.workload.tasks if t.prompts is None})
    if not tasks:
        return ESTIMATE
    for arm in ready.arms.values():
        if arm.capabilities.tokenize:
            async with arm.client(timeout_s=30.0) as client:
                counted = await _ask(client, arm, scenario, tasks)
            if counted:
                return fit_lengths(counted, "server_tokenize")
    for name, spec in scenario.arms.items():
        if spec.tokenizer is not None:
            path = loaded.path.parent / spec.tokenizer if loaded.path else spec.tokenizer
            return fit_lengths(_count_locally(name, path, scenario, tasks), "tokenizers")
    return ESTIMATE


async def _ask(
    client: httpx.AsyncClient, arm: ReadyArm, scenario: Scenario, tasks: list[str]
) -> dict[str, list[tuple[int, int]]]:
    """(characters, tokens) of sample texts by task type; empty where a count could not be had."""
    counted: dict[str, list[tuple[int, int]]] = {}
    for task in tasks:
        texts = probe_texts(task, scenario.seed)
        counts = await asyncio.gather(
            *(arm.adapter.count_tokens(client, arm.targets[0], t, scenario.workload.endpoint) for t in texts)
        )
        pairs = [(len(t), n) for t, n in zip(texts, counts, strict=True) if n is not None]
        if len(pairs) != len(texts):
            return {}
        counted[task] = pairs
    return counted


def _count_locally(arm: str, path: Path, scenario: Scenario, tasks: list[str]) -> dict[str, list[tuple[int, int]]]:
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise ScenarioError(
            [f"arms.{arm}.tokenizer needs the extra `tokenizers`: pip install 'specload[tokenizers]'"]
        ) from None
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise ScenarioError([f"arms.{arm}.tokenizer: {path} is not a tokenizer.json: {error}"]) from None
    return {task: [(len(t), len(tokenizer.encode(t).ids)) for t in probe_texts(task, scenario.seed)] for task in tasks}
