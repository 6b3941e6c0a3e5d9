"""The registry's tables, as numbered steps: each is applied once, in order, and never changed afterwards."""

from __future__ import annotations

import sqlite3

from loadgen.errors import StorageError

MIGRATIONS: tuple[str, ...] = (
    # 1: runs, and who did what
    """
    CREATE TABLE runs (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        scenario TEXT NOT NULL,
        scenario_text TEXT,
        uploaded INTEGER NOT NULL DEFAULT 0,
        arms TEXT NOT NULL DEFAULT '{}',
        overrides TEXT NOT NULL DEFAULT '{}',
        time_budget_s REAL,
        state TEXT NOT NULL CHECK (state IN
            ('queued', 'running', 'finished', 'interrupted', 'failed', 'stopped', 'deleted')),
        reason TEXT,
        started_by TEXT,
        created TEXT NOT NULL,
        started TEXT,
        ended TEXT,
        verdict TEXT,
        validity TEXT,
        exit_code INTEGER,
        path TEXT
    );
    CREATE INDEX runs_by_state ON runs (state);
    CREATE TABLE audit (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        at TEXT NOT NULL,
        who TEXT NOT NULL,
        role TEXT,
        address TEXT,
        action TEXT NOT NULL,
        subject TEXT,
        status INTEGER,
        detail TEXT,
        previous TEXT NOT NULL,
        hash TEXT NOT NULL
    );
    CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
        BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
    CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit
        BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
    """,
    # 2: a start that is asked for twice is one run
    """
    CREATE TABLE idempotency (
        who TEXT NOT NULL,
        key TEXT NOT NULL,
        sha256 TEXT NOT NULL,
        run_id TEXT NOT NULL,
        at TEXT NOT NULL,
        PRIMARY KEY (who, key)
    );
    """,
    # 3: what the newest look at a target has found; what a run is (the scenario's experiment), where that is known
    """
    ALTER TABLE runs ADD COLUMN kind TEXT;
    CREATE TABLE target_looks (
        name TEXT PRIMARY KEY,
        at TEXT NOT NULL,
        who TEXT NOT NULL,
        found TEXT NOT NULL
    );
    """,
    # 4: what one of many has done is found without reading the rest
    """
    CREATE INDEX audit_by_who ON audit (who, number);
    """,
)


def version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection, name: str) -> None:
    """Bring the database up to the newest version, each step whole or not at all. Raises StorageError where it was
    written by a newer specload."""
    at = version(connection)
    if at > len(MIGRATIONS):
        raise StorageError(
            f"{name}: the registry is of version {at}, and this specload knows {len(MIGRATIONS)}: upgrade specload"
        )
    for number, script in enumerate(MIGRATIONS[at:], at + 1):
        connection.executescript(f"BEGIN IMMEDIATE; {script}; PRAGMA user_version = {number}; COMMIT;")
