"""What a run directory says it has come to, without making anything of it again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from loadgen.experiment.ending import worst_word
from loadgen.experiment.judging import FOUND
from loadgen.record import RunEntry, list_runs


def judged_word(path: Path) -> str | None:
    """Of the verdict and of what an experiment found, as their files have them, the worse; None: there is none."""
    words = [read_object(path / "verdict.json").get("verdict")]
    words += [read_object(path / f"{kind}.json").get("state") for kind in FOUND]
    return worst_word(*(word for word in words if isinstance(word, str)))


def list_judged(root: Path) -> list[RunEntry]:
    """All runs under `root`, newest first, each with `judged_word`; `problem` of one whose experiment found something
    begins with what that was."""
    return [_judged(entry) for entry in list_runs(root)]


def _judged(entry: RunEntry) -> RunEntry:
    path = Path(entry.path)
    said = [] if entry.problem is None else [entry.problem]
    for kind in FOUND:
        found = read_object(path / f"{kind}.json")
        reasons = found.get("reasons")
        if found.get("state") in ("fail", "inconclusive") and isinstance(reasons, list) and reasons:
            more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
            said.append(f"{kind}: {reasons[0]}{more}")
    return replace(entry, verdict=judged_word(path), problem="; ".join(said) or None)


def read_object(file: Path) -> dict[str, Any]:
    """Of a JSON file; empty where it is not there or holds no object."""
    try:
        found = orjson.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
