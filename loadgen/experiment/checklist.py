"""Run directories and files of evidence to the go-live checklist (docs/checklist.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import TypeAdapter, ValidationError

from loadgen.analyze import Estimate, Estimates, Query
from loadgen.errors import StorageError
from loadgen.experiment.canary import CanaryResult
from loadgen.experiment.judging import judge_run
from loadgen.experiment.shapes import found_in
from loadgen.record import RunData, open_run
from loadgen.scenario import Threshold
from loadgen.verdict import (
    AlertFired,
    AuditEvidence,
    CanaryEvidence,
    Checklist,
    FileEvidence,
    RunEvidence,
    checklist_of,
)

_FILE: TypeAdapter[CanaryEvidence | AuditEvidence] = TypeAdapter(CanaryEvidence | AuditEvidence)
LEVEL = 0.95
#: A file of evidence is small.
MAX_BYTES = 4 * 2**20


def checklist_from(paths: Sequence[Path], thresholds: Sequence[Threshold] | None = None) -> Checklist:
    """`paths`: run directories, and files of evidence (canary.json, audit.json); what a run directory holds of these is
    taken, too. Raises StorageError where one cannot be read."""
    runs, files = [], []
    for path in paths:
        if path.is_dir() and not (path / "manifest.json").exists() and (path / "canary.json").is_file():
            path /= "canary.json"  # what `specload canary` leaves behind
        if path.is_file():
            files.append(read_evidence(path))
            continue
        runs.append(evidence_of(open_run(path), thresholds))
        files += [read_evidence(path / name) for name in ("canary.json", "audit.json") if (path / name).is_file()]
    now = datetime.now(UTC)
    ages = {run.run_id: _days(run.started, now) for run in runs} | {file.id: _days(file.at, now) for file in files}
    known = {name: days for name, days in ages.items() if days is not None}
    return checklist_of(runs, files, at=now.isoformat(timespec="seconds"), age_days=known)


def evidence_of(run: RunData, thresholds: Sequence[Threshold] | None = None) -> RunEvidence:
    """All that is known of a run, made again from its directory. `thresholds`: instead of its scenario's, where they
    are about its arms."""
    manifest = run.manifest
    names = {arm for t in thresholds or () if (arm := t.selector("arm")) is not None}
    judged = judge_run(run, thresholds if names <= manifest.arms.keys() else None)
    return RunEvidence(
        run_id=manifest.run_id,
        started=manifest.started,
        experiment=str(manifest.scenario.get("experiment", "run")),
        finished=judged.summary.finished,
        arms=manifest.arms,
        summary=judged.summary,
        verdict=judged.verdict,
        found=found_in(run),
        acceptance=_acceptance(run),
    )


def read_evidence(path: Path) -> FileEvidence:
    """Raises StorageError where it is none."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise StorageError(f"{path}: larger than {MAX_BYTES >> 20} MiB: no evidence for a checklist")
        value: Any = orjson.loads(text)
        if isinstance(value, dict) and "canary_id" in value:
            return canary_evidence(CanaryResult.model_validate(value))
        return _in_utc(path, _FILE.validate_python(value))
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror}") from None
    except orjson.JSONDecodeError as error:
        raise StorageError(f"{path}: not JSON: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise StorageError(
            f"{path}: no evidence for a checklist (kind canary or audit): {where}: {first['msg']}"
        ) from None


def _in_utc(path: Path, found: FileEvidence) -> FileEvidence:
    """Of unknown age it would never be too old; in one zone the newest is found by its text."""
    try:
        at = datetime.fromisoformat(found.at)
    except ValueError:
        raise StorageError(
            f"{path}: no evidence for a checklist: at: {found.at[:40]!r} is no time as 2026-11-30T08:00:00Z is"
        ) from None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return found.model_copy(update={"at": at.astimezone(UTC).isoformat()})


def canary_evidence(result: CanaryResult) -> CanaryEvidence:
    """Of `specload canary`: an alert is a change of the state to fail, about the checks that its reasons begin with."""
    fired = [
        AlertFired(name=f"{alert.id}: {reason}", about=_about(reason), fired=True)
        for alert in result.alerts
        if alert.state == "fail"
        for reason in alert.reasons
    ]
    at = result.ended or result.since or result.started
    return CanaryEvidence(
        id=result.canary_id, at=at, state=result.verdict, reasons=result.reasons, share=result.share, alerts=fired,
        model=result.model, engine_version=result.engine_version,
    )  # fmt: skip


def _about(reason: str) -> Literal["acceptance", "rollback", "other"]:
    check = reason.partition(" ")[0]
    return "acceptance" if check.startswith("acceptance") else "rollback" if check == "rollback" else "other"


def _acceptance(run: RunData) -> Mapping[str, Mapping[str, Estimate]]:
    """By speculating arm and task type, with intervals clustered by case. Of every stage together."""
    estimates = Estimates(run)
    found: dict[str, dict[str, Estimate]] = {}
    for name, facts in run.manifest.arms.items():
        if facts.speculation is not False:
            found[name] = {task: _of_task(estimates, name, task) for task in estimates.tasks()}
    return found


def _of_task(estimates: Estimates, arm: str, task: str) -> Estimate:
    return estimates.estimate(Query("acceptance_rate", "value", (("arm", arm), ("task_type", task))), LEVEL)


def _days(at: str, now: datetime) -> float | None:
    """None where it is no time."""
    try:
        found = datetime.fromisoformat(at)
    except ValueError:
        return None
    return (now - (found if found.tzinfo is not None else found.replace(tzinfo=UTC))).total_seconds() / 86_400
