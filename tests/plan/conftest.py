"""Scenarios made in code, small enough to read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loadgen.plan import Plan, build_plan
from loadgen.scenario import LoadedScenario, OwnPrompt, PromptSet, Scenario

CODE = {
    "task_type": "code",
    "weight": 3.0,
    "input_len": {"kind": "lognormal", "median": 300.0, "sigma": 0.8, "low": 20, "high": 4000},
    "output_len": {"kind": "normal", "mean": 100.0, "stddev": 30.0},
}
QA = {"task_type": "short_qa", "lengths": {"pairs": [[100, 20], [200, 40]]}}
STAGE = {"kind": "concurrency", "concurrency": 4, "cases": 40}

Load = Callable[..., LoadedScenario]


@pytest.fixture
def load() -> Load:
    """A loaded scenario: `load(prompts=…, workload={…}, seed=…)` replaces keys of the default."""

    def make(prompts: dict[int, PromptSet] | None = None, **keys: Any) -> LoadedScenario:
        document: dict[str, Any] = {
            "version": 1,
            "name": "small",
            "environment": "disposable",
            "arms": {"baseline": {"url": "http://one:1"}, "candidate": {"url": "http://two:2"}},
            "workload": {"tasks": [CODE, QA]},
            "load": [STAGE],
        }
        scenario = Scenario.model_validate({**document, **keys})
        return LoadedScenario(scenario, None, "", prompts or {})

    return make


@pytest.fixture
def plan(load: Load) -> Callable[..., Plan]:
    return lambda *args, **keys: build_plan(load(*args, **keys))


@pytest.fixture
def own() -> Callable[..., PromptSet]:
    """A set of n own prompts."""

    def make(n: int, max_tokens: int | None = 30, schema: dict[str, Any] | None = None) -> PromptSet:
        rows = (OwnPrompt(f"row-{i}", "chat_log", f"prompt {i}", max_tokens, schema) for i in range(n))
        return PromptSet("0" * 64, tuple(rows))

    return make
