"""`access`: who is let in, over what, and what can be seen from outside. No load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from loadgen.scenario.base import Model, Seconds

_NO_TASK: dict[str, Any] = {
    "task_type": "short_qa",
    "input_len": {"kind": "fixed", "value": 16},
    "output_len": {"kind": "fixed", "value": 1},
}
#: Keys that a scenario of access may leave out, and what then stands there: nothing of it is sent.
NO_LOAD: Mapping[str, Any] = {
    "workload": {"tasks": [_NO_TASK]},
    "load": [{"kind": "concurrency", "concurrency": 1, "cases": 1}],
}


class AccessKeys(Model):
    """What `experiment: access` looks at besides what every server has."""

    timeout_s: Seconds = Field(5.0, description="of one look")
    certificate_days: Annotated[int, Field(ge=0, le=3650)] = Field(
        30, description="a certificate must be good for so many days more"
    )
    routes: list[Annotated[str, Field(pattern=r"^/[\x21-\x7e]*$")]] = Field(
        default_factory=list, description="further paths that must not be open without a key"
    )
    endpoint: Literal["completions", "chat"] | None = Field(
        None, description="route that must be seen to ask for a key; default: workload.endpoint (chat if unsaid)"
    )


def without_load(data: Any) -> Any:
    """A scenario file of access needs no workload and no load: none is sent."""
    if isinstance(data, dict) and data.get("experiment") == "access":
        return {**NO_LOAD, **data}
    return data
