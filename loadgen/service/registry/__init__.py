"""What the service remembers: runs, and who did what. SQLite, one file."""

from __future__ import annotations

from pathlib import Path

from loadgen.service.registry.audit import Audit, Audited
from loadgen.service.registry.database import Database, alone
from loadgen.service.registry.runs import IdempotencyConflict, Runs, utc_now
from loadgen.service.registry.seen import TargetLooks
from loadgen.service.registry.types import AuditRow, RunFilter, RunRow, RunState, TargetLook

__all__ = [
    "Audit",
    "AuditRow",
    "Audited",
    "Database",
    "IdempotencyConflict",
    "Registry",
    "RunFilter",
    "RunRow",
    "RunState",
    "Runs",
    "TargetLook",
    "TargetLooks",
    "alone",
    "utc_now",
]


class Registry:
    """Raises StorageError where the file cannot be used."""

    def __init__(self, path: Path) -> None:
        self.database = Database(path)
        self.runs = Runs(self.database)
        self.audit = Audit(self.database)
        self.looks = TargetLooks(self.database)

    def usable(self) -> bool:
        return self.database.usable()

    def close(self) -> None:
        self.database.close()
