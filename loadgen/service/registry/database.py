"""One SQLite connection for all threads of the service, one at a time."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any

from loadgen.errors import StorageError
from loadgen.service.registry.schema import MIGRATIONS, migrate, version


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """One service a registry: two would drive one target twice, and each take the other's runs for left behind. Ends
    with the process. Raises StorageError where another service has it."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageError(f"{lock}: cannot be written: {error.strerror}") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            said = f"{path}: another service runs with this registry: give each its own folders"
            raise StorageError(said) from None
        yield
    finally:
        os.close(handle)


class Database:
    """WAL: readers of other processes (a backup) never wait. Raises StorageError where it cannot be opened.
    `reads_only`: of another process's, as it is at this moment, until it is closed; nothing is made or brought up."""

    def __init__(self, path: Path, *, reads_only: bool = False) -> None:
        self.path = path
        self._lock = RLock()
        try:
            if reads_only:
                self._connection = _read_only(path)
                return
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
            path.chmod(0o600)
            self._connection.row_factory = sqlite3.Row
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA foreign_keys = ON")
            migrate(self._connection, str(path))
        except (sqlite3.Error, OSError) as error:
            raise StorageError(f"{path}: the registry cannot be opened: {error}") from None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Whole or not at all; nobody else writes meanwhile. Nested ones are part of the outermost."""
        with self._lock:
            if self._connection.in_transaction:
                yield self._connection
                return
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        with self._lock:
            return self._connection.execute(sql, values).fetchall()

    def usable(self) -> bool:
        """Whether it takes writes."""
        try:
            with self.transaction() as connection:
                connection.execute("PRAGMA user_version").fetchone()
        except sqlite3.Error:
            return False
        return True

    def close(self) -> None:
        with self._lock:
            self._connection.close()


def _read_only(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10, isolation_level=None)
    connection.row_factory = sqlite3.Row
    connection.execute("BEGIN")
    if version(connection) != len(MIGRATIONS):
        connection.close()
        raise StorageError(f"{path}: the registry was written by another version of specload: ask that one")
    return connection
