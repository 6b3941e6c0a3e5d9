"""The scenario's JSON Schema: for editors, and for `specload schema scenario`."""

from __future__ import annotations

from typing import Any

from loadgen.scenario.access import NO_LOAD
from loadgen.scenario.model import Scenario


def scenario_schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12. What needs several keys together is checked by `load_scenario` only."""
    schema = Scenario.model_json_schema()
    load = [key for key in schema["required"] if key in NO_LOAD]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "required": [key for key in schema["required"] if key not in NO_LOAD],
        "if": {"properties": {"experiment": {"const": "access"}}, "required": ["experiment"]},
        "else": {"required": load},
        "title": "specload scenario, version 1",
    }
