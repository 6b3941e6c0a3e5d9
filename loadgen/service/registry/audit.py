"""Who did what: rows that are only ever added, each sealed with the hash of the one before.

A row that was changed or taken out breaks the chain from there on. Rows cut off at the end do not: keep the newest hash
elsewhere (it is in every answer of GET /api/v1/audit) to see that, too.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any

import orjson

from loadgen.redact import one_line
from loadgen.service.registry.database import Database
from loadgen.service.registry.runs import utc_now
from loadgen.service.registry.types import AuditRow

FIRST = "0" * 64
_SEALED = ("at", "who", "role", "address", "action", "subject", "status", "detail", "previous")
#: Of one value: who is refused a login chooses what stands here.
MOST_CHARS = 300
#: Rows that are read at a time: nobody else waits for the database longer.
STEP = 1000
#: Rows that are read for one question (`Audited`), beside those that were read before.
MOST_STEPS = 5
#: Rows that were found right are read again after so long.
AGAIN_S = 86400.0
log = logging.getLogger("specload.service")


@dataclass(frozen=True, slots=True)
class Audited:
    """`verified`: number of the newest row that was read and is right, with all before it. `broken_at`: of the first
    that is not what was written, or does not follow the one before; None: none was found."""

    verified: int
    broken_at: int | None


class Audit:
    """Thread-safe. `now`: seconds, monotonic."""

    def __init__(self, database: Database, now: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._now = now
        self._verifying = Lock()
        self._begin()
        self._broken_at: int | None = None

    def _begin(self) -> None:
        self._number, self._hash, self._begun_s = 0, FIRST, self._now()

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

    def rows(self) -> int:
        return int(self._database.rows("SELECT count(*) FROM audit")[0][0])

    def state(self) -> Audited:
        """Of what was read so far; the rows since then are read first, as many as can be waited for."""
        for _ in range(MOST_STEPS):
            if self.verify():
                break
        return Audited(self._number, self._broken_at)

    def broken_at(self) -> int | None:
        """Of the whole log, however long that takes."""
        while not self.verify():
            pass
        return self._broken_at

    def verify(self) -> bool:
        """Read on from where one was; whether that is the end, or a row that is not right. From the beginning again
        once a day: somebody may have written into the file since."""
        with self._verifying:
            if self._broken_at is not None:
                return True
            if self._now() - self._begun_s > AGAIN_S:
                self._begin()
            rows = self._database.rows(
                "SELECT * FROM audit WHERE number > ? ORDER BY number LIMIT ?", (self._number, STEP)
            )
            for row in rows:
                right = row["number"] == self._number + 1 and row["previous"] == self._hash
                if not right or seal(dict(row)) != row["hash"]:
                    self._broken_at = int(row["number"])
                    log.error("the audit log is not what was written, from row %d on", self._broken_at)
                    return True
                self._number, self._hash = row["number"], row["hash"]
            return len(rows) < STEP


def _text(value: str) -> str:
    """On one line, and what can be stored of it: who is refused chooses it."""
    return one_line(value[:MOST_CHARS])[:MOST_CHARS]


def seal(values: dict[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps([values[name] for name in _SEALED])).hexdigest()
