"""sweep.json: what of a sweep has been done. Written whole at every change; nothing in it is taken back."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from loadgen import __version__
from loadgen.analyze import PointState
from loadgen.errors import ScenarioError, StorageError
from loadgen.record import open_run

STATE, LOCK = "sweep.json", ".sweep.lock"
SWEEP_STATE_SCHEMA = 1


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", validate_assignment=True)


class Attempt(_Model):
    """One try at a visit. `folder` takes its run directories and the logs of its server, relative to the sweep's;
    `directory` is its run, null where none was begun. `state` running: it is, or the sweep was killed in it."""

    state: Literal["running", "done", "failed", "interrupted"]
    folder: str
    started: str
    at_s: float
    directory: str | None = None
    run_id: str | None = None
    took_s: float | None = None
    reason: str | None = None
    kind: Literal["target", "other"] = "other"


class VisitState(_Model):
    """One visit of the plan. Only its last attempt counts; all are kept."""

    number: int
    index: int
    slug: str
    values: dict[str, int | float | str]
    baseline: bool
    repeat: int
    visit: int
    arm: str
    attempts: list[Attempt] = Field(default_factory=list)
    skipped: str | None = None

    @property
    def state(self) -> PointState:
        if self.attempts and self.attempts[-1].state != "running":
            last = self.attempts[-1].state
            return "skipped" if last == "interrupted" and self.skipped else last
        if self.attempts:
            return "interrupted"
        return "skipped" if self.skipped is not None else "pending"

    @property
    def folder(self) -> str:
        return f"points/{self.number:03d}-{self.slug}"


class SearchVisit(_Model):
    """One run of the search for the highest rate."""

    arm: str
    k: int | None = None
    rate_per_s: float
    outcome: Literal["pass", "fail", "inconclusive"] | None = None  # None: not over, or the sweep was killed in it
    why: str = ""
    folder: str
    directory: str | None = None
    took_s: float | None = None


class SweepState(_Model):
    """`elapsed_s`: over all sessions. `sessions`: when each began and how it ended."""

    schema_version: int = SWEEP_STATE_SCHEMA
    sweep_id: str
    name: str
    objective: str
    specload_version: str = __version__
    plan_hash: str
    scenario: dict[str, Any]
    scenario_path: str | None
    scenario_sha256: str
    overrides: list[str]
    axes: dict[str, list[int | float | str]]
    baseline: dict[str, int | float | str]
    started: str
    elapsed_s: float = 0.0
    sessions: list[dict[str, Any]] = Field(default_factory=list)
    visits: list[VisitState]
    search: list[SearchVisit] = Field(default_factory=list)


def read_state(folder: Path) -> SweepState:
    """Raises StorageError."""
    path = folder / STATE
    try:
        return SweepState.model_validate_json(path.read_bytes())
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror}; is {folder} a sweep's directory?") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise StorageError(f"{path}: is not the state of a sweep: {first['loc']}: {first['msg']}") from None


def write_state(folder: Path, state: SweepState) -> None:
    """Whole or not at all. Raises StorageError."""
    path = folder / STATE
    part = folder / f"{STATE}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part.write_bytes(orjson.dumps(state.model_dump(mode="json"), option=orjson.OPT_INDENT_2))
        part.replace(path)
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror}") from None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time. Raises ScenarioError where another has it; a killed one has not."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ScenarioError([f"{folder}: another specload is running this sweep"]) from None
        yield
    finally:
        os.close(handle)


def close_attempts(folder: Path, state: SweepState) -> None:
    """After a kill: a visit that was running is interrupted and its directory kept; one whose run had finished is done:
    nothing that was measured is asked again."""
    for visit in state.visits:
        if visit.attempts and visit.attempts[-1].state == "running":
            _close(folder, visit.attempts[-1], {attempt.directory for attempt in visit.attempts[:-1]})


def _close(folder: Path, attempt: Attempt, earlier: set[str | None]) -> None:
    attempt.state, attempt.reason = "interrupted", "the sweep was killed before its run began"
    for manifest in sorted((folder / attempt.folder).glob("*/manifest.json"), reverse=True):
        where = str(manifest.parent.relative_to(folder))
        if where in earlier:
            continue
        attempt.directory, attempt.run_id = where, manifest.parent.name
        attempt.reason = "the sweep was killed while it ran; its records are kept"
        try:
            if open_run(manifest.parent).manifest.state == "finished":
                attempt.state, attempt.reason = "done", None
        except StorageError as error:
            attempt.reason = f"{attempt.reason}; {error}"
        return


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
