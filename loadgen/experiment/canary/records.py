"""What a canary monitor leaves behind: a line for each window, and its result, whole at any time."""

from __future__ import annotations

import math
import os
from collections import Counter, deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field

from loadgen.control import CanaryStanding, CanaryState, CanaryVerdict, CheckReading
from loadgen.errors import StorageError
from loadgen.record import hold_lock

CANARY, WINDOWS = "canary.json", "windows.jsonl"
SCHEMA = 1
#: Changes of the state, and calls of hooks, that canary.json keeps: the newest.
KEPT = 1000


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class Alert(_Model):
    """One change of the state. `id` is the one that webhooks are given."""

    id: str
    at: str
    window: int
    before: CanaryState
    state: CanaryState
    reasons: list[str]


class CheckResult(_Model):
    """A check after the newest window. `reading`: of that window; `pooled`: of the last ones together."""

    check: str
    source: str
    state: CanaryState
    failing_windows: int
    reading: dict[str, Any]
    pooled: dict[str, Any]


class Call(_Model):
    """A webhook or the kill switch, called or (dry run) not. `hook`: a host, or "switch". `detail`: what came of it in
    our own words, never what was answered: everybody who may look at canaries reads this."""

    at: str
    event_id: str
    hook: str
    result: str
    tries: int
    detail: str


class CanaryResult(_Model):
    """canary.json (docs/canary.md). Times are ISO 8601, UTC; None is not known, or not yet."""

    schema_version: int = Field(SCHEMA, alias="schema")
    kind: Literal["canary"] = "canary"
    canary_id: str
    scenario: str
    arm: str
    baseline: str
    environment: str
    model: str | None = None
    engine_version: str | None = None
    window_s: float
    pooled_windows: int
    dry_run: bool
    active: bool = True
    started: str
    ended: str | None = None
    state: CanaryState = "no_data"
    since: str | None = None
    verdict: CanaryVerdict = "inconclusive"
    reasons: list[str] = Field(default_factory=lambda: ["no window has ended yet"])
    windows: int = 0
    window_ended: str | None = None
    windows_by_state: dict[CanaryState, int] = Field(default_factory=dict)
    unjudged_s: float = 0.0
    share: float | None = None
    share_reason: str | None = None
    share_needed: float | None = None
    checks: list[CheckResult] = Field(default_factory=list)
    not_checked: list[dict[str, str]] = Field(default_factory=list)
    alerts: list[Alert] = Field(default_factory=list)
    alerts_in_all: int = 0
    calls: list[Call] = Field(default_factory=list)
    calls_by_result: dict[str, int] = Field(default_factory=dict)
    probes: dict[str, dict[str, int]] = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)


class CanaryRecords:
    """Written as it comes. Raises StorageError from the constructor; later a write that fails is told by `failed`, and
    tried again with the next window."""

    def __init__(self, folder: Path, result: CanaryResult) -> None:
        self.folder, self.result = folder, result
        self.failed: str | None = None
        self._alerts: deque[Alert] = deque(maxlen=KEPT)
        self._calls: deque[Call] = deque(maxlen=KEPT)
        self._states: Counter[CanaryState] = Counter()
        self._results: Counter[str] = Counter()
        try:
            folder.mkdir(parents=True)
            (folder / WINDOWS).touch(exist_ok=False)
            self._lock = hold_lock(folder)  # before canary.json is there: who reads that finds it held
            self._replace()
        except OSError as error:
            raise StorageError(f"{folder}: cannot write there: {error.strerror}; choose another with --out") from None

    def probe(self, arm: str, outcome: str) -> None:
        counted = self.result.probes.setdefault(arm, {})
        counted[outcome] = counted.get(outcome, 0) + 1

    def window(self, standing: CanaryStanding) -> Alert | None:
        """The alert, where the state has changed."""
        result, window = self.result, standing.window
        self._states[standing.state] += 1
        result.windows, result.windows_by_state = window.number, dict(self._states)
        result.window_ended = iso(window.end_s)
        result.state, result.verdict, result.since = standing.state, standing.verdict, iso(standing.since_s)
        result.reasons, result.share, result.share_reason = [*standing.reasons], window.share, window.share_reason
        result.checks = [
            CheckResult(
                check=c.check.name, source=c.check.source, state=c.state, failing_windows=c.failing,
                reading=as_json(c.reading), pooled=as_json(c.pooled),
            )
            for c in standing.checks
        ]  # fmt: skip
        alert = None
        if standing.changed:
            alert = Alert(
                id=f"{result.canary_id}-{window.number}", at=iso(window.end_s), window=window.number,
                before=standing.before, state=standing.state, reasons=[*standing.reasons],
            )  # fmt: skip
            self._alerts.append(alert)
            result.alerts_in_all += 1
        self._line(standing)
        self.save()
        return alert

    def call(self, at_s: float, event_id: str, hook: str, outcome: str, tries: int, detail: str) -> None:
        self._calls.append(Call(at=iso(at_s), event_id=event_id, hook=hook, result=outcome, tries=tries, detail=detail))
        self._results[outcome] += 1
        self.save()

    def note(self, text: str) -> None:
        if text not in self.result.notes:
            self.result.notes = [*self.result.notes, text][-KEPT:]

    def end(self, at_s: float, unjudged_s: float) -> None:
        """Nothing is written afterwards."""
        self.result.active, self.result.ended, self.result.unjudged_s = False, iso(at_s), unjudged_s
        self.save()
        os.close(self._lock)

    def save(self) -> None:
        self.result.alerts, self.result.calls = list(self._alerts), list(self._calls)
        self.result.calls_by_result = dict(self._results)
        try:
            self._replace()
            self.failed = None
        except OSError as error:
            self.failed = f"{self.folder / CANARY}: cannot be written: {error.strerror}"

    def _line(self, standing: CanaryStanding) -> None:
        try:
            with (self.folder / WINDOWS).open("ab") as file:
                file.write(orjson.dumps(window_line(standing)) + b"\n")
        except OSError as error:
            self.failed = f"{self.folder / WINDOWS}: cannot be written: {error.strerror}"

    def _replace(self) -> None:
        part = self.folder / f"{CANARY}.part"
        part.write_bytes(orjson.dumps(self.result.model_dump(mode="json", by_alias=True), option=orjson.OPT_INDENT_2))
        part.replace(self.folder / CANARY)


def window_line(standing: CanaryStanding) -> dict[str, Any]:
    """One line of windows.jsonl."""
    window = standing.window
    return {
        "window": window.number,
        "begin": iso(window.begin_s),
        "end": iso(window.end_s),
        "state": standing.state,
        "before": standing.before,
        "verdict": standing.verdict,
        "reasons": list(standing.reasons),
        "share": window.share,
        "share_reason": window.share_reason,
        "checks": [{"state": c.state, "failing_windows": c.failing, **as_json(c.reading)} for c in standing.checks],
    }


def as_json(reading: CheckReading) -> dict[str, Any]:
    """Infinite numbers are null, and named."""
    numbers = {"value": reading.value, "low": reading.low, "high": reading.high}
    finite = {name: n if n is not None and math.isfinite(n) else None for name, n in numbers.items()}
    return {
        "check": reading.check.name,
        "source": reading.check.source,
        "result": reading.result,
        "limit": reading.limit,
        "fails": reading.bad,
        **finite,
        "infinite": [name for name, n in numbers.items() if n is not None and math.isinf(n)],
        "n": reading.n,
        "unit": reading.unit,
        "reason": reading.reason,
    }


def iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
