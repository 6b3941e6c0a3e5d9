"""The audit log as evidence for the go-live checklist: `specload serve --audit-evidence`, also while a service runs."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from loadgen.errors import StorageError
from loadgen.service.registry import Audit, Database, utc_now
from loadgen.verdict import AuditEvidence

#: Of the newest hash, in the evidence's name.
_ID_CHARS = 12


def audit_evidence(database: Path) -> AuditEvidence:
    """The whole chain is read, as it is at this moment; nothing is written. Raises StorageError."""
    kept = Database(database, reads_only=True)
    try:
        audit = Audit(kept)
        broken_at, rows, head = audit.broken_at(), audit.rows(), audit.head()
    except sqlite3.Error as error:
        raise StorageError(f"{database}: the audit log cannot be read: {error}") from None
    finally:
        kept.close()
    if not rows:
        raise StorageError(f"{database}: the audit log has no rows, which shows nothing")
    return AuditEvidence(
        id=f"audit-{head[:_ID_CHARS]}", at=utc_now(), rows=rows, broken_at=broken_at, said={"head": head}
    )


def write_evidence(database: Path, path: Path) -> AuditEvidence:
    """As `specload gate --checklist` reads it. Raises StorageError."""
    found = audit_evidence(database)
    try:
        path.write_text(found.model_dump_json(by_alias=True, indent=2) + "\n")
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror}") from None
    return found
