"""Every page, empty and full, for everybody who may look: well-formed, in our own words, names as text."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from loadgen.service.pages.assets import all_assets
from loadgen.service.registry import RunState
from tests.service.conftest import TOKENS, InProcess, MakeInside, scenario
from tests.service.pages.markup import Element, read

RUN = Path(__file__).resolve().parents[2] / "data" / "runs" / "small"
HOSTILE = "</td><script>window.pwned=1</script><img src=x onerror=window.pwned=1>\"'&amp;"
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
PAGES = (
    "/runs", "/runs/new", "/runs/new?scenario=small", "/compare", "/targets", "/audit", "/canaries", "/canaries/new",
    "/canaries/new?scenario=small",
)  # fmt: skip
FORM = {"Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-origin", **BROWSER}


@pytest.fixture
def opened(inside: MakeInside, tmp_path: Path):
    """async with opened(who, runs=n, **changes) as service: logged in, with n recorded runs in the folder."""

    @asynccontextmanager
    async def run(who: str | None = "ops", runs: int = 0, **changes: object) -> AsyncIterator[InProcess]:
        for number in range(runs):
            shutil.copytree(RUN, tmp_path / "runs" / f"small-{number}")
        async with inside(**changes) as service:
            if who is not None:
                await service.client.post("/login", data={"token": TOKENS[who]})
            service.client.headers.update(BROWSER)
            yield service

    return run


async def look(service: InProcess, path: str, status: int = 200) -> Element:
    """A page by a browser. Nothing is wrong with it."""
    return checked(await service.client.get(path), status)


def checked(answer: httpx.Response, status: int = 200) -> Element:
    assert answer.status_code == status, answer.text[:2000]
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert answer.headers["cache-control"] == "no-store"
    document, problems = read(answer.text)
    assert problems == [], answer.url
    return document


async def send(service: InProcess, path: str, **form: str) -> httpx.Response:
    csrf = service.client.cookies["specload_csrf"]
    return await service.client.post(path, data={"csrf_token": csrf, **form}, headers=FORM)


def links(document: Element) -> list[str]:
    return [a.attributes["href"] for a in document.all("a")]


def hidden(document: Element) -> dict[str, str]:
    """Hidden fields of the page's main form."""
    inputs = document.all("main")[0].all("input")
    return {i.attributes["name"]: i.attributes["value"] for i in inputs if i.attributes.get("type") == "hidden"}


async def test_the_way_in(opened) -> None:
    """Whoever is not known is led to the form and back; a wrong token is told so; machines still get problems."""
    async with opened(None) as service:
        client = service.client
        answer = await client.get("/runs?state=failed")
        assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=%2Fruns%3Fstate%3Dfailed")
        assert (await client.post("/runs/x/stop")).headers["location"] == "/login"
        form = await look(service, "/login?next=/runs%3Fstate%3Dfailed")
        assert hidden(form) == {"next": "/runs?state=failed"}
        wrong = await client.post("/login", data={"token": "sl_ops_no", "next": "/runs"}, headers=FORM)
        assert "not known" in checked(wrong, 401).words
        fine = await client.post("/login", data={"token": TOKENS["ops"], "next": "/runs?state=failed"}, headers=FORM)
        assert (fine.status_code, fine.headers["location"]) == (303, "/runs?state=failed")
        assert (await client.get("/")).headers["location"] == "/runs"
        assert "ops operator" in (await look(service, "/runs")).words
        assert (await send(service, "/logout")).headers["location"] == "/login"
        assert (await client.get("/runs")).status_code == 303
        assert (await client.get("/api/v1/runs")).headers["content-type"] == "application/problem+json"
        assert (await client.get("/runs", headers={"Accept": "*/*"})).status_code == 401


@pytest.mark.parametrize("who", ["eye", "ops"])
async def test_empty_pages_say_that_they_are(opened, who: str) -> None:
    async with opened(who) as service:
        operator = who == "ops"
        runs = await look(service, "/runs")
        assert "Nobody has asked for a run yet." in runs.words
        assert ("/runs/new" in links(runs), "/audit" in links(runs)) == (operator, operator)
        assert "No run is like that." in (await look(service, "/runs?state=failed&target=one")).words
        assert "No run is like that." in (await look(service, "/runs?state=nonsense")).words
        assert "There are no ended runs with records yet." in (await look(service, "/compare")).words
        assert "nobody has looked yet" in (await look(service, "/targets")).words
        for path in ("/runs/new", "/audit"):
            assert ("Not allowed" in (await look(service, path, 200 if operator else 403)).words) != operator
        here = [a.words for a in runs.all("nav")[0].all("a") if "aria-current" in a.attributes]
        assert here == ["Runs"]


async def test_problems_are_pages_in_our_own_words(opened) -> None:
    async with opened() as service:
        for path, status, word in (
            ("/nothing", 404, "Nothing is here"), ("/runs/nothing", 404, "There is no run nothing."),
            ("/runs/new?scenario=none", 404, "Nothing is here"), ("/runs?before=x", 422, "query.before"),
            ("/assets/0/pages.css", 404, None),
        ):  # fmt: skip
            answer = await service.client.get(path)
            if word is None:
                assert answer.headers["content-type"] == "application/problem+json"
            else:
                assert word in checked(answer, status).words
        wrong = await service.client.post("/runs/new", data={"csrf_token": "x"}, headers=FORM)
        assert "The form was too old" in checked(wrong, 403).words
        large = await service.client.post("/runs/new", content=b"x" * 2_000_000, headers=FORM)
        assert "Too much at once" in checked(large, 413).words
        rebound = await service.client.get("/runs", headers={"Host": "evil.example", **BROWSER})
        assert "Wrong address" in checked(rebound, 421).words


async def test_a_run_is_started_in_three_steps_and_only_once(opened, tmp_path: Path) -> None:
    """The second step shows what it will ask for; nothing is queued before the third, nor if it was tampered with."""
    async with opened() as service:
        assert "/runs/new?scenario=small" in links(await look(service, "/runs/new"))
        form = await look(service, "/runs/new?scenario=small")
        names = [i.attributes.get("name") for i in form.all("input") + form.all("select") + form.all("textarea")]
        assert {"arm.base", "minutes", "set.load.0.concurrency", "set.load.0.cases", "more"} <= set(names)
        wrong = await send(
            service, "/runs/new", scenario="small", minutes="-1", more="what\nseed=3", **{"arm.base": ""}
        )
        words = checked(wrong, 422).words
        assert "time budget: a number of minutes" in words
        assert "further changes, line 1: write key=value" in words
        unknown = await send(service, "/runs/new", scenario="small", more="name=x", **{"arm.base": "one"})
        assert "name cannot be overridden" in checked(unknown, 422).words
        plan = checked(
            await send(
                service, "/runs/new", scenario="small", more="seed=3", **{"arm.base": "one", "set.load.0.cases": "8"}
            )
        )
        assert "8 requests, at most 48 output tokens" in plan.words
        assert "load.0.cases 8 instead of the scenario's" in plan.words
        assert "Cost: not known" in plan.words
        assert not service.service.registry.runs.known()
        asked = hidden(plan)
        for broken in ({"arms": "[1]"}, {"overrides": "{"}, {"time_budget_s": '"x"'}):
            answer = await service.client.post("/runs", data={**asked, **broken}, headers=FORM)
            assert "begin again at Start a run" in checked(answer, 422).words
        nowhere = await service.client.post("/runs", data={**asked, "arms": '{"base": "two"}'}, headers=FORM)
        assert "there is no target 'two'" in checked(nowhere, 422).words
        assert not service.service.registry.runs.known()
        first = await service.client.post("/runs", data=asked, headers=FORM)
        again = await service.client.post("/runs", data=asked, headers=FORM)
        assert first.status_code == again.status_code == 303
        assert first.headers["location"] == again.headers["location"]
        (run_id,) = service.service.registry.runs.known()
        row = service.service.registry.runs.one(run_id)
        assert (row.arms, row.overrides, row.started_by) == ({"base": "one"}, {"load.0.cases": 8, "seed": 3}, "ops")
        same = await look(service, f"/runs/new?scenario=small&again={run_id}")
        values = {i.attributes.get("name"): i.attributes.get("value") for i in same.all("input")}
        assert (values["set.load.0.cases"], same.all("textarea")[0].words) == ("8", "seed=3")
        (tmp_path / "scenarios" / "small.yaml").write_text(scenario(description="another"))
        changed = await service.client.post("/runs", data={**asked, "once": "x"}, headers=FORM)
        assert "the scenario was changed" in checked(changed).words
        assert service.service.registry.runs.known() == {run_id}


async def test_runs_in_every_state_have_their_page(opened, tmp_path: Path) -> None:
    """Queued, refused before any load, interrupted, invalid, deleted, records gone from the disk."""
    async with opened(runs=1) as service:
        runs = service.service.registry.runs
        shutil.rmtree(tmp_path / "runs" / "small-0")
        page = await look(service, "/runs/small-0")
        assert "removed outside of the service" in page.words
        assert not page.all("iframe")
        runs.add("refused", "small", state=RunState.FAILED, reason="arms.base: first\nsecond", arms={"base": "one"})
        assert "It has no records" in (await look(service, "/runs/refused")).words
        runs.add("left", "small", state=RunState.INTERRUPTED, reason="the service ended while it ran",
                 path=str(RUN), validity="invalid", arms={"base": "one"})  # fmt: skip
        left = await look(service, "/runs/left")
        assert "the service ended while it ran" in left.words
        assert "its numbers are not the server's" in left.words
        (frame,) = left.all("iframe")
        assert frame.attributes["src"] == "/api/v1/runs/left/report.html"
        assert frame.attributes["sandbox"] == "allow-scripts allow-downloads"
        listed = await look(service, "/runs")
        assert {"refused", "left", "small-0"} <= {e.words.split()[-1] for e in listed.all("th") if e.all("a")}
        gone = await send(service, "/runs/refused/delete")
        assert (gone.status_code, gone.headers["location"]) == (303, "/runs/refused")
        assert "Its records were deleted" in (await look(service, "/runs/refused")).words
        assert "Not now" in checked(await send(service, "/runs/refused/stop"), 409).words
        assert "refused" in (await look(service, "/runs?state=deleted")).words
        live = await look(service, "/runs/left/live")
        assert [f.attributes["id"] for f in live.all("figure")] == [
            "c-load", "c-flight", "c-throughput", "c-ttft", "c-tpot", "c-acceptance", "c-rollback"
        ]  # fmt: skip
        assert not [f for f in live.all("form") if f.attributes["action"].endswith("/stop")]


async def test_a_report_in_its_frame_and_two_runs_side_by_side(opened) -> None:
    """A report may stand in our frame only, sandboxed. What specload compare says is drawn by the figures and
    tables of the report."""
    async with opened(runs=2) as service:
        answer = await service.client.get("/api/v1/runs/small-0/report.html")
        assert answer.status_code == 200
        policy = answer.headers["content-security-policy"]
        assert "frame-ancestors 'self'" in policy
        assert "sandbox allow-scripts" in policy
        assert "allow-same-origin" not in policy
        assert "frame-ancestors 'none'" in (await service.client.get("/runs")).headers["content-security-policy"]
        chosen = await look(service, "/compare")
        assert len(chosen.all("option")) == 6
        page = await look(service, "/compare?run=small-1&run=small-0")
        assert "paired by case" in page.words
        assert "Verdict:" in page.words
        titles = [caption.words for caption in page.all("caption")]
        assert "Each load beside the baseline" in titles
        assert len(page.all("figure")) == 2
        assert any(s.attributes.get("id") == "data" for s in page.all("script"))
        assert "choose two runs, not 1" in (await look(service, "/compare?run=small-0", 422)).words
        assert "there is no run x" in (await look(service, "/compare?first=small-0&second=x", 422)).words
        again = await look(service, "/compare?first=small-0&second=small-0", 422)
        assert "These cannot be compared" in again.words


async def test_names_are_text_everywhere(opened, tmp_path: Path) -> None:
    """Scenarios, runs, arms, reasons, targets' answers and whoever tries to log in choose what stands there."""
    odd = scenario(description=HOSTILE, arms={HOSTILE: {"target": HOSTILE}})
    async with opened() as service:
        (tmp_path / "scenarios" / "odd.yaml").write_text(odd)
        (tmp_path / "scenarios" / "bad.yaml").write_text("version: [<script>")
        service.service.registry.runs.add(
            "odd", HOSTILE, state=RunState.INTERRUPTED, reason=HOSTILE, arms={HOSTILE: HOSTILE},
            overrides={HOSTILE: HOSTILE}, started_by=HOSTILE, verdict=HOSTILE, validity=HOSTILE, path=str(RUN),
            created=HOSTILE,
        )  # fmt: skip
        service.service.registry.audit.add(HOSTILE, HOSTILE, subject=HOSTILE, detail=HOSTILE, address=HOSTILE)
        more = ("/runs/new?scenario=odd", "/runs/new?scenario=small&again=odd", "/runs/odd", "/runs/odd/live",
                f"/runs?scenario={HOSTILE[:60]}", "/audit?who=%3Cscript%3E")  # fmt: skip
        for path in (*PAGES, *more):
            document = await look(service, path)
            assert not document.all("img"), path
            scripts = [s.attributes.get("src", "") for s in document.all("script")]
            assert all(src.startswith("/assets/") for src in scripts), path
        form = await look(service, "/runs/new?scenario=odd")
        assert HOSTILE in form.all("label")[0].text
        answer = await send(service, "/runs/new", scenario="odd", more=f"{HOSTILE}=1", **{f"arm.{HOSTILE}": HOSTILE})
        assert "cannot be run as it is" in checked(answer, 422).words


async def test_ten_thousand_runs_are_pages_of_fifty(opened) -> None:
    async with opened() as service:
        database = service.service.registry.database
        rows = [(f"r{i}", "small", "failed", "2026-11-30T00:00:00+00:00") for i in range(10_000)]
        with database.transaction() as connection:
            connection.executemany("INSERT INTO runs (id, scenario, state, created) VALUES (?, ?, ?, ?)", rows)
        first = await look(service, "/runs?state=failed")
        assert "10,000 in all" in first.words
        ids = [e.all("a")[0].attributes["href"] for e in first.all("th") if e.all("a")]
        assert (len(ids), ids[0], ids[-1]) == (50, "/runs/r9999", "/runs/r9950")
        (older,) = [a.attributes["href"] for a in first.all("a") if a.attributes.get("rel") == "next"]
        second = await look(service, older)
        assert [e.all("a")[0].words for e in second.all("th") if e.all("a")] == ["small"] * 50
        assert "/runs?state=failed" in links(second)
        last = await look(service, "/runs?state=failed&before=51")
        assert not [a for a in last.all("a") if a.attributes.get("rel") == "next"]
        assert len(last.all("tr")) == 51
        assert len((await look(service, "/runs/r5/live")).all("figure")) == 7


async def test_targets_show_the_newest_look(opened) -> None:
    async with opened() as service:
        answer = await send(service, "/targets/one/check")
        assert (answer.status_code, answer.headers["location"]) == (303, "/targets#t-one")
        page = await look(service, "/targets")
        assert "not usable" in page.words
        assert "by ops: it cannot be reached" in page.words
        assert "Nothing is here" in checked(await send(service, "/targets/two/check"), 404).words
        assert (await service.ask("POST", "/api/v1/targets/one/check")).json()["usable"] is False
    async with opened("eye") as service:  # a look outlives the service, whoever looked and how
        assert "by ops: it cannot be reached" in (await look(service, "/targets")).words


async def test_the_audit_log_is_paged_and_says_when_it_is_broken(opened) -> None:
    async with opened() as service:
        audit = service.service.registry.audit
        for number in range(120):
            audit.add("robot", f"did {number}")
        page = await look(service, "/audit?who=robot")
        assert "are as they were written" in page.words
        assert len(page.all("tr")) == 101
        (older,) = [a.attributes["href"] for a in page.all("a") if a.attributes.get("rel") == "next"]
        assert len((await look(service, older)).all("tr")) == 21
        newest = audit.add("robot", "did it again").number
        with service.service.registry.database.transaction() as connection:
            connection.execute("DROP TRIGGER audit_is_not_changed")
            connection.execute("UPDATE audit SET detail = 'x' WHERE number = ?", (newest,))
        assert f"not what was written, from entry {newest} on" in (await look(service, "/audit")).words


async def test_assets_are_kept_for_as_long_as_their_text_is_the_same(opened) -> None:
    async with opened(None) as service:
        for asset in all_assets().values():
            plain = await service.client.get(asset.url, headers={"Accept-Encoding": "identity"})
            packed = await service.client.get(asset.url, headers={"Accept-Encoding": "gzip"})
            assert plain.content == packed.content == asset.data
            assert packed.headers["content-encoding"] == "gzip"
            assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
            other = asset.url.replace(asset.url.split("/")[2], "0" * 16)
            assert (await service.client.get(other)).status_code == 404
        assert b"https://" not in b"".join(a.data for n, a in all_assets().items() if n != "plotly.js")
