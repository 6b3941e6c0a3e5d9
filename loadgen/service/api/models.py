"""What goes in and comes out as JSON."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from loadgen.service.registry import RunState

#: Values that an override may have.
Value = bool | int | Annotated[float, Field(allow_inf_nan=False)] | str | None


def _kept(value: dict[str, Any]) -> dict[str, Any]:
    """What the registry can keep: no whole number of more than 64 bits, no half of a surrogate pair."""
    try:
        orjson.dumps(value)
    except TypeError as error:
        raise ValueError(f"cannot be kept: {error}") from None
    return value


Arms = Annotated[dict[str, Annotated[str, Field(max_length=64)]], AfterValidator(_kept)]
Overrides = Annotated[dict[str, Value], AfterValidator(_kept)]


RUN: dict[str, Any] = {
    "id": "20261130T070600Z-quickstart-1a2b3c",
    "number": 17,
    "scenario": "quickstart",
    "state": "finished",
    "reason": None,
    "arms": {"baseline": "vllm-plain", "candidate": "vllm-spec"},
    "overrides": {"load.0.concurrency": 4},
    "time_budget_s": 600,
    "started_by": "ci",
    "created": "2026-11-30T07:06:00.000+00:00",
    "started": "2026-11-30T07:06:00.100+00:00",
    "ended": "2026-11-30T07:15:41.310+00:00",
    "verdict": "pass",
    "validity": "valid",
    "exit_code": 0,
    "kind": "run",
}


class In(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RunStart(In):
    """A run to put into the queue."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "scenario": "quickstart",
                    "arms": {"baseline": "vllm-plain", "candidate": "vllm-spec"},
                    "overrides": {"load.0.concurrency": 4},
                    "time_budget_s": 600,
                }
            ]
        },
    )

    scenario: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")] = Field(description="its name")
    arms: Arms = Field(
        default_factory=dict,
        max_length=16,
        description="arm to target, where the scenario does not say or says another",
    )
    overrides: Overrides = Field(
        default_factory=dict, max_length=50, description="scenario keys by their dotted path: those of docs/service.md"
    )
    time_budget_s: Annotated[float, Field(gt=0, le=604800)] | None = Field(
        None, description="fit the scenario into so many seconds"
    )


class RunOut(BaseModel):
    """A run as the registry has it. Times are ISO 8601, UTC; null is not known (yet)."""

    model_config = ConfigDict(json_schema_extra={"examples": [RUN]})

    id: str
    number: int = Field(description="the order in which runs were asked for")
    scenario: str
    state: RunState
    reason: str | None = Field(description="why it ended early, or was refused")
    arms: dict[str, str] = Field(description="arm to target")
    overrides: dict[str, Any]
    time_budget_s: float | None
    started_by: str | None = Field(description="name of the token that asked; null: found on the disk")
    created: str
    started: str | None
    ended: str | None
    verdict: str | None = Field(description="pass, fail or inconclusive; null: not judged")
    validity: str | None = Field(description="valid, doubtful or invalid; null: not known, or it sent no load")
    exit_code: int | None = Field(description="as of specload run (docs/cli.md)")
    kind: str | None = Field(description="the scenario's experiment: run, soak, quality, …; null: not known")


class RunsOut(BaseModel):
    runs: list[RunOut]
    next: int | None = Field(description="`before` of the next page; null: this was the last one")


class StopOut(BaseModel):
    """`how`: unqueued (it had not begun), drain (what is in flight may finish), cut (the second stop)."""

    id: str
    how: Literal["unqueued", "drain", "cut"]


class VerdictOut(BaseModel):
    """Always answered with 200: a run that is not over, or not judged, has a null verdict and a reason."""

    run_id: str
    state: RunState
    verdict: Literal["pass", "fail", "inconclusive"] | None
    reason: str | None
    validity: str | None = Field(description="valid, doubtful or invalid; null: validity_reason says why")
    validity_reason: str | None = Field(description="why there is no validity")
    exit_code: int | None
    details: dict[str, Any] | None = Field(description="verdict.json; null: no threshold was judged")


class ScenarioOut(BaseModel):
    name: str
    source: Literal["folder", "uploaded"] = Field(description="folder: the server's own, which nobody changes here")
    sha256: str
    description: str
    arms: dict[str, str | None] = Field(
        description="arm to the target that the scenario names; null: say which at the start"
    )
    problem: str | None = Field(description="why it cannot be read")
    canary: bool = Field(description="it has a section canary, and may be watched")


class ScenarioTextOut(ScenarioOut):
    text: str = Field(description="YAML, secrets masked")


class ScenariosOut(BaseModel):
    scenarios: list[ScenarioOut]


class ScenarioCheck(In):
    """Either `scenario` or `text`."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"scenario": "quickstart", "arms": {"baseline": "vllm-plain"}}]}
    )

    scenario: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")] | None = None
    text: Annotated[str, Field(max_length=1 << 20)] | None = Field(None, description="YAML of a scenario to upload")
    arms: Arms = Field(default_factory=dict, max_length=16)
    overrides: Overrides = Field(default_factory=dict, max_length=50)
    time_budget_s: Annotated[float, Field(gt=0, le=604800)] | None = None


class CheckedOut(BaseModel):
    """What it would ask for; nothing was sent."""

    valid: Literal[True]
    arms: dict[str, str]
    plan: dict[str, Any] = Field(description="as specload check --json: totals, estimate, limits, stages, warnings")


class TargetOut(BaseModel):
    name: str
    adapter: str
    urls: list[str]
    environment: str
    model: str | None
    caps: dict[str, Any] = Field(description="what no scenario can raise")
    busy: str | None = Field(description="id of the run that has it now")


class TargetsOut(BaseModel):
    targets: list[TargetOut]


class TargetCheckOut(BaseModel):
    """What a look at the target found; one tiny request was sent."""

    name: str
    usable: bool
    reason: str | None = Field(description="why not")
    found: dict[str, Any] | None = Field(description="model, version, speculation, k, environment")


class AuditEntryOut(BaseModel):
    number: int
    at: str
    who: str
    role: str | None
    address: str | None
    action: str
    subject: str | None
    status: int | None
    detail: str | None
    previous: str
    hash: str


class AuditOut(BaseModel):
    entries: list[AuditEntryOut]
    next: int | None
    head: str = Field(description="hash of the newest entry: kept elsewhere, it shows whether the end was cut off")
    verified: int = Field(description="number of the newest entry that was read and is what was written, as all before")
    broken_at: int | None = Field(
        description="number of the first entry that is not what was written; null: none was found"
    )


class MeOut(BaseModel):
    name: str
    role: Literal["viewer", "operator"]


class ReadyOut(BaseModel):
    ready: bool
    problems: list[str]
    queued: int
    running: int
