"""Canaries whose monitor or whose service dies; and what their routes never show."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psutil

from loadgen.experiment import CanaryResult, read_canary
from tests.service.conftest import Served, begin, end, plain_config, scenario
from tests.service.test_canaries import BOTH, PROBED
from tests.service.test_restart import children
from tests.service.test_secrets import holding

KEY, HEADER, HOOK = "planted-key-90c1e7", "planted-header-41d8", "planted-hook-7ab2"
SECRETS = (KEY, HEADER, HOOK)


def watched(served: Served, *, windows: int = 1) -> tuple[str, psutil.Process]:
    """Begun, and so many windows have ended; its process."""
    answer = served.ask("POST", "/api/v1/canaries", json={"scenario": "watched"})
    assert answer.status_code == 202, answer.text
    canary_id: str = answer.json()["id"]

    def seen() -> bool:
        found = served.ask("GET", f"/api/v1/canaries/{canary_id}")
        return found.status_code == 200 and found.json()["windows"] >= windows

    served.until(seen, "a window has ended")
    (process,) = children(served)
    return canary_id, process


def told(served: Served, canary_id: str) -> dict[str, Any]:
    found: dict[str, Any] = served.ask("GET", f"/api/v1/canaries/{canary_id}", "eye").json()
    return found


def test_canaries_that_lose_their_monitor_or_their_service(tmp_path: Path, engines: dict[str, str]) -> None:
    """I1, I2, I4, I9: kill -9 of the service ends the monitor with all it has seen, kill -9 of the monitor leaves a
    canary that nobody watches, SIGTERM ends it in order; no planted secret is in an answer, a log or a record."""
    (tmp_path / "key").write_text(KEY)
    own = {"environment": "disposable", "headers": {"X-Planted": HEADER}, "api_key": {"file": str(tmp_path / "key")}}
    config = plain_config(tmp_path, targets={name: {"url": url, **own} for name, url in engines.items()},
                          outgoing={"networks": ["127.0.0.0/8"], "hosts": ["127.0.0.1"]})  # fmt: skip
    canary = {
        **PROBED,
        "on_fail": "nothing",
        "switch": None,
        "webhooks": [{"url": f"http://127.0.0.1:9/{HOOK}", "tries": 3}],
    }
    text = scenario(name="called-otherwise", arms=BOTH, canary=canary)
    served = begin(tmp_path, config)
    served.put("watched", text)
    try:
        first, process = watched(served)
    finally:
        served.kill()
    psutil.wait_procs([process], timeout=60)
    assert not process.is_running()
    left = read_canary(tmp_path / "runs" / first)
    assert (left.active, left.scenario) == (False, "watched")
    assert left.ended is not None
    assert left.windows >= 1
    served, answers = begin(tmp_path, config), []
    try:
        assert told(served, first)["active"] is False
        second, process = watched(served)
        os.kill(process.pid, 9)
        served.until(lambda: not told(served, second)["active"], "it is not said to be watched any more")
        assert (told(served, second)["ended"], read_canary(tmp_path / "runs" / second).active) == (None, True)
        argo = served.ask("GET", "/api/v1/hooks/argo/canaries/watched").json()
        assert (argo["id"], argo["verdict"]) == (second, "inconclusive")

        def failed() -> bool:
            (one,) = served.ask("GET", "/api/v1/canaries").json()["monitors"]
            return bool(one["state"] == "failed" and "SIGKILL" in one["reason"])

        served.until(failed, "its monitor is listed as failed")
        third, _ = watched(served)
        calls = served.until(lambda: told(served, third)["calls_by_result"], "a webhook was tried")
        assert calls == {"failed": 1}, calls
        paths = [f"/api/v1/canaries/{one}" for one in (first, second, third)]
        paths += ["/api/v1/canaries", "/metrics", "/api/v1/audit", "/api/v1/scenarios/watched"]
        answers = [served.ask("GET", path, "ops" if "audit" in path else "eye").text for path in paths]
    finally:
        assert end(served) == 0
    result: CanaryResult = read_canary(tmp_path / "runs" / third)
    assert result.active is False
    assert result.ended is not None
    assert not [text[:300] for text in answers if any(secret in text for secret in SECRETS)]
    assert sorted(holding(tmp_path, *SECRETS)) == ["key", "scenarios/watched.yaml", "service.yaml"]
