"""docs/scenario.md against the models: every key, its type, its default, its meaning, and nothing else."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from loadgen.scenario import Scenario, scenario_schema
from loadgen.scenario.known_answers import KnownAnswerRow
from loadgen.scenario.limits import DEFAULTS, Limits
from loadgen.scenario.prompts import PromptRow

ROOT = Path(__file__).resolve().parents[2]
DOCS = (ROOT / "docs" / "scenario.md").read_text(encoding="utf-8")


def definitions() -> dict[str, dict[str, Any]]:
    schema = scenario_schema()
    rows = {"PromptRow": PromptRow.model_json_schema(), "KnownAnswerRow": KnownAnswerRow.model_json_schema()}
    return {"Scenario": schema, **schema["$defs"], **rows}


def type_text(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return "mapping" if name.startswith("_") else f"[{name}](#{name.lower()})"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return " or ".join(f"`{v}`" for v in schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(type_text(s) for s in schema[key]))
    kind = schema.get("type", "anything")
    if kind == "array":
        if "prefixItems" in schema:
            return "[" + ", ".join(type_text(s) for s in schema["prefixItems"]) + "]"
        return "list of " + type_text(schema["items"])
    if kind == "object":
        inner = schema.get("additionalProperties") or next(iter(schema.get("patternProperties", {}).values()), None)
        return "mapping" + (f" of name to {type_text(inner)}" if isinstance(inner, dict) else "")
    return plain_text(kind, schema)


def plain_text(kind: str, schema: dict[str, Any]) -> str:
    names = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false"}
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {schema[key]:g}" for key, sign in signs.items() if key in schema and abs(schema[key]) < 10**6]
    name = "path" if schema.get("format") == "path" else names.get(kind, kind)
    return " ".join([name, ", ".join(bounds)]).strip()


def default_text(name: str, schema: dict[str, Any], required: list[str]) -> str:
    if name in required:
        return "**required**"
    value = schema.get("default", [] if schema.get("type") == "array" else {})
    if isinstance(value, dict):
        return "its defaults" if "$ref" in schema else "empty"
    return "generated" if name == "name" and value == "" else f"`{json.dumps(value)}`"


def table(definition: dict[str, Any]) -> list[str]:
    """What the documentation's table of one model must be."""
    rows = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for name, schema in definition["properties"].items():
        default = default_text(name, schema, definition.get("required", []))
        kind = type_text(schema).replace(" or null", " or `null`")
        rows.append(f"| `{name}` | {kind} | {default} | {schema.get('description', '')} |")
    return rows


def section(name: str) -> list[str]:
    found = re.search(rf"^### {name}\n(.*?)(?=^##|\Z)", DOCS, re.S | re.M)
    assert found, f"docs/scenario.md has no section ### {name}"
    return [line for line in found[1].splitlines() if line.startswith("|")]


@pytest.mark.parametrize("name", [n for n in definitions() if not n.startswith("_")])
def test_every_key_is_documented_and_every_documented_key_exists(name: str) -> None:
    assert section(name) == table(definitions()[name])


def test_every_key_has_a_meaning() -> None:
    for name, definition in definitions().items():
        for key, schema in definition["properties"].items():
            assert schema.get("description") or name.startswith("_"), f"{name}.{key}"


def test_no_section_documents_a_model_that_is_gone() -> None:
    headings = set(re.findall(r"^### ([A-Z]\w+)$", DOCS, re.M))
    assert headings == {n for n in definitions() if not n.startswith("_")}


def test_models_of_the_schema_are_reachable_from_scenario() -> None:
    """The walk misses nothing: every $ref in the schema is a definition that the tests above cover."""
    refs = set(re.findall(r'"#/\$defs/(\w+)"', json.dumps(scenario_schema())))
    assert refs == set(scenario_schema()["$defs"])
    assert set(Scenario.model_fields) == set(definitions()["Scenario"]["properties"])


@pytest.mark.parametrize("field", [f.name for f in fields(Limits)[1:]])
def test_caps_of_every_environment_are_documented(field: str) -> None:
    cells = [getattr(DEFAULTS[e], field) for e in ("production", "staging", "disposable")]
    shown = ["none" if c is None else f"{c:,g}" if isinstance(c, float) else f"{c:,}" for c in cells]
    assert f"| `{field}` | " + " | ".join(shown) + " |" in DOCS
