"""A canary's folder as its monitor writes it, by hand: acceptance falls below its limit from the second window on."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from loadgen.record import hold_lock

#: Of those that go on, until they end or this process does.
LOCKS: dict[Path, int] = {}
WINDOW_S = 20.0
VALUES = (0.7, 0.3, 0.25, 0.2)


def reading(value: float | None, n: int = 900) -> dict[str, Any]:
    known = value is not None
    return {
        "check": "acceptance", "source": "counters", "limit": 0.4, "fails": "below", "value": value,
        "low": value - 0.05 if value is not None else None, "high": value + 0.05 if value is not None else None,
        "result": "no_data" if not known else "pass" if value >= 0.45 else "fail", "infinite": [], "n": n,
        "unit": "drafted tokens", "reason": None if known else "nothing was drafted",
    }  # fmt: skip


def write_canary(
    folder: Path, windows: int, *, active: bool = True, alive: bool = True, **changes: Any
) -> dict[str, Any]:
    """The newest window has just ended. What was written, of canary.json. `alive`: the monitor of an active one is."""
    folder.mkdir(parents=True, exist_ok=True)
    if folder not in LOCKS:
        LOCKS[folder] = hold_lock(folder)
    if not (active and alive):
        os.close(LOCKS.pop(folder))
    now = datetime.now(UTC)
    lines, alerts = [], []
    for i in range(windows):
        found = reading(VALUES[i])
        state = ("ok", "doubtful", "doubtful", "fail")[i]
        end = (now - timedelta(seconds=WINDOW_S * (windows - 1 - i))).isoformat(timespec="milliseconds")
        lines.append({"window": i + 1, "begin": end, "end": end, "state": state, "before": state, "verdict": "fail",
                      "reasons": [], "share": 0.1, "share_reason": None,
                      "checks": [{"state": state, "failing_windows": i, **found}]})  # fmt: skip
        if i in (1, 3):
            alerts.append({"id": f"{folder.name}-{i}", "at": end, "window": i + 1, "before": "ok", "state": state,
                           "reasons": ["acceptance (counters) is in doubt"]})  # fmt: skip
    state = lines[-1]["state"] if lines else "no_data"
    verdict = "fail" if state == "fail" else "inconclusive"
    checks = [{"check": "acceptance", "source": "counters", "state": state, "failing_windows": max(windows - 1, 0),
               "reading": reading(VALUES[windows - 1]), "pooled": reading(0.5)}] if windows else []  # fmt: skip
    result = {
        "schema": 1, "kind": "canary", "canary_id": folder.name, "scenario": "odd", "arm": "candidate",
        "baseline": "baseline", "environment": "staging", "model": "m", "engine_version": "0.32", "window_s": WINDOW_S,
        "pooled_windows": 12, "dry_run": False, "active": active, "started": now.isoformat(), "state": state,
        "ended": None if active else now.isoformat(), "since": now.isoformat(), "verdict": verdict,
        "reasons": ["acceptance (counters) is in doubt"], "windows": windows,
        "window_ended": lines[-1]["end"] if lines else None, "windows_by_state": {state: windows}, "share": 0.1,
        "share_needed": 0.01, "checks": checks, "alerts": alerts, "alerts_in_all": len(alerts), "calls_by_result": {},
    }  # fmt: skip
    if state == "fail":
        call = {"event_id": "e", "result": "delivered", "tries": 1, "detail": "HTTP 204", "at": now.isoformat()}
        result |= {"calls": [{**call, "hook": "hooks.example"}, {**call, "hook": "switch"}]}
        result |= {"calls_by_result": {"delivered": 2}}
    result |= changes
    (folder / "windows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    part = folder / "canary.json.part"
    part.write_text(json.dumps(result))
    part.replace(folder / "canary.json")
    return result
