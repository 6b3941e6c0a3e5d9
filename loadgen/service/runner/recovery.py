"""What was left behind: runs that a service before this one had started, and run directories that nobody told it of."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadgen.errors import SpecloadError, StorageError
from loadgen.experiment import judged_word, read_object
from loadgen.record import list_runs, read_manifest
from loadgen.service.background import Background, Busy, JobFailed
from loadgen.service.jobs import recomputed
from loadgen.service.registry import Registry, RunRow, RunState
from loadgen.service.words import validity_of

log = logging.getLogger("specload.service")

#: Of a manifest -> of the registry. A worker's death ends a run early.
STATES = {
    "finished": RunState.FINISHED,
    "interrupted": RunState.INTERRUPTED,
    "killed": RunState.INTERRUPTED,
    "stopped": RunState.STOPPED,
    "inconclusive": RunState.FAILED,
    "failed": RunState.FAILED,
}
LEFT = "the service ended while it ran"


@dataclass(frozen=True, slots=True)
class Found:
    """A run directory by now. `state` None: there is none; "running": somebody still writes it."""

    state: str | None
    reason: str | None
    verdict: str | None
    validity: str | None


def look_at(path: Path) -> Found:
    if not (path / "manifest.json").exists():
        return Found(None, None, None, None)
    try:
        manifest = read_manifest(path)
    except StorageError:
        return Found("unreadable", "its manifest cannot be read", None, None)
    return Found(manifest.state, manifest.stop_reason, *judged(path))


def judged(path: Path) -> tuple[str | None, str | None]:
    """Verdict and validity, as their files have them; of the verdict and of what an experiment found, the worse."""
    validity = read_object(path / "summary.json").get("validity")
    state = validity.get("state") if isinstance(validity, dict) else None
    kind = "access" if (path / "access.json").exists() else None
    return judged_word(path), validity_of(kind, state if isinstance(state, str) else None)


def after_left(row: RunRow, path: Path) -> tuple[dict[str, Any], bool]:
    """What is known of a run that was running when the service ended; and whether somebody still writes it."""
    found = look_at(path)
    if found.state is None:
        return {"state": RunState.INTERRUPTED, "reason": f"{LEFT}, before any load", "exit_code": 130}, False
    values = {"path": str(path), "verdict": found.verdict, "validity": found.validity}
    if found.state in ("finished", "stopped", "inconclusive", "failed"):
        return {**values, "state": STATES[found.state], "reason": found.reason}, False
    return {**values, "state": RunState.INTERRUPTED, "reason": LEFT, "exit_code": 130}, found.state == "running"


async def recompute(registry: Registry, background: Background, run_id: str, path: Path) -> None:
    """Summary, verdict and report of what was measured; where they cannot be made, it is listed all the same."""
    try:
        verdict, validity = await background.run(recomputed, str(path))
    except (SpecloadError, Busy, JobFailed) as error:
        log.error("run %s: its summary cannot be made: %s", run_id, error)
        return
    await asyncio.to_thread(registry.runs.change, run_id, verdict=verdict, validity=validity)


def adopt(registry: Registry, folder: Path) -> list[RunRow]:
    """List the run directories that the registry does not know, but those that are being written."""
    known, adopted = registry.runs.known(), []
    for entry in reversed(list_runs(folder)):
        name = Path(entry.path).name
        if name in known or entry.state == "running":
            continue
        verdict, validity = judged(Path(entry.path))
        manifest = entry.manifest
        scenario = "unknown" if manifest is None else str(manifest.scenario.get("name", "unknown"))
        adopted.append(
            registry.runs.add(
                name,
                scenario,
                state=STATES.get(entry.state, RunState.FAILED),
                reason="its records cannot be read" if manifest is None else manifest.stop_reason,
                created=entry.started or "",
                started=entry.started,
                ended=None if manifest is None else manifest.finished,
                verdict=verdict,
                validity=validity,
                path=entry.path,
                kind=entry.kind,
            )
        )
    return adopted
