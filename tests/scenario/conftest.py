"""A scenario that is right, and ways to make it wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from loadgen.errors import ScenarioError
from loadgen.scenario import Scenario, load_scenario

RIGHT: dict[str, Any] = {
    "version": 1,
    "name": "right",
    "environment": "disposable",
    "arms": {"baseline": {"url": "http://127.0.0.1:8001"}},
    "workload": {
        "tasks": [
            {
                "task_type": "code",
                "input_len": {"kind": "fixed", "value": 64},
                "output_len": {"kind": "fixed", "value": 32},
            }
        ]
    },
    "load": [{"kind": "concurrency", "concurrency": 4, "cases": 20}],
}


def put(value: Any, dotted: str, new: Any) -> None:
    *way, last = dotted.split(".")
    for part in way:
        value = value[int(part)] if isinstance(value, list) else value.setdefault(part, {})
    value[int(last) if isinstance(value, list) else last] = new


@pytest.fixture
def right() -> dict[str, Any]:
    return copy.deepcopy(RIGHT)


@pytest.fixture
def build(right: dict[str, Any]) -> Callable[..., Scenario]:
    """The right scenario with some keys replaced: build({"load.0.cases": 3})."""

    def make(changes: dict[str, Any]) -> Scenario:
        for dotted, new in changes.items():
            put(right, dotted, new)
        return Scenario.model_validate(right)

    return make


@pytest.fixture
def refused(right: dict[str, Any], tmp_path: Path) -> Callable[..., list[str]]:
    """The problems of the right scenario with some keys replaced, without the place in front."""

    def problems(changes: dict[str, Any]) -> list[str]:
        for dotted, new in changes.items():
            put(right, dotted, new)
        path = tmp_path / "s.yaml"
        path.write_text(yaml.safe_dump(right, sort_keys=False), encoding="utf-8")
        with pytest.raises(ScenarioError) as caught:
            load_scenario(path)
        return [problem.split(": ", 1)[1] for problem in caught.value.problems]

    return problems


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def text(content: str) -> Path:
        path = tmp_path / "s.yaml"
        path.write_text(content, encoding="utf-8")
        return path

    return text
