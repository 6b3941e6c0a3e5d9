"""A planted secret is found nowhere but where it belongs."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import psutil
import pytest

from server_adapters.rehearsal.config import RehearsalConfig
from server_adapters.rehearsal.serve import rehearsal_server
from tests.service.conftest import TOKENS, begin, end, plain_config, scenario
from tests.service.test_runs import LONG

KEY, HEADER = "planted-key-3f9a1c", "planted-header-77b2"


def holding(folder: Path, *secrets: str) -> list[str]:
    """Files that hold one of them."""
    return [
        str(file.relative_to(folder))
        for file in folder.rglob("*")
        if file.is_file() and any(secret.encode() in file.read_bytes() for secret in secrets)
    ]


async def test_planted_secrets_are_found_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I1, I2, I4, I9: not in logs, database, records, reports, metrics, answers, errors, or command lines; neither the
    keys of targets nor tokens nor prompts. And what a run keeps is read by nobody else."""
    monkeypatch.setenv("PLANTED_KEY", KEY)
    config = RehearsalConfig(spec="draft:k=4", model="8b", speed=4.0, api_key_env="PLANTED_KEY")
    async with rehearsal_server(config) as url:
        keys = {"url": url, "environment": "disposable", "headers": {"X-Planted": HEADER}}
        refused = {"url": f"{url}/{KEY}", "environment": "disposable", "api_key": {"file": str(tmp_path / "key")}}
        (tmp_path / "key").write_text("planted-wrong-1234\n")
        targets = {"one": {**keys, "api_key": {"env": "PLANTED_KEY"}}, "wrong": refused}
        keys = plain_config(tmp_path, targets=targets)
        (tmp_path / "scenarios" / "long.yaml").write_text(scenario(**LONG))
        served = begin(tmp_path, keys, {"PLANTED_KEY": KEY})
        answers = []
        try:
            run_id = served.start("long")
            served.drives(run_id)
            every = [p.cmdline() for p in psutil.Process(served.process.pid).children(recursive=True)]
            served.ask("POST", f"/api/v1/runs/{run_id}/stop")
            assert served.over(run_id)["state"] == "interrupted"
            failed = served.over(served.start("small", arms={"base": "wrong"}))
            assert failed["exit_code"] == 3
            paths = [
                f"/api/v1/runs/{run_id}/{what}" for what in ("summary", "verdict", "live", "events", "report.html")
            ]
            paths += ["/metrics", "/sd", "/api/v1/targets", "/api/v1/runs", "/api/v1/audit", "/api/v1/scenarios"]
            answers = [served.ask("GET", path).text for path in paths]
            answers += [served.ask("POST", f"/api/v1/targets/{t}/check").text for t in targets]
            answers.append(served.ask("POST", "/api/v1/runs", json={"scenario": KEY, "arms": {KEY: HEADER}}).text)
        finally:
            assert end(served) == 0
    secrets = (KEY, HEADER, "planted-wrong-1234", *TOKENS.values())
    assert not [text[:300] for text in answers if any(secret in text for secret in secrets)]
    assert not any(secret in json.dumps(every) for secret in secrets)
    assert sorted(holding(tmp_path, *secrets)) == ["key", "service.yaml"]
    records = [path for folder in ("runs", "uploads") for path in (tmp_path / folder, *(tmp_path / folder).rglob("*"))]
    assert len(records) > 10
    assert [str(path) for path in records if path.stat().st_mode & 0o077] == []
    rows = list(sqlite3.connect(tmp_path / "specload.db").iterdump())
    assert not any(secret in row for row in rows for secret in secrets)
