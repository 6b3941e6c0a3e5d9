"""The contract of the checklist (schema 1)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

CHECKLIST_SCHEMA = 1
ItemState = Literal["pass", "fail", "not_shown"]


class Closed(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True, serialize_by_alias=True
    )


class Item(Closed):
    """One item. `why`: a sentence with its numbers. `evidence`: the runs that it rests on, none where it is not
    shown for want of one. `numbers`: as named in docs/checklist.md."""

    name: str
    title: str
    state: ItemState
    why: str
    evidence: list[str]
    numbers: dict[str, float | None]


class Target(Closed):
    """What the list is about: the arms of the newest comparison, or of the newest run. `facts`: what the candidate is
    known by. `unknown`: facts that no arm tells, so that evidence could not be compared by them."""

    run_id: str
    baseline: str | None
    candidate: str | None
    facts: dict[str, Any]
    unknown: list[str]


class SetAside(Closed):
    """A run that is no evidence here, and why."""

    run_id: str
    why: str


class Checklist(Closed):
    """`state`: fail where any item failed, pass where all pass, else not_shown. `at`: when it was made (ISO 8601,
    UTC). `runs`: what counted as evidence, newest first."""

    schema_version: int = Field(CHECKLIST_SCHEMA, alias="schema")
    at: str
    state: ItemState
    items: list[Item]
    target: Target | None
    runs: list[str]
    set_aside: list[SetAside]


def checklist_schema() -> dict[str, Any]:
    """JSON Schema of `specload gate --checklist --json`."""
    return Checklist.model_json_schema(mode="serialization")
