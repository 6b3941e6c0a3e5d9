"""The result of an experiment: `quality.json`, `anomalies.json`, `drill.json`, `access.json` of a run directory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from loadgen.analyze.summary import Finding
from loadgen.analyze.summary.base import Model

EXPERIMENT_SCHEMA = 1

#: `fail`: a fault was found. `inconclusive`: what would have shown it could not be done, or not often enough.
State = Literal["pass", "fail", "inconclusive"]


class ExperimentResult(Model):
    """What all of them say. Subclasses set `kind` and add their tables.

    `reasons`: why it is not a pass, worst first, each a sentence with its numbers; empty for a pass. `findings`:
    sentences with numbers and conditions, also good ones. `conditions`: under which model, hardware, load and mix.
    """

    schema_version: int = Field(EXPERIMENT_SCHEMA, alias="schema")
    kind: Literal["quality", "anomalies", "drill", "access"]
    run_id: str
    state: State
    reasons: list[str]
    findings: list[Finding]
    conditions: dict[str, Any]


def worst_state(states: Iterable[State]) -> State:
    """`fail` before `inconclusive` before `pass`; nothing at all is inconclusive."""
    seen = set(states)
    if "fail" in seen:
        return "fail"
    return "pass" if seen == {"pass"} else "inconclusive"
