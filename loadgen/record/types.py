"""What a run directory holds. `RunData` is a run in memory: analysis never touches the disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, field_validator

from loadgen.clock import Anchor
from loadgen.drive import Accounting
from loadgen.observe import Idle, Scrape, TelemetrySample
from server_adapters.base import Fact

MANIFEST_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class PhaseRecord:
    """One segment as it was driven. Written at its start (`ended_ns` None) and again at its end,
    so that a run that was killed keeps its open window.

    Steady window = [full_ns, load_end_ns]; whole = [started_ns, ended_ns].
    `concurrency`, `rate_per_s`: labels of the group (`loadgen.plan.Segment`).
    """

    segment: int
    arm: str
    phase: str
    stage: str
    stage_index: int
    repeat_idx: int
    block: int
    executor: str
    concurrency: int | None
    rate_per_s: float | None
    started_ns: int
    full_ns: int | None = None
    load_end_ns: int | None = None
    ended_ns: int | None = None
    accounting: Accounting | None = None
    aborted: str | None = None
    idle_before: Idle | None = None
    idle_after: Idle | None = None
    #: parallel with swap: the arm was asked where another arm is in the other half
    swapped: bool = False


class ArmFacts(BaseModel):
    """One arm as found at preflight. `environment` by the keys of docs/environment.md: every fact with its source, or
    without a value and why; `facts` are the user's as written."""

    model_config = ConfigDict(extra="forbid")

    replicas: list[str]
    metrics_sources: list[str]
    adapter: str
    chunk_unit: str
    model: str
    endpoint: str
    capabilities: dict[str, Any]
    environment: dict[str, Fact]
    facts: dict[str, Any]
    spec_method: str | None
    k: int | None
    speculation: bool | None
    #: columns that are null for every request of the arm, each with its reason
    absent_columns: dict[str, str] = {}

    @field_validator("environment", mode="before")
    @classmethod
    def _bare(cls, facts: dict[str, Any]) -> dict[str, Any]:
        """Runs of specload 0.1 hold bare values."""
        return {k: v if isinstance(v, Fact) or _is_fact(v) else Fact(v, "the server") for k, v in facts.items()}


def _is_fact(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"value", "source", "reason"}


class Manifest(BaseModel):
    """manifest.json. Wall times are ISO 8601 UTC; secrets are masked before they get here."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    schema_version: int = MANIFEST_SCHEMA
    run_id: str
    specload_version: str
    started: str
    finished: str | None = None
    #: running, finished, interrupted, stopped (by a threshold), inconclusive (a worker died), failed; "running" of a
    #: dead process means killed
    state: str = "running"
    stop_reason: str | None = None
    scenario: dict[str, Any]
    scenario_path: str | None
    scenario_sha256: str
    overrides: list[str] = []
    #: of --arm: arms that were elsewhere than their scenario says
    arm_urls: dict[str, str] = {}
    plan_hash: str
    shard: str | None = None
    workers: int = 1
    #: worker processes that died while the run went on: what they had asked is missing from the load
    lost_workers: list[int] = []
    design: str
    #: the design in full: blocks and their order, marks, warm-ups, commands that were run (docs/comparison.md)
    comparison: dict[str, Any] = {}
    #: what must be known to read what an experiment that is more than a run has found
    experiment: dict[str, Any] = {}
    length_model: dict[str, Any]
    arms: dict[str, ArmFacts]
    client: dict[str, Any]  # machine, Python, libraries, event loop, timestamp source
    anchors: list[Anchor] = []
    notes: list[str] = []


@dataclass(frozen=True, slots=True)
class Event:
    """Something that an experiment did beside the load, or saw: an anomaly sent, a switch pulled. `at_ns`:
    CLOCK_MONOTONIC, as in the requests. `data`: plain JSON, secrets masked; its keys are the experiment's own."""

    at_ns: int
    name: str
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RunData:
    """A whole run in memory.

    `requests`: one row per request, columns `loadgen.record.COLUMNS` and the extra ones of
    docs/records.md. `health`: columns of `loadgen.drive.LoopHealth`. `scrapes`, `telemetry` and `events` in time order.
    `problems`: what could not be read (a torn last batch), one sentence each.
    """

    path: str
    manifest: Manifest
    requests: pa.Table
    phases: tuple[PhaseRecord, ...]
    scrapes: tuple[Scrape, ...]
    health: pa.Table
    problems: tuple[str, ...] = field(default=())
    telemetry: tuple[TelemetrySample, ...] = field(default=())
    events: tuple[Event, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class RunEntry:
    """One directory under the runs' root. `manifest` is None where it cannot be read, for `problem`. `verdict`: as
    verdict.json has it, in a history the worse of it and of what an experiment found; None where there is none.
    `kind`: the experiment, sweep or canary; None: not known. `arms`: by name, baseline first where there is one."""

    path: str
    run_id: str
    started: str | None
    state: str
    manifest: Manifest | None
    problem: str | None = None
    verdict: str | None = None
    kind: str | None = None
    arms: tuple[str, ...] = ()
