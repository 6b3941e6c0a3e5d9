"""The audit log: what is read again and when, what refused logins may write, what a row may hold."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadgen.redact import one_line
from loadgen.service.refusals import MOST_SOURCES, OWN_ROWS, Refusals
from loadgen.service.registry import Audit, Audited, Registry, audit
from loadgen.service.serving import _Masked
from tests.service.conftest import MakeInside


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    made = Registry(tmp_path / "specload.db")
    yield made
    made.close()


def tampered(registry: Registry, number: int) -> None:
    other = sqlite3.connect(registry.database.path)
    other.executescript("DROP TRIGGER IF EXISTS audit_is_not_changed;")
    other.execute("UPDATE audit SET who = 'x' WHERE number = ?", (number,))
    other.commit()
    other.close()


def test_a_question_reads_so_much_and_no_row_twice(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks waits for some steps, not for the whole log; the next question goes on from there."""
    monkeypatch.setattr(audit, "STEP", 2)
    monkeypatch.setattr(audit, "MOST_STEPS", 2)
    read: list[int] = []
    seal = audit.seal
    monkeypatch.setattr(audit, "seal", lambda row: (read.append(row.get("number", 0)), seal(row))[1])
    for _ in range(7):
        registry.audit.add("ops", "x")
    read.clear()
    assert registry.audit.state() == Audited(4, None)
    assert registry.audit.state() == Audited(7, None)
    assert registry.audit.state() == Audited(7, None)
    assert read == [1, 2, 3, 4, 5, 6, 7]
    registry.audit.add("ops", "x")
    assert registry.audit.state() == Audited(8, None)


def test_what_is_changed_after_it_was_read_is_found_within_a_day(registry: Registry) -> None:
    clock = Clock()
    log = Audit(registry.database, clock)
    for _ in range(3):
        log.add("ops", "x")
    assert log.state() == Audited(3, None)
    tampered(registry, 2)
    clock.now = audit.AGAIN_S
    assert log.state() == Audited(3, None)
    clock.now += 1
    assert log.state() == Audited(1, 2)
    assert log.broken_at() == 2


def test_a_row_that_takes_the_place_of_the_last_one_is_found(registry: Registry) -> None:
    for _ in range(3):
        registry.audit.add("ops", "x")
    assert registry.audit.state().verified == 3
    other = sqlite3.connect(registry.database.path)
    other.executescript("DROP TRIGGER audit_is_not_deleted; DELETE FROM audit WHERE number = 3;")
    other.close()
    registry.audit.add("ops", "y")
    assert registry.audit.state().broken_at == 4


def test_refused_logins_have_rows_up_to_a_number_and_none_is_lost(registry: Registry) -> None:
    clock = Clock()
    refusals = Refusals(registry.audit, clock)
    for i in range(OWN_ROWS + 5):
        refusals.add(f"203.0.113.{i}", "/api/v1/me")
    refusals.more("2001:db8::1")
    refusals.more("2001:db8::2")
    assert len(registry.audit.select(limit=500)) == OWN_ROWS
    clock.now = 59.0
    refusals.tell()
    assert len(registry.audit.select(limit=500)) == OWN_ROWS
    clock.now = 60.0
    refusals.add("203.0.113.1", "/login")
    newest, told, *_ = registry.audit.select(limit=500)
    assert (newest.subject, newest.detail) == ("/login", None)
    assert (told.action, told.detail) == ("login.refused", "7 more refused within 60 s, from 6 addresses")
    refusals.more("203.0.113.1")
    refusals.tell(ending=True)
    (last,) = registry.audit.select(limit=1)
    assert (last.address, last.detail) == ("203.0.113.1", "1 more refused within 0 s, from 203.0.113.1")
    refusals.tell(ending=True)
    assert registry.audit.select(limit=1) == [last]


def test_what_cannot_be_written_now_is_counted_on(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    refusals = Refusals(registry.audit)
    refusals.more("203.0.113.1")

    def full(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(registry.audit, "add", full)
        with pytest.raises(sqlite3.OperationalError):
            refusals.tell(ending=True)
    refusals.more("203.0.113.2")
    refusals.tell(ending=True)
    assert (registry.audit.select()[0].detail or "").startswith("2 more refused")


def test_a_flood_of_addresses_takes_no_memory(registry: Registry) -> None:
    refusals = Refusals(registry.audit)
    for i in range(MOST_SOURCES + 10):
        refusals.more(f"10.0.{i // 256}.{i % 256}")
    refusals.tell(ending=True)
    assert f"{MOST_SOURCES + 10} more refused" in (registry.audit.select()[0].detail or "")
    assert f"from at least {MOST_SOURCES} addresses" in (registry.audit.select()[0].detail or "")


def test_a_row_holds_no_line_ends(registry: Registry) -> None:
    row = registry.audit.add("a\nb", "login.refused", subject="x\r\x1b[2J\u2028", detail="\u202egnp.exe")
    assert (row.who, row.subject, row.detail) == ("a\\nb", "x\\r\\x1b[2J\\u2028", "\\u202egnp.exe")
    assert registry.audit.broken_at() is None


def test_a_line_of_the_log_looks_like_no_other_entry() -> None:
    """I2: whatever a server or client sends: the second line is one of this entry."""
    said = "no\n2026-11-30 07:06:00,000 INFO specload.service: run a is finished\r\x1b[1A"
    record = logging.LogRecord("specload.service", logging.WARNING, "f", 1, "target %s", (said,), None)
    lines = _Masked(lambda text: text).format(record).split("\n")  # type: ignore[arg-type]
    assert lines[0].endswith("target no")
    assert lines[1] == "  | 2026-11-30 07:06:00,000 INFO specload.service: run a is finished��[1A"
    assert len(lines) == 2


def test_one_line_is_one_line() -> None:
    assert one_line("a\tb\u00a0ü日") == "a\\tb\u00a0ü日"
    assert one_line("\ud800\x85\x00") == "\\ud800\\x85\\x00"


async def test_what_was_counted_is_written_when_the_service_ends(inside: MakeInside, tmp_path: Path) -> None:
    async with inside(limits={"failures_per_minute": 1}) as service:
        codes = [
            (await service.client.get("/api/v1/me", headers={"Authorization": "Bearer sl_ops_x"})).status_code
            for _ in range(3)
        ]
        assert codes == [401, 429, 429]
    after = Registry(tmp_path / "specload.db")
    assert [(row.detail or "")[:14] for row in after.audit.select()] == ["2 more refused", ""]
    after.close()
