"""The registry: runs, the audit chain, migrations."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadgen.errors import StorageError
from loadgen.service.registry import IdempotencyConflict, Registry, RunFilter, RunState, alone
from loadgen.service.registry.schema import MIGRATIONS, migrate, version


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    found = Registry(tmp_path / "specload.db")
    yield found
    found.close()


def test_a_run_is_what_was_asked_and_what_came_of_it(registry: Registry) -> None:
    row = registry.runs.add("a", "small", arms={"base": "one"}, overrides={"seed": 3}, started_by="ops")
    assert (row.number, row.state, row.arms, row.overrides) == (1, RunState.QUEUED, {"base": "one"}, {"seed": 3})
    assert row.created.endswith("+00:00")
    changed = registry.runs.change("a", state=RunState.FINISHED, verdict="pass", exit_code=0)
    assert registry.runs.one("a") == changed
    assert (changed.state, changed.verdict, changed.exit_code, changed.created) == ("finished", "pass", 0, row.created)
    with pytest.raises(KeyError):
        registry.runs.change("b", state=RunState.FAILED)
    with pytest.raises(sqlite3.IntegrityError):
        registry.runs.add("a", "small")
    assert "scenario_text" not in changed.shown()
    assert "path" not in changed.shown()


def test_a_run_moves_only_out_of_the_state_it_is_in(registry: Registry) -> None:
    registry.runs.add("a", "small")
    assert registry.runs.move("a", RunState.QUEUED, state=RunState.RUNNING) is not None
    assert registry.runs.move("a", RunState.QUEUED, state=RunState.STOPPED) is None
    assert registry.runs.one("a").state is RunState.RUNNING
    assert registry.runs.move("b", RunState.QUEUED, state=RunState.STOPPED) is None


def test_lists_are_filtered_and_paged_newest_first(registry: Registry) -> None:
    for i in range(5):
        registry.runs.add(str(i), "even" if i % 2 == 0 else "odd", arms={"base": f"t{i % 2}"}, started_by="ops")
    registry.runs.change("4", state=RunState.DELETED)
    runs = registry.runs

    def ids(**wanted: object) -> list[str]:
        return [row.id for row in runs.select(RunFilter(**wanted))]  # type: ignore[arg-type]

    assert ids() == ["3", "2", "1", "0"]
    assert ids(states=(RunState.DELETED,)) == ["4"]
    assert ids(scenario="even") == ["2", "0"]
    assert ids(target="t1") == ["3", "1"]
    assert ids(started_by="nobody") == []
    assert ids(limit=2) == ["3", "2"]
    assert ids(before=3) == ["1", "0"]
    assert [row.id for row in runs.in_state(RunState.QUEUED)] == ["0", "1", "2", "3"]
    assert runs.count() == {
        "queued": 4, "running": 0, "finished": 0, "interrupted": 0, "failed": 0, "stopped": 0, "deleted": 1
    }  # fmt: skip


def test_the_same_request_twice_is_one_run(registry: Registry) -> None:
    one, new = registry.runs.add_once("ops", "k", "sha", "a", "small")
    assert new
    assert registry.runs.add_once("ops", "k", "sha", "b", "small") == (one, False)
    with pytest.raises(IdempotencyConflict):
        registry.runs.add_once("ops", "k", "other", "c", "small")
    assert registry.runs.add_once("eye", "k", "other", "d", "small")[0].id == "d"
    assert registry.runs.add_once("ops", None, "sha", "e", "small")[0].id == "e"
    assert registry.runs.known() == {"a", "d", "e"}


def test_a_start_that_fails_uses_no_key(registry: Registry) -> None:
    registry.runs.add("a", "small")
    with pytest.raises(sqlite3.IntegrityError):
        registry.runs.add_once("ops", "k", "sha", "a", "small")
    assert registry.runs.add_once("ops", "k", "other", "b", "small")[0].id == "b"


def test_the_audit_log_is_a_chain(registry: Registry) -> None:
    first = registry.audit.add("ops", "run.start", subject="a", status=202)
    second = registry.audit.add("x" * 1000 + "\udcff", "login.refused", address="127.0.0.1")
    assert second.previous == first.hash == registry.audit.select(before=second.number)[0].hash
    assert registry.audit.head() == second.hash
    assert len(second.who) == 300
    assert registry.audit.broken_at() is None
    assert [row.number for row in registry.audit.select()] == [2, 1]
    assert registry.audit.select(who="ops") == [first]


@pytest.mark.parametrize("change", ["UPDATE audit SET who = 'x'", "DELETE FROM audit"])
def test_the_audit_log_is_append_only(registry: Registry, change: str) -> None:
    registry.audit.add("ops", "run.start")
    other = sqlite3.connect(registry.database.path)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        other.execute(change)
    other.close()


@pytest.mark.parametrize(
    ("change", "at"),
    [
        ("UPDATE audit SET who = 'x' WHERE number = 2", 2),
        ("UPDATE audit SET hash = 'x' WHERE number = 3", 3),
        ("DELETE FROM audit WHERE number = 2", 3),
        ("DELETE FROM audit WHERE number = 1", 2),
    ],
)
def test_whoever_gets_around_that_breaks_the_chain(registry: Registry, change: str, at: int) -> None:
    for i in range(4):
        registry.audit.add("ops", "run.start", subject=str(i))
    other = sqlite3.connect(registry.database.path)
    other.executescript(f"DROP TRIGGER audit_is_not_changed; DROP TRIGGER audit_is_not_deleted; {change};")
    other.close()
    assert registry.audit.broken_at() == at


def test_threads_do_not_break_the_chain(registry: Registry) -> None:
    def work(name: str) -> None:
        for _ in range(20):
            registry.audit.add(name, "x")

    threads = [threading.Thread(target=work, args=(f"t{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert registry.audit.broken_at() is None
    assert len(registry.audit.select(limit=500)) == 80


@pytest.mark.parametrize("written_by", range(1, len(MIGRATIONS) + 1))
def test_databases_of_every_version_are_brought_up(tmp_path: Path, written_by: int) -> None:
    """What an older service wrote is there afterwards; a second start changes nothing."""
    path = tmp_path / "old.db"
    old = sqlite3.connect(path)
    for number, script in enumerate(MIGRATIONS[:written_by], 1):
        old.executescript(f"{script}; PRAGMA user_version = {number};")
    old.execute("INSERT INTO runs (id, scenario, state, created) VALUES ('a', 'small', 'finished', 'then')")
    old.commit()
    old.close()
    for time in range(2):
        registry = Registry(path)
        assert registry.runs.one("a").state is RunState.FINISHED
        assert registry.runs.add_once("ops", f"k{time}", "s", f"b{time}", "small")[0].number == 2 + time
        assert registry.audit.broken_at() is None
        registry.close()
    new, empty = sqlite3.connect(path), sqlite3.connect(":memory:")
    migrate(empty, "empty")
    shape = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY name"
    assert new.execute(shape).fetchall() == empty.execute(shape).fetchall()
    assert version(new) == len(MIGRATIONS)
    new.close()
    empty.close()


def test_newer_and_broken_databases_are_refused(tmp_path: Path) -> None:
    newer = tmp_path / "newer.db"
    connection = sqlite3.connect(newer)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StorageError, match="upgrade specload"):
        Registry(newer)
    (tmp_path / "text.db").write_text("no database, and long enough to be seen as none" * 100)
    with pytest.raises(StorageError, match="cannot be opened"):
        Registry(tmp_path / "text.db")


def test_two_services_do_not_share_a_registry(tmp_path: Path) -> None:
    path = tmp_path / "specload.db"
    with alone(path), pytest.raises(StorageError, match="another service"), alone(path):
        pass
    with alone(path):
        assert path.with_name("specload.db.lock").stat().st_mode & 0o777 == 0o600
