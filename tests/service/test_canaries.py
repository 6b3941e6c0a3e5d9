"""Canaries through the service: watched, listed, stopped, refused; and their pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loadgen.experiment import read_canary
from loadgen.service.pages.canaries import MOST_EVERY_S
from tests.service.canary_files import write_canary
from tests.service.conftest import Served, scenario
from tests.service.pages.test_pages import HOSTILE, checked, look, opened, send

__all__ = ["opened"]
BOTH = {"baseline": {"target": "one"}, "candidate": {"target": "two"}}
OFF = dict.fromkeys(
    ("acceptance_ratio", "rollback", "speedup", "tpot_p50_ratio", "tpot_p95_ratio", "ttft_p95_ratio", "error_share")
)
PROBED: dict[str, Any] = {
    "window_s": 2.0, "counters": False, "probes": {"requests_per_s": 40.0}, "grace_windows": 0,
    "least_draft_tokens": 20, "least_requests": 5, "limits": {"acceptance": 0.05, **OFF}, "on_fail": "switch",
    "switch": {"off": {"kind": "adapter"}},
}  # fmt: skip
TWO = {name: {"url": "http://127.0.0.1:9", "environment": "disposable"} for name in ("one", "two")}


def test_a_canary_is_watched_and_stopped(served: Served) -> None:
    """Who began and ended it is in the audit log; its metrics stand on the service's page, and are 0 at its end."""
    served.put("watched", scenario(name="watched", arms=BOTH, canary=PROBED))
    asked = {"scenario": "watched", "dry_run": True}
    answer = served.ask("POST", "/api/v1/canaries", json=asked)
    assert answer.status_code == 202, answer.text
    canary_id = answer.json()["id"]
    assert answer.headers["location"] == f"/api/v1/canaries/{canary_id}"
    again = served.ask("POST", "/api/v1/canaries", json=asked)
    assert (again.status_code, again.json()["detail"]) == (409, f"this canary is being watched already: {canary_id}")

    def window() -> dict[str, Any] | None:
        found = served.ask("GET", f"/api/v1/canaries/{canary_id}", "eye")
        return found.json() if found.status_code == 200 and found.json()["windows"] else None

    found = served.until(window, "a window has ended")
    assert (found["active"], found["dry_run"], found["arm"], found["scenario"]) == (True, True, "candidate", "watched")
    assert [check["check"] for check in found["checks"]] == ["acceptance"]
    page = served.ask("GET", "/metrics").text
    assert any(
        line.startswith("specload_canary_active{") and 'canary="watched"' in line and line.endswith(" 1.0")
        for line in page.splitlines()
    )
    assert served.ask("POST", f"/api/v1/canaries/{canary_id}/stop", "eye").status_code == 403
    stopped = served.ask("POST", f"/api/v1/canaries/{canary_id}/stop")
    assert (stopped.status_code, stopped.json()["state"]) == (200, "stopping")

    def ended() -> bool:
        (one,) = served.ask("GET", "/api/v1/canaries", "eye").json()["monitors"]
        return bool(one["state"] == "ended")

    served.until(ended, "its monitor has ended")
    result = read_canary(served.folder / "runs" / canary_id)
    assert (result.active, result.canary_id) == (False, canary_id)
    assert served.ask("POST", f"/api/v1/canaries/{canary_id}/stop").status_code == 409
    page = served.ask("GET", "/metrics").text
    assert not [li for li in page.splitlines() if li.startswith("specload_canary_active{") and li.endswith(" 1.0")]
    entries = served.ask("GET", "/api/v1/audit").json()["entries"]
    mine = [(e["who"], e["action"], e["status"]) for e in entries if e["subject"] == canary_id]
    stop = "POST /api/v1/canaries/{canary_id}/stop"
    assert mine == [("ops", stop, 409), ("ops", stop, 200), ("eye", stop, 403), ("ops", "POST /api/v1/canaries", 202)]
    detail = next(e["detail"] for e in entries if e["subject"] == canary_id and e["status"] == 202)
    assert detail == "watched on baseline=one, candidate=two, dry run"


async def test_what_cannot_be_watched_is_refused(opened, tmp_path: Path) -> None:
    """I8: webhooks and kill switches go to hosts of the configuration alone; nothing is begun."""
    hooks = [{"url": "http://169.254.169.254/latest"}, {"url": "https://hooks.example/x"}]
    cases: dict[str, tuple[dict[str, Any], str]] = {
        "none": ({}, "the scenario has no section canary"),
        "hooks": ({"canary": {"webhooks": hooks}}, "169.254.169.254 is not among outgoing.hosts"),
        "switch": (
            {"canary": {"on_fail": "switch", "switch": {"off": {"kind": "http", "url": "http://10.0.0.1/off"}}}},
            "canary.switch.off.url: 10.0.0.1 is not among outgoing.hosts",
        ),
        "private": ({"canary": {"webhooks": [{"url": "http://10.1.2.3/"}]}}, "10.1.2.3"),
    }
    async with opened(targets=TWO, outgoing={"networks": ["127.0.0.0/8"], "hosts": ["10.1.2.3"]}) as service:
        for name, (changes, said) in cases.items():
            (tmp_path / "scenarios" / f"{name}.yaml").write_text(scenario(name=name, arms=BOTH, **changes))
            answer = await service.ask("POST", "/api/v1/canaries", json={"scenario": name})
            assert answer.status_code == 422, name
            assert said in " ".join(answer.json()["problems"]), answer.text
        (tmp_path / "scenarios" / "fine.yaml").write_text(scenario(name="fine", arms=BOTH, canary={}))
        short = await service.ask("POST", "/api/v1/canaries", json={"scenario": "fine", "for_s": 10})
        assert short.json()["detail"] == "for_s: 10 s hold no whole window of 300 s"
        uploaded = await service.ask("PUT", "/api/v1/scenarios/up", content=scenario(arms=BOTH, canary={}))
        assert uploaded.status_code == 422
        assert (await service.ask("POST", "/api/v1/canaries/nothing/stop")).status_code == 404
        assert service.service.monitors.listed == []


async def test_a_monitor_that_cannot_begin_says_why(opened, tmp_path: Path) -> None:
    """Nobody listens at the targets: the form leads to a page that says so, and keeps itself fresh until it does."""
    async with opened(targets=TWO, limits={"canaries": 1, "requests_per_minute": 100_000}) as service:
        for name in ("fine", "other"):
            (tmp_path / "scenarios" / f"{name}.yaml").write_text(scenario(name=name, arms=BOTH, canary={}))
        form = await look(service, "/canaries/new?scenario=fine")
        assert [s.attributes["name"] for s in form.all("select")] == ["arm.baseline", "arm.candidate"]
        wrong = checked(await send(service, "/canaries", scenario="fine", minutes="x"), 422)
        assert "a number of minutes" in wrong.words
        answer = await send(service, "/canaries", scenario="fine", dry_run="yes")
        assert answer.status_code == 303
        path = answer.headers["location"]
        full = checked(await send(service, "/canaries", scenario="other"), 422)
        assert "as many canaries are being watched as may be (limits.canaries: 1)" in full.words
        (now,) = [e for e in (await look(service, path)).all("div") if e.attributes.get("id") == "now"]
        assert now.attributes["data-every"] == "2.0"
        await service.service.monitors.all_over()
        page = await look(service, path)
        assert "It could not be watched: baseline: it cannot be reached" in page.words
        assert "failed" in (await look(service, "/canaries")).words
        assert checked(await send(service, f"{path}/stop"), 409)


@pytest.mark.parametrize("who", ["eye", "ops"])
async def test_a_canarys_page(opened, tmp_path: Path, who: str) -> None:
    """Verdict of now, windows, share of the traffic, hooks; names are text. One that is silent shows nothing of now."""
    canary_id = "20261130T070600Z-odd-canary-1a2b3c"
    folder = tmp_path / "runs" / canary_id
    async with opened(who) as service:
        assert "No canary has been watched yet." in (await look(service, "/canaries")).words
        write_canary(folder, 4, scenario=HOSTILE, notes=[HOSTILE], reasons=[HOSTILE])
        page = await look(service, f"/canaries/{canary_id}")
        for words in (
            "Verdict now: fail", "4 of 20 s", "4 fail", "10 %, at least 1 % needed", "real; 2 delivered",
            "candidate beside baseline", "0.2 [15.0 %, 25.0 %]",
        ):  # fmt: skip
            assert words.replace("0.2 [", "20.0 % [") in page.words.replace("\xa0", " "), words
        captions = [c.words for c in page.all("caption")]
        assert captions[:3] == [
            "Checks, with 95 % intervals",
            "Webhooks and kill switch, newest first",
            "Changes of the state, newest first",
        ]
        assert [f.attributes["id"] for f in page.all("figure")] == ["f-windows"]
        assert not page.all("img")
        listed = await look(service, "/canaries")
        (now,) = [e for e in listed.all("div") if e.attributes.get("id") == "now"]
        assert float(now.attributes["data-every"]) == MOST_EVERY_S
        assert HOSTILE in listed.all("tbody")[0].all("a")[0].text
        runs = await look(service, "/runs")
        assert f"/canaries/{canary_id}" in [a.attributes["href"] for a in runs.all("a")]
        assert f"/canaries/{canary_id}" not in (await service.client.get("/runs?state=failed")).text
        write_canary(folder, 0)
        assert "Verdict now: none yet" in (await look(service, f"/canaries/{canary_id}")).words
        old = {"window_ended": "2026-11-29T07:00:00.000Z"}
        write_canary(folder, 1, **old)
        assert "it says nothing of now" in (await look(service, f"/canaries/{canary_id}")).words
        write_canary(folder, 4, active=False)
        assert "Verdict when it ended: fail" in (await look(service, f"/canaries/{canary_id}")).words
        (folder / "windows.jsonl").write_text("{\n")
        assert "cannot be read" in (await look(service, f"/canaries/{canary_id}")).words
        assert "Nothing is here" in (await look(service, "/canaries/none", 404)).words
