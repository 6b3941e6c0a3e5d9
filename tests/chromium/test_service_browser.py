"""The service's pages in a real browser: a run is started, watched, stopped and read there, by mouse or keyboard alone;
the pages are quiet, and ask no other host for anything. One browser, one service, and what runs in it are shared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from loadgen.service.looks import State, look
from loadgen.service.registry import Registry, RunState
from server_adapters.rehearsal.config import RehearsalConfig
from tests.chromium.browsing import Wire, browsing, focused, tab_to, until
from tests.chromium.test_report_browser import ARGS, DRAWN_MS, HOSTILE, luminance
from tests.service.canary_files import write_canary
from tests.service.conftest import LENGTHS, TOKENS, Served, begin, end, plain_config, scenario

#: Answers that take long enough for a load that leaves the machine to the browser.
FEW_A_SECOND = {**LENGTHS, "output_len": {"kind": "fixed", "value": 40}}
BOTH = {"baseline": {"target": "one"}, "candidate": {"target": "two"}}
CANARY = "20261130T070600Z-odd-canary-1a2b3c"
PAGES = (
    "/login", "/runs", "/runs/new", "/runs/new?scenario=odd", "/runs/odd", "/runs/odd/live", "/compare", "/targets",
    "/audit", "/canaries", "/canaries/new", "/canaries/new?scenario=watched", f"/canaries/{CANARY}",
)  # fmt: skip
#: What can be used and says no name: as the browser has it.
NAMELESS = """() =>
  [...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary')]
  .filter((e) => e.offsetParent !== null && !e.closest('.hidden'))
  .filter((e) => !(e.textContent.trim() || e.ariaLabel || (e.labels && e.labels.length)))
  .map((e) => e.outerHTML)"""
FITS = "document.documentElement.scrollWidth <= innerWidth"
SECONDS = "(id) => (document.querySelector(`[data-chart=${id}]`).data || []).map((t) => t.x)[0] || []"
LONGEST = "(id) => Math.max(0, ...(document.querySelector(`[data-chart=${id}]`).data || []).map((t) => t.x.length))"


@pytest.fixture(scope="module")
def service(
    tmp_path_factory: pytest.TempPathFactory, rehearsal: Callable[[RehearsalConfig], AbstractContextManager[str]]
) -> Iterator[Served]:
    """Two engines; a long scenario, a canary, and a run that was left with names of somebody who means harm."""
    folder = tmp_path_factory.mktemp("pages")
    engine = RehearsalConfig(spec="draft:k=4", model="8b")
    with rehearsal(engine) as one, rehearsal(engine) as two:
        config = plain_config(
            folder,
            targets={name: {"url": url, "environment": "disposable"} for name, url in {"one": one, "two": two}.items()},
            limits={"at_once": 2, "requests_per_minute": 100_000, "failures_per_minute": 100_000},
        )
        tasks = [{"task_type": task, **FEW_A_SECOND} for task in ("code", "short_qa")]
        text = scenario(
            name="long",
            arms={"base": {"target": "two"}},
            load=[{"kind": "concurrency", "concurrency": 2, "duration_s": 600}],
            workload={"endpoint": "completions", "tasks": tasks},
        )
        (folder / "scenarios" / "long.yaml").write_text(text)
        odd = scenario(description=HOSTILE * 3, arms={HOSTILE: {"target": "x" * 64}})
        (folder / "scenarios" / "odd.yaml").write_text(odd)
        registry = Registry(folder / "specload.db")
        registry.runs.add("odd", HOSTILE * 2, state=RunState.FAILED, reason=HOSTILE * 3, arms={HOSTILE: "x" * 64},
                          overrides={HOSTILE: HOSTILE}, verdict="fail", validity="invalid")  # fmt: skip
        registry.close()
        (folder / "scenarios" / "watched.yaml").write_text(scenario(name="watched", arms=BOTH, canary={}))
        write_canary(folder / "runs" / CANARY, windows=2)
        found = begin(folder, config)
        try:
            yield found
        finally:
            for run in found.ask("GET", "/api/v1/runs", params={"state": "running"}).json()["runs"]:
                found.ask("POST", f"/api/v1/runs/{run['id']}/stop")
            assert end(found) == 0, found.log()


@pytest.fixture
def running(service: Served) -> str:
    """A long run on the second engine: the one that runs already, if there is one."""
    query = {"state": ["queued", "running"], "target": "two"}
    going = service.ask("GET", "/api/v1/runs", params=query).json()["runs"]
    return str(going[0]["id"]) if going else service.start("long")


@pytest.fixture(scope="module")
def browser(chromium: Path) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=ARGS)
        try:
            yield launched
        finally:
            launched.close()


def points(page: Page, chart: str) -> int:
    """Of the longest line of a chart."""
    return int(page.evaluate(LONGEST, chart))


def number_of(page: Page, name: str) -> int:
    row = page.locator("#now-load tr", has=page.get_by_role("rowheader", name=name, exact=True))
    return int(row.locator("td").first.inner_text().replace(",", "")) if row.count() else 0


def assert_of_one_look(page: Page) -> None:
    """Sentence, numbers, and every chart."""
    said, *seconds = page.evaluate("""() => [
      document.getElementById("as-of").textContent, Number(document.getElementById("live").dataset.shown),
      ...[...document.querySelectorAll("[data-chart]")].flatMap((plot) => (plot.data || []).map((t) => t.x.at(-1)))]""")
    assert len(set(seconds)) == 1, seconds
    assert f"as of second {round(seconds[0])} " in said


def test_the_keyboard_alone_starts_a_run(browser: Browser, service: Served) -> None:
    """The run stays, for the tests that look at one."""
    with browsing(browser, service, "dark", known=False) as (page, seen):
        page.goto("/runs/new")
        focused(page, "token")
        page.keyboard.type(TOKENS["ops"])
        page.keyboard.press("Enter")
        page.wait_for_url("**/runs/new")
        assert luminance(page) < 0.5
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        tab_to(page, "long", 5)
        page.keyboard.press("Enter")
        page.wait_for_url("**scenario=long")
        tab_to(page, "See what it will ask for")
        page.keyboard.press("Enter")
        page.wait_for_selector("#asked")
        tab_to(page, "Start this run")
        page.keyboard.press("Enter")
        page.wait_for_selector("#live")
        until(page.get_by_role("button", name="Stop this run").is_visible, "it runs")
        tab_to(page, "Stop this run")
        page.goto("/runs/odd/live")
        until(page.locator("#result").is_visible, "its end is told")
        assert page.locator("#result").get_attribute("role") == "status"
        tab_to(page, "Open its report")
        page.keyboard.press("Enter")
        page.wait_for_url("**/runs/odd")
        seen.quiet()


def test_a_lost_connection_is_said_and_taken_up_where_it_was(browser: Browser, service: Served, running: str) -> None:
    """Nothing that was told meanwhile is missing, and nothing is there twice."""

    def told() -> list[float]:
        looks = service.ask("GET", f"/api/v1/runs/{running}/live").json()["looks"]
        return [one["run_s"] for one in looks]

    with Wire(service.client.base_url.port or 0) as wire, browsing(browser, service, url=wire.url) as (page, seen):
        page.goto(f"/runs/{running}")
        status = page.locator("#status")
        until(lambda: points(page, "load") >= 1, "a point is drawn")
        wire.cut()
        until(lambda: "connection was lost" in status.inner_text(), "the page says so")
        before = len(told())
        until(lambda: len(told()) >= before + 2, "the run goes on")
        missed = told()
        wire.mend()
        until(lambda: points(page, "load") > len(missed), "the page goes on")
        until(lambda: status.inner_text() == "The run is under way.", "the page says so")
        drawn = page.evaluate(SECONDS, "load")
        assert drawn == told()[: len(drawn)]
        seen.quiet(but="net::ERR_")


def press_stop(page: Page) -> None:
    page.get_by_role("button", name="Stop this run").click()


def ended(page: Page) -> None:
    """It was stopped by the button; the end is told on the same page."""
    until(page.locator("#result").is_visible, "the run has ended")
    assert "The run is interrupted." in page.locator("#result").inner_text()
    said = page.locator("#said").inner_text()
    assert "ops asked it to stop (draining)" in said
    assert "finishing requests in flight; stopping it again cuts them" in said  # and nothing of a terminal's keys


def test_a_run_is_started_watched_and_read_and_another_stopped(
    browser: Browser, service: Served, running: str, tmp_path: Path
) -> None:
    """F13: and the report, saved, opens from disk."""
    with browsing(browser, service, known=False) as (page, seen):
        page.goto("/runs")
        page.get_by_label("Token").fill(TOKENS["ops"])
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url("**/runs")
        page.get_by_role("link", name="Start a run").first.click()
        page.get_by_role("link", name="long").click()
        page.get_by_label("base").select_option("one")
        page.get_by_role("button", name="See what it will ask for").click()
        assert "output tokens" in page.locator("#asked").inner_text()
        page.get_by_role("button", name="Start this run").click()
        page.wait_for_selector("#live")
        until(lambda: points(page, "tpot") >= 2, "two points are drawn")
        before, sent = points(page, "tpot"), number_of(page, "sent since the start")
        until(lambda: points(page, "tpot") > before, "the charts move")
        until(lambda: number_of(page, "sent since the start") > sent > 0, "the numbers change")
        assert page.locator("#c-throughput svg.main-svg path.js-line").count() >= 1

        beside = page.context.new_page()
        beside.goto(f"/runs/{running}")
        until(lambda: points(beside, "load") >= 1, "the other run is watched")
        press_stop(beside)
        for chart in ("load", "flight", "ttft", "acceptance", "rollback"):
            until(lambda chart=chart: points(page, chart) >= 2, chart)
        page.locator("#c-acceptance summary").click()
        until(lambda: page.locator("#c-acceptance tbody tr").count() >= 2, "the table beside the chart is filled")
        assert_of_one_look(page)
        heads = set(page.locator("#c-acceptance thead th").all_inner_texts())
        assert {"base, code", "base, short_qa"} <= heads
        ended(beside)
        beside.close()
        assert service.run(running)["state"] == "interrupted"
        assert not page.locator("#result").is_visible()
        press_stop(page)
        ended(page)
        page.get_by_role("link", name="Open its report").click()
        report = page.frame_locator("iframe.report")
        report.locator('html[data-drawn="light"]').wait_for(state="attached", timeout=DRAWN_MS)
        assert report.locator(".plot svg.main-svg").count() > 5
        with page.expect_download() as saving:
            page.get_by_role("link", name="Save the report").click()
        file = tmp_path / "report.html"
        saving.value.save_as(file)
        page.goto(file.as_uri())
        page.wait_for_selector('html[data-drawn="light"]', timeout=DRAWN_MS)
        seen.quiet()


def test_every_page_is_quiet_fits_and_is_named(browser: Browser, service: Served) -> None:
    """Also with names that are markup or long, light and dark, and on a narrow screen."""
    with browsing(browser, service) as (page, seen):
        for path in PAGES:
            page.set_viewport_size({"width": 1280, "height": 800})
            page.goto(path)
            if path == "/runs/odd/live":
                until(page.locator("#result").is_visible, "its end is told")
            assert page.evaluate(NAMELESS) == [], path
            assert page.get_by_role("main").count() == page.get_by_role("heading", level=1).count() == 1
            assert page.evaluate("typeof window.pwned") == "undefined"
            assert page.evaluate(FITS), path
            for theme in ("dark", "light"):
                page.emulate_media(color_scheme=theme)
                until(lambda theme=theme: (luminance(page) > 0.5) == (theme == "light"), f"{path} is {theme}", 20)
            page.set_viewport_size({"width": 420, "height": 800})
            until(lambda: page.evaluate("innerWidth") == 420 and page.evaluate(FITS), f"{path} fits", 20)
        seen.quiet()


def test_a_canarys_page_keeps_itself_fresh(browser: Browser, service: Served) -> None:
    """Its parts are replaced together when a window has ended; what was opened stays open."""
    folder = service.folder / "runs" / CANARY
    write_canary(folder, windows=2)
    with browsing(browser, service) as (page, seen):
        page.goto("/canaries")
        assert page.locator("#now tbody tr").count() >= 1
        page.get_by_role("link", name="odd").first.click()
        page.wait_for_selector('html[data-drawn="light"]')
        assert page.locator("#now svg.main-svg").count() >= 1
        page.locator("#f-windows summary").click()
        page.evaluate("document.activeElement.blur()")
        rows = page.locator("#f-windows tbody tr")
        assert rows.count() == 2
        assert page.get_by_role("button", name="Stop watching").count() == 0  # of another's monitor
        write_canary(folder, windows=3)
        until(lambda: page.locator("#f-windows tbody tr").count() == 3, "the third window is shown")
        assert page.locator("#f-windows details").evaluate("(node) => node.open")
        until(lambda: page.locator("#now svg.main-svg").count() >= 1, "and drawn")
        assert "3 of 20 s" in page.locator("#now").inner_text()
        write_canary(folder, windows=4, active=False)
        until(lambda: "Verdict when it ended: fail" in page.locator("#now").inner_text(), "its end is shown")
        seen.quiet()


def stream(looks: int) -> bytes:
    """As the service sends it: a snapshot with that many looks, as many more one by one, the end."""
    told: dict[str, Any] = {"inflight_requests": {("a",): 1.0}, "sent_requests_total": {("a",): 0.0}}
    found = []
    for second in range(2 * looks):
        now = {**told, "sent_requests_total": {("a",): float(second)}}
        numbers = look(State(second - 1.0, told, {}), State(float(second), now, {}))
        found.append({"at": "2026-11-30T07:06:00+00:00", "run_s": float(second), **numbers})
    run = {"id": "odd", "state": "running", "reason": None, "verdict": None, "validity": None}
    first = {"run": run, "segment": None, "said": [], "looks": found[:looks]}
    events = [("snapshot", first), *(("look", one) for one in found[looks:]), ("ended", {**run, "state": "finished"})]
    return b"".join(
        f"id: x.{i}\nevent: {kind}\ndata: {json.dumps(data)}\n\n".encode() for i, (kind, data) in enumerate(events)
    )


def test_a_long_run_keeps_the_page_small(browser: Browser, service: Served) -> None:
    """1,400 looks: the whole course is drawn, thinned."""
    with browsing(browser, service) as (page, seen):
        page.route("**/events", lambda route: route.fulfill(body=stream(700), content_type="text/event-stream"))
        page.goto("/runs/odd/live")
        until(page.locator("#result").is_visible, "the run has ended")
        kept = int(page.locator("#live").get_attribute("data-looks") or 0)
        assert 300 <= kept <= 600
        last = "document.querySelector('[data-chart=flight]').data[0].x.at(-1)"
        until(lambda: points(page, "flight") in (kept, kept + 1) and page.evaluate(last) == 1399, "all are drawn")
        assert_of_one_look(page)
        assert number_of(page, "sent since the start") == 1399
        seen.quiet()
