"""Who did what: rows that are only ever added, each sealed with the hash of the one before.

A row that was changed or taken out breaks the chain from there on. Rows cut off at the end do not: keep the newest hash
elsewhere (it is in every answer of GET /api/v1/audit) to see that, too.
"""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from loadgen.service.registry.database import Database
from loadgen.service.registry.runs import utc_now
from loadgen.service.registry.types import AuditRow

FIRST = "0" * 64
_SEALED = ("at", "who", "role", "address", "action", "subject", "status", "detail", "previous")
#: Of one value: who is refused a login chooses what stands here.
MOST_CHARS = 300


class Audit:
    """Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self,
        who: str,
        action: str,
        *,
        role: str | None = None,
        address: str | None = None,
        subject: str | None = None,
        status: int | None = None,
        detail: str | None = None,
    ) -> AuditRow:
        values: dict[str, Any] = {
            "at": utc_now(), "who": who, "role": role, "address": address, "action": action,
            "subject": subject, "status": status, "detail": detail,
        }  # fmt: skip
        values = {k: _text(v) if isinstance(v, str) else v for k, v in values.items()}
        with self._database.transaction() as connection:
            last = connection.execute("SELECT hash FROM audit ORDER BY number DESC LIMIT 1").fetchone()
            values["previous"] = FIRST if last is None else last["hash"]
            values["hash"] = seal(values)
            names = ", ".join(values)
            marks = ", ".join("?" for _ in values)
            done = connection.execute(f"INSERT INTO audit ({names}) VALUES ({marks})", list(values.values()))
        return AuditRow(number=int(done.lastrowid or 0), **values)

    def select(self, *, before: int | None = None, who: str | None = None, limit: int = 100) -> list[AuditRow]:
        """Newest first."""
        where, values = ["1"], list[Any]()
        for text, value in (("number < ?", before), ("who = ?", who)):
            if value is not None:
                where.append(text)
                values.append(value)
        rows = self._database.rows(
            f"SELECT * FROM audit WHERE {' AND '.join(where)} ORDER BY number DESC LIMIT ?", [*values, limit]
        )
        return [AuditRow(**dict(row)) for row in rows]

    def head(self) -> str:
        """Hash of the newest row."""
        rows = self._database.rows("SELECT hash FROM audit ORDER BY number DESC LIMIT 1")
        return str(rows[0]["hash"]) if rows else FIRST

    def broken_at(self) -> int | None:
        """Number of the first row that is not what was written, or does not follow the one before; None: all are."""
        previous, number = FIRST, 0
        for row in self._database.rows("SELECT * FROM audit ORDER BY number"):
            if row["number"] != number + 1 or row["previous"] != previous or seal(dict(row)) != row["hash"]:
                return int(row["number"])
            previous, number = row["hash"], row["number"]
        return None


def _text(value: str) -> str:
    """What can be stored of it: half a surrogate pair cannot."""
    return value[:MOST_CHARS].encode("utf-8", "replace").decode()


def seal(values: dict[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps([values[name] for name in _SEALED])).hexdigest()
