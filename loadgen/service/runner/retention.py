"""What of ended runs is kept, and how the rest goes."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from loadgen.service.registry import RunRow


def too_old(over: Sequence[RunRow], days: float | None, most: int | None, now_s: float) -> list[str]:
    """Ids of ended runs that are not kept; `over` in the order in which they were asked for."""
    doomed = {row.id for row in over[: max(0, len(over) - most)]} if most is not None else set()
    if days is not None:
        for row in over:
            at = row.ended or row.created
            try:
                ended_s = datetime.fromisoformat(at).timestamp()
            except ValueError:
                continue
            if now_s - ended_s > 86400 * days:
                doomed.add(row.id)
    return [row.id for row in over if row.id in doomed]


def erase(path: Path, folder: Path, run_id: str) -> str | None:
    """Delete a run directory of `folder`, and nothing else. Why not, where it stays."""
    if path.parent.resolve() != folder.resolve() or path.name != run_id or path.is_symlink():
        return "the run's records are not in the service's folder: they are left alone"
    shutil.rmtree(path, ignore_errors=True)
    return "the run's records cannot be deleted whole: see the folder's permissions" if path.exists() else None
