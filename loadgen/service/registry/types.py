"""What the registry holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class RunState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    #: a user stopped it while it ran, or the service died under it; what was measured is kept
    INTERRUPTED = "interrupted"
    #: refused before any load, ended early, or a worker died
    FAILED = "failed"
    #: by a threshold with abort_on_fail, or taken from the queue
    STOPPED = "stopped"
    DELETED = "deleted"

    @property
    def over(self) -> bool:
        return self not in (RunState.QUEUED, RunState.RUNNING)


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run. Times are ISO 8601 UTC. `number`: the order in which runs were asked for. `arms`: arm to target.
    `scenario_text`: what was asked, as it was then; None of runs found on disk. `kind`: the scenario's experiment; None
    of runs that were asked for before this was kept. `path`: its run directory, None before
    it has one and after it was deleted."""

    number: int
    id: str
    scenario: str
    state: RunState
    created: str
    arms: dict[str, str] = field(default_factory=dict)
    overrides: dict[str, Any] = field(default_factory=dict)
    scenario_text: str | None = None
    uploaded: bool = False
    time_budget_s: float | None = None
    reason: str | None = None
    started_by: str | None = None
    started: str | None = None
    ended: str | None = None
    verdict: str | None = None
    validity: str | None = None
    exit_code: int | None = None
    path: str | None = None
    kind: str | None = None

    def shown(self) -> dict[str, Any]:
        """As others see it: without the scenario's text and places on the disk."""
        return {name: getattr(self, name) for name in _SHOWN}


_SHOWN = (
    "id", "number", "scenario", "state", "reason", "arms", "overrides", "time_budget_s", "started_by", "created",
    "started", "ended", "verdict", "validity", "exit_code", "kind",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs to list; None: whatever. `before`: those asked for before the run of this number."""

    states: tuple[RunState, ...] = ()
    scenario: str | None = None
    target: str | None = None
    started_by: str | None = None
    verdict: str | None = None
    before: int | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class TargetLook:
    """The newest look at a target. `found`: as the API answers it (`TargetCheckOut`)."""

    at: str
    who: str
    found: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AuditRow:
    """Who did what. `hash` is over the row and `previous`, the hash of the row before."""

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
