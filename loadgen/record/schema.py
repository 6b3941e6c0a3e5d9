"""Arrow schemas of a run directory, and the JSON Schema of an exported record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from loadgen.record.columns import CONTRACT, EXTRA, Column

RECORD_SCHEMA = 1

REQUESTS: pa.Schema = pa.schema([pa.field(c.name, c.type) for c in (*CONTRACT, *EXTRA)])


def _schema(columns: Mapping[str, pa.DataType]) -> pa.Schema:
    return pa.schema(columns)


_SERIES = pa.struct(
    _schema(
        {
            "name": pa.string(),
            "kind": pa.string(),
            "value": pa.float64(),
            "engine": pa.string(),
            "position": pa.int32(),
            "detail": pa.string(),
            "model": pa.string(),
        }
    )
)

SCRAPES: pa.Schema = _schema(
    {
        "arm": pa.string(),
        "source": pa.string(),
        "asked_ns": pa.int64(),
        "answered_ns": pa.int64(),
        "status": pa.string(),
        "reason": pa.string(),
        "edge": pa.string(),
        "segment": pa.int32(),
        "started_unix_s": pa.float64(),
        "model_names": pa.list_(pa.string()),
        "engines": pa.list_(pa.string()),
        "series": pa.list_(_SERIES),
    }
)

_READING = pa.struct(
    _schema({"name": pa.string(), "device": pa.string(), "instance": pa.string(), "value": pa.float64()})
)

#: Looks at the arms' hardware. `absent`: JSON object, canonical name to why the source does not tell it.
TELEMETRY: pa.Schema = _schema(
    {
        "arm": pa.string(),
        "source": pa.string(),
        "asked_ns": pa.int64(),
        "answered_ns": pa.int64(),
        "reason": pa.string(),
        "readings": pa.list_(_READING),
        "absent": pa.string(),
    }
)

HEALTH: pa.Schema = _schema(
    {
        "at_ns": pa.int64(),
        "worker": pa.int32(),
        "lag_p50_s": pa.float64(),
        "lag_max_s": pa.float64(),
        "cpu_share": pa.float64(),
        "in_flight": pa.int32(),
        "send_lag_max_s": pa.float64(),
        "rss_bytes": pa.int64(),
        "clock_step_s": pa.float64(),
    }
)


def record_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of one line of a JSONL export, schema version in `$comment`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": f"record schema {RECORD_SCHEMA}",
        "title": "specload request record",
        "description": "One request. Durations in seconds, times in nanoseconds of the worker's monotonic clock, "
        "ratios 0-1; absent is null, never 0.",
        "type": "object",
        "properties": {column.name: _property(column) for column in CONTRACT},
        "required": [column.name for column in CONTRACT],
        "additionalProperties": True,
    }


def _property(column: Column) -> dict[str, Any]:
    unit = f" [{column.unit}]" if column.unit else ""
    text = f"{column.meaning}{unit}. Null: {column.null}."
    if pa.types.is_list(column.type):
        item = [_json_type(column.type.value_type), "null"]
        return {"type": ["array", "null"], "items": {"type": item}, "description": text}
    return {"type": [_json_type(column.type), "null"], "description": text}


def _json_type(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_floating(kind):
        return "number"
    return "boolean" if pa.types.is_boolean(kind) else "string"
