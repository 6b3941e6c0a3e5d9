"""The JSON Schema: valid itself, and the shipped scenarios are valid against it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from loadgen.scenario import load_scenario, scenario_schema
from loadgen.scenario.yaml_text import parse

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
SHIPPED = sorted(SCENARIOS.glob("*.yaml"))


def test_the_schema_is_a_schema() -> None:
    schema = scenario_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(schema)
    assert json.loads(json.dumps(schema)) == schema


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.name)
def test_shipped_scenarios_are_valid(path: Path) -> None:
    document = parse(path.read_text(encoding="utf-8"), path.name)
    assert document.problems == []
    Draft202012Validator(scenario_schema()).validate(document.value)
    assert load_scenario(path).scenario.name


def test_shipped_scenarios_are_those_of_the_documentation() -> None:
    assert {p.name for p in SHIPPED} >= {"quickstart.yaml", "ramp.yaml", "own_prompts.yaml"}


def test_the_first_example_of_the_documentation_is_a_scenario(tmp_path: Path) -> None:
    docs = (SCENARIOS.parent / "docs" / "scenario.md").read_text(encoding="utf-8")
    path = tmp_path / "example.yaml"
    path.write_text(docs.split("```yaml\n")[1].split("```")[0], encoding="utf-8")
    scenario = load_scenario(path).scenario
    assert [stage.name for stage in scenario.load] == ["c1", "c8"]


def test_quickstart_is_small_enough_for_slow_servers() -> None:
    scenario = load_scenario(SCENARIOS / "quickstart.yaml").scenario
    assert list(scenario.arms) == ["baseline", "candidate"]
    assert sum(stage.cases or 0 for stage in scenario.load if stage.kind == "concurrency") <= 40
    lengths = [task.output_len for task in scenario.workload.tasks]
    assert all(length is not None and length.kind == "fixed" and 24 <= length.value <= 64 for length in lengths)


def test_own_prompts_cover_four_task_types() -> None:
    sets = load_scenario(SCENARIOS / "own_prompts.yaml").prompts
    found = {prompt.task_type: len(s.prompts) for s in sets.values() for prompt in s.prompts}
    assert found == {"short_qa": 4, "long_form": 4, "structured": 4, "code": 4}


@pytest.mark.parametrize(
    ("key", "value"),
    [("version", 2), ("load", []), ("seed", -1), ("surprise", 1), ("environment", "test"), ("warmup", 10)],
)
def test_the_schema_refuses_what_the_loader_refuses(right: dict[str, Any], key: str, value: Any) -> None:
    validator = Draft202012Validator(scenario_schema())
    assert validator.is_valid(right)
    assert not validator.is_valid(right | {key: value})
