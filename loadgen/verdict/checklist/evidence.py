"""What the checklist is made from: runs with all that is known of them, and files that other parts write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import ConfigDict, Field

from loadgen.analyze import Estimate, ExperimentResult, Summary
from loadgen.record import ArmFacts
from loadgen.verdict.checklist.model import Closed
from loadgen.verdict.model import Verdict


@dataclass(frozen=True)
class RunEvidence:
    """One run directory. `started`: ISO 8601, UTC. `acceptance`: by speculating arm and task type, with intervals."""

    run_id: str
    started: str
    experiment: str
    finished: bool
    arms: Mapping[str, ArmFacts]
    summary: Summary
    verdict: Verdict | None = None
    found: ExperimentResult | None = None
    acceptance: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)

    @property
    def measured(self) -> bool:
        """Its numbers are those of ordinary load; other experiments have theirs under what they do to it."""
        return self.experiment in ("run", "soak")

    @property
    def unusable(self) -> str | None:
        """Why nothing can be shown by it; None: it can. Access checks measure nothing, rightly or not."""
        if not self.finished:
            return f"{self.run_id} did not finish"
        if self.summary.validity.state == "invalid" and self.experiment != "access":
            return f"{self.run_id} is an invalid measurement: {self.summary.validity.reasons[0]}"
        return None


class FileEvidence(Closed):
    """A file with evidence that no run directory holds. Additions are free, so unknown keys are let in.
    `at`: ISO 8601, UTC, so that the newest is found by its text."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False, populate_by_name=True)

    schema_version: int = Field(1, alias="schema")
    kind: Literal["canary", "audit"]
    id: str
    at: str


class AlertFired(Closed):
    """An alert, and whether it was seen to fire (in a drill of the alert, or in earnest)."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    about: Literal["acceptance", "rollback", "other"]
    fired: bool


class CanaryEvidence(FileEvidence):
    """canary.json. `share`: of the traffic that the canary gets, 0–1. `model`, `engine_version`: of the canary."""

    kind: Literal["canary"] = "canary"
    state: Literal["pass", "fail", "inconclusive"]
    reasons: list[str] = Field(default_factory=list)
    share: float | None = None
    alerts: list[AlertFired] = Field(default_factory=list)
    model: str | None = None
    engine_version: str | None = None


class AuditEvidence(FileEvidence):
    """audit.json. `rows`: of the log. `broken_at`: the first row that is not what was written; null: all are."""

    kind: Literal["audit"] = "audit"
    rows: int
    broken_at: int | None = None
    said: dict[str, Any] = Field(default_factory=dict)
