"""Canaries through the service: watched, listed, stopped, refused; and their pages."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from loadgen.experiment import CanaryResult, read_canary
from loadgen.service.compose import compose
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
        write_canary(folder, 4, alive=False)
        died = await look(service, f"/canaries/{canary_id}")
        assert "Its monitor has died: it was last seen at" in died.words
        assert "Verdict when it ended: fail" in died.words
        assert "died" in (await look(service, "/canaries")).words
        write_canary(folder, 4, active=False)
        assert "Verdict when it ended: fail" in (await look(service, f"/canaries/{canary_id}")).words
        (folder / "windows.jsonl").write_text("{\n")
        assert "cannot be read" in (await look(service, f"/canaries/{canary_id}")).words
        assert "Nothing is here" in (await look(service, "/canaries/none", 404)).words


def ids(answer: Any) -> list[str]:
    return [one["canary_id"] for one in answer.json()["canaries"]]


def named(*numbers: int) -> list[str]:
    return [f"2026113{n}T070000Z-odd-canary-aaaaaa" for n in numbers]


async def test_canaries_are_read_page_by_page_and_deleted(opened, tmp_path: Path) -> None:
    """Whole, newest first; what cannot be read is left out; one that goes on is not deleted."""
    for name in named(1, 2, 3, 4):
        write_canary(tmp_path / "runs" / name, 4, active=False)
    (tmp_path / "runs" / named(2)[0] / "canary.json").write_text("{")
    async with opened() as service:
        first = await service.ask("GET", "/api/v1/canaries?limit=2", "eye")
        assert (ids(first), first.json()["next"]) == (named(4, 3), named(3)[0])
        assert first.json()["canaries"][0]["calls"]
        rest = await service.ask("GET", f"/api/v1/canaries?limit=2&before={named(3)[0]}", "eye")
        assert (ids(rest), rest.json()["next"]) == (named(1), None)
        assert (await service.ask("GET", "/api/v1/canaries?limit=101", "eye")).status_code == 422
        write_canary(tmp_path / "runs" / named(3)[0], 4)
        gone, going = (f"/api/v1/canaries/{name}" for name in named(4, 3))
        assert (await service.ask("DELETE", gone, "eye")).status_code == 403
        assert (await service.ask("DELETE", going)).json()["detail"].startswith("the canary is being watched")
        assert (await service.ask("DELETE", gone)).status_code == 204
        assert (await service.ask("DELETE", gone)).status_code == 404
        assert ids(await service.ask("GET", "/api/v1/canaries")) == named(3, 1)
        assert not (tmp_path / "runs" / named(4)[0]).exists()
        audited = (await service.ask("GET", "/api/v1/audit")).json()["entries"]
        assert [e["status"] for e in audited if e["action"].startswith("DELETE")] == [404, 204, 409, 403]


@pytest.mark.parametrize(("keys", "left"), [({"runs": 1}, (4, 3)), ({"days": 2}, (4, 3)), ({}, (4, 3, 2, 1))])
async def test_old_canaries_go(opened, tmp_path: Path, keys: dict[str, float], left: tuple[int, ...]) -> None:
    """As runs do; one that died ended when it was last seen, one that goes on stays."""
    old = {"active": False, "ended": "2026-01-01T00:00:00.000Z"}
    for name, known in zip(
        named(1, 2, 3, 4), (old, {"window_ended": old["ended"], "alive": False}, {"active": False}, {}), strict=True
    ):
        write_canary(tmp_path / "runs" / name, 4, **known)
    async with opened(retention=keys) as service:
        service.service.retain_canaries()
        assert ids(await service.ask("GET", "/api/v1/canaries")) == named(*left)
        told = [e["subject"] for e in (await service.ask("GET", "/api/v1/audit")).json()["entries"]]
        assert sorted(one for one in told if one in named(1, 2)) == (named(1, 2) if keys else [])


async def test_lists_read_again_what_has_changed_alone(opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages look every few seconds; a canary.json may have a megabyte."""
    read: list[str] = []

    def counted(folder: Path) -> CanaryResult:
        read.append(folder.name)
        return read_canary(folder)

    monkeypatch.setattr("loadgen.service.canaries.read_canary", counted)
    first, second = (tmp_path / "runs" / name for name in named(1, 2))
    for folder in (first, second):
        write_canary(folder, 4)
    async with opened() as service:
        for path in ("/runs", "/canaries", "/runs"):
            await look(service, path)
        assert sorted(read) == named(1, 2)
        write_canary(second, 2)
        assert (await service.ask("GET", "/api/v1/hooks/argo/canaries/odd", "eye")).json()["id"] == named(2)[0]
        assert sorted(read) == named(1, 2, 2)


def test_a_canary_is_known_by_its_scenarios_name_here(tmp_path: Path) -> None:
    """Two files that call themselves the same: neither's pass is the other's."""
    text = scenario(name="same", arms=BOTH, canary={})
    keys = {arm: {"url": "http://127.0.0.1:9"} for arm in BOTH}
    for name in ("one", "two"):
        found = compose(
            text.encode(), name, tmp_path, overrides={}, arms=keys, environment="staging", caps={}, canary=True
        )
        assert found.scenario.name == name
    found = compose(text.encode(), "one", tmp_path, overrides={}, arms=keys, environment="staging", caps={})
    assert found.scenario.name == "same"


@pytest.mark.parametrize("arms", [{"baseline": "o" * 65}, {f"a{n}": "one" for n in range(17)}])
async def test_a_form_that_is_none_of_ours(opened, tmp_path: Path, arms: dict[str, str]) -> None:
    async with opened(targets=TWO) as service:
        (tmp_path / "scenarios" / "fine.yaml").write_text(scenario(name="fine", arms=BOTH, canary={}))
        form = {f"arm.{arm}": target for arm, target in arms.items()}
        checked(await send(service, "/canaries", scenario="fine", **form), 422)
        assert service.service.monitors.listed == []


async def test_scenarios_of_the_form_are_read_in_their_turn(opened, tmp_path: Path) -> None:
    """YAML takes a core: not on the loop, no more at once than may be; a list reads what it has not read. What was
    uploaded may not be watched, so it is not offered."""
    async with opened(targets=TWO) as service:
        for name, section in (("fine", {"canary": {}}), ("none", {})):
            (tmp_path / "scenarios" / f"{name}.yaml").write_text(scenario(name=name, arms=BOTH, **section))
        (tmp_path / "uploads" / "up.yaml").write_text(scenario(name="up", arms=BOTH, canary={}))
        page = await look(service, "/canaries/new")
        offered = [a.attributes["href"] for a in page.all("a") if "scenario=" in a.attributes["href"]]
        assert offered == ["/canaries/new?scenario=fine"]
        reading = service.service.reading
        taken = 0
        while not reading.locked():
            await reading.acquire()
            taken += 1
        waiting = asyncio.create_task(service.client.get("/canaries/new?scenario=fine"))
        for _ in range(3):
            await look(service, "/canaries")
        assert not waiting.done()
        for _ in range(taken):
            reading.release()
        checked(await waiting)


async def test_a_monitor_that_cannot_be_understood_is_ended(
    opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message longer than may be: its process is killed, its place is free, and it does not stay listed as going."""
    monkeypatch.setattr("loadgen.service.runner.process.LONGEST_LINE", 8)
    async with opened(targets=TWO, limits={"canaries": 1, "requests_per_minute": 100_000}) as service:
        (tmp_path / "scenarios" / "fine.yaml").write_text(scenario(name="fine", arms=BOTH, canary={}))
        assert (await service.ask("POST", "/api/v1/canaries", json={"scenario": "fine"})).status_code == 202
        await service.service.monitors.all_over()
        (one,) = (await service.ask("GET", "/api/v1/canaries")).json()["monitors"]
        assert one["state"] == "failed"
        assert service.service.monitors.refusal("fine") is None


async def test_what_does_not_end_is_cut_before_it_is_killed(opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """As runs are. A process that ends when it is told to cut is not killed."""
    told: list[str] = []
    cut = asyncio.Event()

    class Stubborn:
        def drain(self, by: str) -> None:
            told.append(by)

        def stop(self, by: str) -> None:
            told.append(by)
            if len(told) == 2:
                cut.set()

        def kill(self) -> None:
            told.append("killed")

    monkeypatch.setattr("loadgen.service.monitors.STOP_TIMEOUT_S", 0.05)
    async with opened() as service:
        monitors = service.service.monitors
        monitors._processes["x"] = Stubborn()  # type: ignore[assignment]

        async def until_cut() -> None:
            await cut.wait()
            del monitors._processes["x"]

        monitors._tasks.add(asyncio.create_task(until_cut()))
        await monitors.close()
        assert told == ["the end of the service"] * 2
