"""The newest look at each target: what it found, when, and who looked."""

from __future__ import annotations

from typing import Any

import orjson

from loadgen.service.registry.database import Database
from loadgen.service.registry.runs import utc_now
from loadgen.service.registry.types import TargetLook


class TargetLooks:
    """Thread-safe. One of each name: a later look takes the place of the one before."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, name: str, who: str, found: dict[str, Any]) -> None:
        values = (name, utc_now(), who, orjson.dumps(found).decode())
        with self._database.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO target_looks (name, at, who, found) VALUES (?, ?, ?, ?)", values)

    def all(self) -> dict[str, TargetLook]:
        rows = self._database.rows("SELECT name, at, who, found FROM target_looks")
        return {row["name"]: TargetLook(row["at"], row["who"], orjson.loads(row["found"])) for row in rows}
