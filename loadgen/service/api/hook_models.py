"""What rollout controllers send, and get."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from loadgen.service.api.models import Arms, In, Overrides

_Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
_Text = Annotated[str, Field(max_length=1024)]


class ArgoAsk(In):
    """A run to ask for, once for each key: the same body again is the same run."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "key": "vllm-6d5f7c9b8d",
                    "scenario": "quickstart",
                    "arms": {"baseline": "vllm-stable", "candidate": "vllm-canary"},
                }
            ]
        },
    )

    key: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")] = Field(
        description="of this rollout, like the hash of its pod template: another key is another run"
    )
    scenario: _Name
    arms: Arms = Field(default_factory=dict, max_length=16, description="arm to target")
    overrides: Overrides = Field(default_factory=dict, max_length=50)
    time_budget_s: Annotated[float, Field(gt=0, le=604800)] | None = None


class RolloutOut(BaseModel):
    """For conditions: the same types always, nothing null, no NaN."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "verdict": "running",
                    "code": -2,
                    "reason": "the run is running",
                    "id": "20261130T070600Z-quickstart-1a2b3c",
                    "state": "running",
                }
            ]
        }
    )

    verdict: Literal["pass", "fail", "inconclusive", "running"]
    code: int = Field(description="1 pass, 0 fail, -1 inconclusive, -2 running")
    reason: str
    id: str = Field(description="of the run, or of the canary")
    state: str = Field(description="of the run (queued, running, …), or of the canary (ok, doubtful, fail, no_data)")


class FlaggerAsk(BaseModel):
    """As Flagger sends it; keys that are not known here are left aside."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={
            "examples": [
                {
                    "name": "vllm",
                    "namespace": "serving",
                    "phase": "Progressing",
                    "checksum": "85d557f47b",
                    "metadata": {
                        "scenario": "quickstart",
                        "arm.baseline": "vllm-primary",
                        "arm.candidate": "vllm-canary",
                    },
                }
            ]
        },
    )

    name: Annotated[str, Field(min_length=1, max_length=253)]
    namespace: Annotated[str, Field(min_length=1, max_length=253)]
    phase: Annotated[str, Field(max_length=64)] = ""
    checksum: Annotated[str, Field(max_length=200)] = ""
    metadata: dict[Annotated[str, Field(max_length=100)], _Text] = Field(default_factory=dict, max_length=50)
