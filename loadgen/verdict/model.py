"""The contract of verdict.json (schema 1)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from loadgen.scenario import Operator, Relative

VERDICT_SCHEMA = 1
Word = Literal["pass", "fail", "inconclusive"]


class _Model(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True, serialize_by_alias=True
    )


class Result(_Model):
    """One condition of one threshold on one arm.

    `limit`, `value` and `interval` are in the same terms: the metric's `unit`, or with `relative` "ratio" multiples of
    the baseline, with "difference" the metric's unit above the baseline. `interval` holds with `level`; `ok` false
    needs an interval of `fail_level` beyond the limit. A null bound: not known, or not finite (failed requests
    count as +∞); `reason` says which. It also says of what is decided what was left out of the number.
    """

    name: str
    metric: str
    aggregate: str
    arm: str
    where: dict[str, str]
    op: Operator
    limit: float
    relative: Relative | None
    unit: str
    ok: bool | None
    value: float | None
    interval: tuple[float | None, float | None] | None
    level: float
    fail_level: float
    n: int
    n_unit: str
    needs_n: int | None
    min_samples: int | None
    method: str
    source: str
    reason: str | None
    sentence: str


class Verdict(_Model):
    """`reasons` are sentences, what decides first. `obstacles`: why the run cannot pass, whatever its numbers.
    `notes`: what a reader must know beside it. `paired` null: nothing was compared."""

    schema_version: int = Field(VERDICT_SCHEMA, alias="schema")
    run_id: str
    verdict: Word
    reasons: list[str]
    thresholds: list[Result]
    thresholds_from: Literal["scenario", "defaults", "command_line"]
    obstacles: list[str]
    notes: list[str]
    baseline: str | None
    design: str | None
    paired: bool | None
    validity: Literal["valid", "doubtful", "invalid"]
    reproduce: list[str]


def verdict_schema() -> dict[str, Any]:
    """JSON Schema of verdict.json."""
    return Verdict.model_json_schema(mode="serialization")
