"""The audit log as evidence: `specload serve --audit-evidence`, and what the go-live checklist makes of it."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from loadgen.experiment.checklist import read_evidence
from loadgen.service.registry import Registry
from loadgen.service.registry.schema import MIGRATIONS
from loadgen.verdict import AuditEvidence
from tests.service.conftest import plain_config

SMALL = Path(__file__).resolve().parents[1] / "data" / "runs" / "small"
Specload = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    """Of a service that runs: open, and with rows that no other file holds yet."""
    (tmp_path / "service.yaml").write_text(yaml.safe_dump(plain_config(tmp_path)))
    found = Registry(tmp_path / "specload.db")
    yield found
    found.close()


def evidence(specload: Specload, folder: Path) -> subprocess.CompletedProcess[str]:
    return specload("serve", "--audit-evidence", "audit.json", cwd=folder)


def test_the_log_of_a_running_service_is_evidence(registry: Registry, specload: Specload, tmp_path: Path) -> None:
    for i in range(1500):
        registry.audit.add("ops", "POST /api/v1/runs", subject=str(i))
    done = evidence(specload, tmp_path)
    assert (done.returncode, done.stdout) == (0, "audit.json: 1500 rows in an unbroken chain\n")
    found, head = read_evidence(tmp_path / "audit.json"), registry.audit.head()
    assert isinstance(found, AuditEvidence)
    assert (found.id, found.rows, found.broken_at, found.said) == (f"audit-{head[:12]}", 1500, None, {"head": head})
    registry.audit.add("ops", "POST /api/v1/runs")  # nothing is held
    assert evidence(specload, tmp_path).returncode == 0
    assert read_evidence(tmp_path / "audit.json").id != found.id


def test_a_row_that_was_changed_fails_the_checklist(registry: Registry, specload: Specload, tmp_path: Path) -> None:
    for _ in range(3):
        registry.audit.add("ops", "POST /api/v1/runs")
    registry.close()
    with sqlite3.connect(tmp_path / "specload.db") as other:
        other.executescript("DROP TRIGGER audit_is_not_changed; UPDATE audit SET who = 'eye' WHERE number = 2;")
    other.close()
    done = evidence(specload, tmp_path)
    assert (done.returncode, "row 2 of the audit log is not what was written" in done.stderr) == (99, True)
    gated = specload("gate", SMALL, tmp_path / "audit.json", "--checklist", "--json")
    access = next(item for item in json.loads(gated.stdout)["items"] if item["name"] == "access")
    assert (gated.returncode, access["state"]) == (99, "fail")
    assert access["why"] == "row 2 of the audit log is not what was written"


def test_what_cannot_be_read_is_no_evidence(specload: Specload, tmp_path: Path) -> None:
    """Nothing is made: neither a registry nor a file."""
    (tmp_path / "service.yaml").write_text(yaml.safe_dump(plain_config(tmp_path)))
    database = tmp_path / "specload.db"
    assert "cannot be opened" in evidence(specload, tmp_path).stderr
    assert not database.exists()
    Registry(database).close()
    assert "the audit log has no rows" in evidence(specload, tmp_path).stderr
    with sqlite3.connect(database) as other:
        other.execute(f"PRAGMA user_version = {len(MIGRATIONS) - 1}")
    other.close()
    done = evidence(specload, tmp_path)
    assert (done.returncode, "another version of specload" in done.stderr) == (2, True)
    with sqlite3.connect(database) as again:
        assert again.execute("PRAGMA user_version").fetchone()[0] == len(MIGRATIONS) - 1
    again.close()
    assert not (tmp_path / "audit.json").exists()
