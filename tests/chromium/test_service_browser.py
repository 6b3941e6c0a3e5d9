"""The service's pages in a real browser: a run is started, watched, stopped and read there, by mouse or keyboard alone;
the pages are quiet, and ask no other host for anything."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from loadgen.service.looks import State, look
from loadgen.service.registry import Registry, RunState
from server_adapters.rehearsal.config import RehearsalConfig
from tests.chromium.test_report_browser import ARGS, DRAWN_MS, HOSTILE, luminance
from tests.service.conftest import LENGTHS, TOKENS, Served, begin, end, plain_config, scenario

Theme = Literal["light", "dark"]
PAGES = (
    "/login", "/runs", "/runs/new", "/runs/new?scenario=odd", "/runs/odd", "/runs/odd/live", "/compare", "/targets",
    "/audit",
)  # fmt: skip
#: What can be used and says no name: as the browser has it.
NAMELESS = """() =>
  [...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary')]
  .filter((e) => e.offsetParent !== null && !e.closest('.hidden'))
  .filter((e) => !(e.textContent.trim() || e.ariaLabel || (e.labels && e.labels.length)))
  .map((e) => e.outerHTML)"""
LONGEST = "(id) => Math.max(0, ...(document.querySelector(`[data-chart=${id}]`).data || []).map((t) => t.x.length))"


@dataclass
class Seen:
    """What pages said and asked for."""

    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def quiet(self) -> None:
        assert self.said == []
        hosts = {urlsplit(url).hostname for url in self.asked if urlsplit(url).scheme in ("http", "https", "ws", "wss")}
        assert hosts == {"127.0.0.1"}


@pytest.fixture(scope="module")
def service(
    tmp_path_factory: pytest.TempPathFactory, rehearsal: Callable[[RehearsalConfig], AbstractContextManager[str]]
) -> Iterator[Served]:
    """Two engines; a short scenario, a long one, and a run that was left with names of somebody who means harm."""
    folder = tmp_path_factory.mktemp("pages")
    engine = RehearsalConfig(spec="draft:k=4", model="8b", speed=4.0)
    with rehearsal(engine) as one, rehearsal(engine) as two:
        config = plain_config(
            folder,
            targets={name: {"url": url, "environment": "disposable"} for name, url in {"one": one, "two": two}.items()},
            limits={"at_once": 2, "requests_per_minute": 100_000, "failures_per_minute": 100_000},
        )
        tasks = [{"task_type": "code", **LENGTHS}, {"task_type": "short_qa", **LENGTHS}]
        for name, arm, length_s in (("short", "one", 6), ("long", "two", 600)):
            load = [{"kind": "concurrency", "concurrency": 2, "duration_s": length_s}]
            text = scenario(
                name=name,
                arms={"base": {"target": arm}},
                load=load,
                workload={"endpoint": "completions", "tasks": tasks},
            )
            (folder / "scenarios" / f"{name}.yaml").write_text(text)
        odd = scenario(description=HOSTILE * 3, arms={HOSTILE: {"target": "x" * 64}})
        (folder / "scenarios" / "odd.yaml").write_text(odd)
        registry = Registry(folder / "specload.db")
        registry.runs.add("odd", HOSTILE * 2, state=RunState.FAILED, reason=HOSTILE * 3, arms={HOSTILE: "x" * 64},
                          overrides={HOSTILE: HOSTILE}, verdict="fail", validity="invalid")  # fmt: skip
        registry.close()
        found = begin(folder, config)
        try:
            yield found
        finally:
            assert end(found) == 0, found.log()


@pytest.fixture(scope="module")
def browser(chromium: Path) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=ARGS)
        try:
            yield launched
        finally:
            launched.close()


@contextmanager
def browsing(browser: Browser, service: Served, theme: Theme) -> Iterator[tuple[Page, Seen]]:
    """A window of its own, logged out."""
    seen = Seen()
    context = browser.new_context(
        color_scheme=theme, viewport={"width": 1280, "height": 900}, base_url=str(service.client.base_url)
    )
    context.set_default_timeout(DRAWN_MS)
    context.on("request", lambda request: seen.asked.append(request.url))
    context.on("console", lambda message: seen.said.append(message.text))
    context.on("weberror", lambda error: seen.said.append(str(error.error)))
    context.on("dialog", lambda dialog: seen.said.append(dialog.message))
    try:
        yield context.new_page(), seen
    finally:
        context.close()


def log_in(page: Page) -> None:
    page.goto("/runs")
    page.get_by_label("Token").fill(TOKENS["ops"])
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/runs")


def until(true: Callable[[], Any], what: str, limit_s: float = 90) -> Any:
    """The pages' policy forbids the polling that Playwright brings along: it evaluates text."""
    limit = time.monotonic() + limit_s
    while not (found := true()):
        assert time.monotonic() < limit, f"not within {limit_s:g} s: {what}"
        time.sleep(0.1)
    return found


def points(page: Page, chart: str) -> int:
    """Of the longest line of a chart."""
    return int(page.evaluate(LONGEST, chart))


def number_of(page: Page, name: str) -> int:
    row = page.locator("#now-load tr", has=page.get_by_role("rowheader", name=name, exact=True))
    return int(row.locator("td").first.inner_text().replace(",", "")) if row.count() else 0


def stop(page: Page) -> None:
    """By the button, which then offers to cut; the end is told on the same page."""
    page.get_by_role("button", name="Stop this run").click()
    until(page.locator("#result").is_visible, "the run has ended")
    assert "The run is interrupted." in page.locator("#result").inner_text()
    assert "ops asked it to stop (draining)" in page.locator("#said").inner_text()


def test_a_run_is_started_watched_and_read_and_another_stopped(
    browser: Browser, service: Served, tmp_path: Path
) -> None:
    """F13: and the report, saved, opens from disk."""
    other = service.start("long", arms={"base": "two"})
    with browsing(browser, service, "light") as (page, seen):
        log_in(page)
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
        beside.goto(f"/runs/{other}")
        until(lambda: points(beside, "load") >= 1, "the other run is watched")
        stop(beside)
        assert service.run(other)["state"] == "interrupted"
        assert not page.locator("#result").is_visible()

        for chart in ("load", "flight", "ttft", "acceptance", "rollback"):
            until(lambda chart=chart: points(page, chart) >= 2, chart)
        page.locator("#c-acceptance summary").click()
        until(lambda: page.locator("#c-acceptance tbody tr").count() >= 2, "the table beside the chart is filled")
        heads = set(page.locator("#c-acceptance thead th").all_inner_texts())
        assert {"base, code", "base, short_qa"} <= heads
        stop(page)
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


def tab_to(page: Page, name: str, most: int = 60) -> None:
    """Where the focus is can be seen on the way."""
    for _ in range(most):
        page.keyboard.press("Tab")
        text, outline = page.evaluate(
            "() => [document.activeElement.textContent.trim(), getComputedStyle(document.activeElement).outlineStyle]"
        )
        if text == name:
            assert outline != "none", name
            return
    raise AssertionError(f"the keyboard does not reach {name!r}")


def test_the_keyboard_alone_starts_a_run(browser: Browser, service: Served) -> None:
    with browsing(browser, service, "dark") as (page, seen):
        page.goto("/runs/new")
        page.keyboard.type(TOKENS["ops"])  # the field has the focus
        page.keyboard.press("Enter")
        page.wait_for_url("**/runs/new")
        assert luminance(page) < 0.5
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        tab_to(page, "small", 5)
        page.keyboard.press("Enter")
        page.wait_for_url("**scenario=small")
        tab_to(page, "See what it will ask for")
        page.keyboard.press("Enter")
        page.wait_for_selector("#asked")
        tab_to(page, "Start this run")
        page.keyboard.press("Enter")
        page.wait_for_selector("#live")
        until(page.locator("#result").is_visible, "the run has ended")
        assert page.locator("#result").get_attribute("role") == "status"
        tab_to(page, "Open its report")
        page.keyboard.press("Enter")
        page.frame_locator("iframe.report").locator('html[data-drawn="dark"]').wait_for(
            state="attached", timeout=DRAWN_MS
        )
        seen.quiet()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_is_quiet_fits_and_is_named(browser: Browser, service: Served, theme: Theme) -> None:
    """Also with names that are markup or long, and on a narrow screen."""
    with browsing(browser, service, theme) as (page, seen):
        log_in(page)
        for width in (1280, 420):
            page.set_viewport_size({"width": width, "height": 800})
            for path in PAGES:
                page.goto(path)
                if path == "/runs/odd/live":
                    until(page.locator("#result").is_visible, "its end is told")
                assert (luminance(page) > 0.5) == (theme == "light"), path
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (path, width)
                assert page.evaluate(NAMELESS) == [], path
                assert page.get_by_role("main").count() == page.get_by_role("heading", level=1).count() == 1
                assert page.evaluate("typeof window.pwned") == "undefined"
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
    """2,400 looks: the whole course is drawn, thinned."""
    with browsing(browser, service, "light") as (page, seen):
        log_in(page)
        page.route("**/events", lambda route: route.fulfill(body=stream(1200), content_type="text/event-stream"))
        page.goto("/runs/odd/live")
        until(page.locator("#result").is_visible, "the run has ended")
        kept = int(page.locator("#live").get_attribute("data-looks") or 0)
        assert 300 <= kept <= 600
        last = "document.querySelector('[data-chart=flight]').data[0].x.at(-1)"
        until(lambda: points(page, "flight") == kept and page.evaluate(last) >= 2390, "all of them are drawn")
        assert number_of(page, "sent since the start") == 2399
        seen.quiet()
