"""`specload gate --checklist` on a recorded run: the table, the contract, the exit codes, files of evidence."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from loadgen.experiment import CanaryResult
from loadgen.experiment.checklist import read_evidence
from loadgen.verdict import ITEMS

SMALL = Path(__file__).parent / "data" / "runs" / "small"
Specload = Callable[..., subprocess.CompletedProcess[str]]
NOW = datetime.now(UTC).isoformat()


def written(folder: Path, **content: Any) -> Path:
    path = folder / "evidence.json"
    path.write_text(json.dumps({"schema": 1, "id": "e-1", "at": NOW} | content))
    return path


def test_the_table_says_what_is_missing_and_ends_with_98(specload: Specload) -> None:
    ended = specload("gate", SMALL, "--checklist")
    assert ended.returncode == 98
    assert "Go-live checklist: not shown" in ended.stdout
    assert "kill switch proven by a drill" in ended.stdout
    assert "experiment: drill" in ended.stdout


def test_json_follows_its_schema_and_has_every_item(specload: Specload) -> None:
    found = json.loads(specload("gate", SMALL, "--checklist", "--json").stdout)
    assert [item["name"] for item in found["items"]] == [rule.name for rule in ITEMS]
    jsonschema.validate(found, json.loads(specload("schema", "checklist").stdout))
    assert specload("gate", SMALL, "--checklist", "--format", "json").returncode == 98


def test_markdown_is_for_a_pull_request(specload: Specload) -> None:
    lines = specload("gate", SMALL, "--checklist", "--format", "markdown").stdout.splitlines()
    assert lines[0] == "## Go-live checklist: ❔ not shown"
    assert sum(line.startswith("| ") for line in lines) == len(ITEMS) + 1


def test_files_of_evidence_count(specload: Specload, tmp_path: Path) -> None:
    broken = written(tmp_path, kind="audit", rows=9, broken_at=4, more="is let in")
    ended = specload("gate", SMALL, broken, "--checklist", "--json")
    assert ended.returncode == 99
    access = next(item for item in json.loads(ended.stdout)["items"] if item["name"] == "access")
    assert (access["state"], access["evidence"]) == ("fail", ["e-1"])
    assert access["why"] == "row 4 of the audit log is not what was written"


def test_the_folder_of_a_canary_counts(specload: Specload, tmp_path: Path) -> None:
    """As `specload canary` leaves it: the alert is about the checks that failed."""
    reasons = ["acceptance (counters) failed in 3 windows in a row: 0.2", "rollback (probes) failed in 3 windows"]
    alert = {"id": "c-3", "at": NOW, "window": 3, "before": "doubtful", "state": "fail", "reasons": reasons}
    result = CanaryResult(
        canary_id="c", scenario="s", arm="candidate", baseline="baseline", environment="staging", window_s=60,
        pooled_windows=12, dry_run=False, started=NOW, verdict="pass", reasons=[], share=0.1, alerts=[alert],
        model="rehearsal-70b",
    )  # fmt: skip
    (tmp_path / "canary.json").write_text(result.model_dump_json(by_alias=True))
    found = json.loads(specload("gate", SMALL, tmp_path, "--checklist", "--json").stdout)
    item = next(item for item in found["items"] if item["name"] == "canary")
    assert (item["state"], item["evidence"]) == ("pass", ["c"])
    assert item["numbers"] == {"share": 0.1, "alerts_fired": 2.0}
    other = result.model_copy(update={"model": "org/another"})
    (tmp_path / "canary.json").write_text(other.model_dump_json(by_alias=True))
    found = json.loads(specload("gate", SMALL, tmp_path, "--checklist", "--json").stdout)
    item = next(item for item in found["items"] if item["name"] == "canary")
    assert (item["state"], "c is of another model or engine" in item["why"]) == ("not_shown", True)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"kind": "audit"', "not JSON"),
        ('{"kind": "wish", "id": "a", "at": "now"}', "no evidence for a checklist (kind canary or audit)"),
        ("[]", "no evidence for a checklist"),
        ('{"kind": "audit", "id": "a", "rows": 1, "at": "yesterday"}', "at: 'yesterday' is no time as"),
    ],
)
def test_a_file_that_is_no_evidence_is_named(specload: Specload, tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "no.json"
    path.write_text(content)
    ended = specload("gate", path, "--checklist")
    assert ended.returncode == 2
    assert f"{path}: " in ended.stderr
    assert said in ended.stderr


def test_the_time_of_a_file_is_told_in_one_zone(tmp_path: Path) -> None:
    """The newest is found by its text."""
    file = written(tmp_path, kind="audit", rows=1, at="2026-11-30T01:00:00+02:00")
    assert read_evidence(file).at == "2026-11-29T23:00:00+00:00"


def test_a_run_that_is_not_there_is_a_usage_error(specload: Specload, tmp_path: Path) -> None:
    ended = specload("gate", tmp_path / "nowhere", "--checklist")
    assert ended.returncode == 2
    assert "no such directory" in ended.stderr


def test_the_schema_of_what_experiments_find(specload: Specload) -> None:
    schema = json.loads(specload("schema", "found").stdout)
    models = [schema["$defs"][one["$ref"].removeprefix("#/$defs/")] for one in schema["oneOf"]]
    assert sorted(model["properties"]["kind"]["const"] for model in models) == [
        "access", "anomalies", "drill", "quality"
    ]  # fmt: skip
