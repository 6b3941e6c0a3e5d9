"""The results of all experiments, for who reads them without knowing which it is."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from loadgen.analyze.found.access import AccessResult
from loadgen.analyze.found.anomaly_models import AnomaliesResult
from loadgen.analyze.found.base import ExperimentResult
from loadgen.analyze.found.drill import DrillResult
from loadgen.analyze.found.quality import QualityResult

#: One for each kind that this version makes.
KINDS: tuple[type[ExperimentResult], ...] = (AccessResult, AnomaliesResult, DrillResult, QualityResult)


def found_schema() -> dict[str, Any]:
    """JSON Schema of what an experiment found: one of these, by its `kind`."""
    refs, parts = models_json_schema([(kind, "serialization") for kind in KINDS], by_alias=True)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "what an experiment found",
        "oneOf": [refs[kind, "serialization"] for kind in KINDS],
        "$defs": parts["$defs"],
    }
