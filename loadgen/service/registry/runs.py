"""The runs: asked for, running, over. None is ever forgotten."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from loadgen.service.registry.database import Database
from loadgen.service.registry.types import RunFilter, RunRow, RunState

_JSON = ("arms", "overrides")
#: What may be set later; the rest is as it was asked.
_LATER = frozenset(
    {"state", "reason", "started", "ended", "verdict", "validity", "exit_code", "path", "arms", "scenario"}
)


class IdempotencyConflict(Exception):
    """The key was used for another request."""


def utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Runs:
    """Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, run_id: str, scenario: str, **known: Any) -> RunRow:
        """`known`: fields of RunRow. Raises sqlite3.IntegrityError where the id is taken."""
        values = {"created": utc_now(), "state": RunState.QUEUED, **known, "id": run_id, "scenario": scenario}
        names = ", ".join(values)
        marks = ", ".join("?" for _ in values)
        with self._database.transaction() as connection:
            connection.execute(
                f"INSERT INTO runs ({names}) VALUES ({marks})", [_stored(k, v) for k, v in values.items()]
            )
        return self.one(run_id)

    def add_once(
        self, who: str, key: str | None, sha256: str, run_id: str, scenario: str, **known: Any
    ) -> tuple[RunRow, bool]:
        """As `add`; with a key that `who` has used for the same request (`sha256`), the run of then. Whether it is new.
        Raises IdempotencyConflict."""
        with self._database.transaction() as connection:
            if key is not None:
                before = connection.execute(
                    "SELECT sha256, run_id FROM idempotency WHERE who = ? AND key = ?", (who, key)
                ).fetchone()
                if before is not None and before["sha256"] != sha256:
                    raise IdempotencyConflict(key)
                if before is not None:
                    return self.one(before["run_id"]), False
                connection.execute(
                    "INSERT INTO idempotency (who, key, sha256, run_id, at) VALUES (?, ?, ?, ?, ?)",
                    (who, key, sha256, run_id, utc_now()),
                )
            return self.add(run_id, scenario, **known), True

    def of_key(self, who: str, key: str, sha256: str | None) -> RunRow | None:
        """The run that `who` has asked for with this key; None: none. Raises IdempotencyConflict where that was for
        another request than `sha256` (None: whatever it was)."""
        rows = self._database.rows("SELECT sha256, run_id FROM idempotency WHERE who = ? AND key = ?", (who, key))
        if not rows:
            return None
        if sha256 is not None and rows[0]["sha256"] != sha256:
            raise IdempotencyConflict(key)
        return self.one(rows[0]["run_id"])

    def change(self, run_id: str, **values: Any) -> RunRow:
        """Set what is known now. Raises KeyError where there is no such run."""
        assert values.keys() <= _LATER
        sets = ", ".join(f"{name} = ?" for name in values)
        with self._database.transaction() as connection:
            done = connection.execute(
                f"UPDATE runs SET {sets} WHERE id = ?", [*(_stored(k, v) for k, v in values.items()), run_id]
            )
            if done.rowcount != 1:
                raise KeyError(run_id)
        return self.one(run_id)

    def move(self, run_id: str, before: RunState, **values: Any) -> RunRow | None:
        """As `change`, but only out of the state `before`; None where it is in another by now."""
        with self._database.transaction():
            row = self.find(run_id)
            return None if row is None or row.state is not before else self.change(run_id, **values)

    def one(self, run_id: str) -> RunRow:
        """Raises KeyError."""
        row = self.find(run_id)
        if row is None:
            raise KeyError(run_id)
        return row

    def find(self, run_id: str) -> RunRow | None:
        rows = self._database.rows("SELECT * FROM runs WHERE id = ?", (run_id,))
        return _row(rows[0]) if rows else None

    def known(self) -> set[str]:
        return {row["id"] for row in self._database.rows("SELECT id FROM runs")}

    def in_state(self, *states: RunState) -> list[RunRow]:
        """In the order in which they were asked for."""
        marks = ", ".join("?" for _ in states)
        return [
            _row(r) for r in self._database.rows(f"SELECT * FROM runs WHERE state IN ({marks}) ORDER BY number", states)
        ]

    def count(self) -> Mapping[str, int]:
        rows = self._database.rows("SELECT state, count(*) AS n FROM runs GROUP BY state")
        return {state.value: 0 for state in RunState} | {row["state"]: row["n"] for row in rows}

    def select(self, wanted: RunFilter) -> list[RunRow]:
        """Newest first. Deleted ones only where they are asked for."""
        states = wanted.states or tuple(s for s in RunState if s is not RunState.DELETED)
        where = [f"state IN ({', '.join('?' for _ in states)})"]
        values: list[Any] = list(states)
        for column in ("scenario", "started_by", "verdict"):
            if (value := getattr(wanted, column)) is not None:
                where.append(f"{column} = ?")
                values.append(value)
        if wanted.target is not None:
            where.append("EXISTS (SELECT 1 FROM json_each(runs.arms) AS arm WHERE arm.value = ?)")
            values.append(wanted.target)
        if wanted.before is not None:
            where.append("number < ?")
            values.append(wanted.before)
        sql = f"SELECT * FROM runs WHERE {' AND '.join(where)} ORDER BY number DESC LIMIT ?"
        return [_row(row) for row in self._database.rows(sql, [*values, wanted.limit])]


def _stored(name: str, value: Any) -> Any:
    if name in _JSON:
        return orjson.dumps(value).decode()
    return int(value) if isinstance(value, bool) else value


def _row(row: sqlite3.Row) -> RunRow:
    found = {name: row[name] for name in row.keys()}  # noqa: SIM118  (a Row is no mapping)
    return RunRow(
        **{
            **found,
            **{name: orjson.loads(found[name]) for name in _JSON},
            "state": RunState(found["state"]),
            "uploaded": bool(found["uploaded"]),
        }
    )
