"""Canaries whose monitors write into the service's folder of runs: `specload canary --out FOLDER`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from loadgen.errors import StorageError
from loadgen.experiment import CanaryResult, read_canary

#: Newest ones that are looked at.
MOST = 200


def canaries(folder: Path) -> Iterator[CanaryResult]:
    """Newest first. What cannot be read is left out: it is not a canary's, or is being written."""
    found = sorted((path.parent for path in folder.glob("*-canary-*/canary.json")), key=lambda p: p.name, reverse=True)
    for path in found[:MOST]:
        try:
            yield read_canary(path)
        except StorageError:
            continue


def newest(folder: Path, scenario: str) -> CanaryResult | None:
    return next((one for one in canaries(folder) if one.scenario == scenario), None)


def of_id(folder: Path, canary_id: str) -> CanaryResult | None:
    """`canary_id` is one path part, as the route's pattern has it."""
    try:
        return read_canary(folder / canary_id)
    except StorageError:
        return None
