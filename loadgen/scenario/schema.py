"""The scenario's JSON Schema: for editors, and for `specload schema scenario`."""

from __future__ import annotations

from typing import Any

from loadgen.scenario.model import Scenario


def scenario_schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12. What needs several keys together is checked by `load_scenario` only."""
    schema = Scenario.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "specload scenario, version 1",
    }
