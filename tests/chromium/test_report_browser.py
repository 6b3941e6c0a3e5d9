"""The HTML report opened from disk in a real browser: it draws, it is quiet, it asks nobody for anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Page, sync_playwright

from loadgen.analyze import Summary
from loadgen.experiment import judge_run
from loadgen.record import Manifest, open_run
from loadgen.report import render_html, render_sweep_html

RUN = Path(__file__).resolve().parents[1] / "data" / "runs" / "small"
ARGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
        "--disable-sync", "--no-first-run")  # fmt: skip
HOSTILE = "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=1><a href=http://127.0.0.1:9/>b</a>"
DRAWN_MS = 60_000
Theme = Literal["light", "dark"]


@dataclass
class Opened:
    """A page and what it did meanwhile."""

    page: Page
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def drawn(self, theme: Theme) -> None:
        self.page.wait_for_selector(f'html[data-drawn="{theme}"]', timeout=DRAWN_MS)


@contextmanager
def browsing(chromium: Path, profile: Path, file: Path, theme: Theme) -> Iterator[Opened]:
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=chromium, args=ARGS, color_scheme=theme, viewport={"width": 1280, "height": 900}
        )
        try:
            opened = Opened(context.pages[0])
            opened.page.on("console", lambda message: opened.said.append(message.text))
            opened.page.on("pageerror", lambda error: opened.said.append(str(error)))
            opened.page.on("dialog", lambda dialog: opened.said.append(dialog.message))
            context.on("request", lambda request: opened.asked.append(request.url))
            opened.page.goto(file.as_uri())
            yield opened
        finally:
            context.close()


@pytest.fixture(scope="module")
def run() -> tuple[Summary, Manifest]:
    """The recorded run, as if it had had blocks enough: every number of its comparison has an interval."""
    recorded = open_run(RUN)
    summary = judge_run(recorded).summary.model_dump(mode="json")
    summary["comparison"] = widened(summary["comparison"])
    return Summary.model_validate(summary), recorded.manifest


def widened(value: Any) -> Any:
    if isinstance(value, list):
        return [widened(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "needs_n" in value and value["value"] is not None and value["low"] is None:
        return {**value, "low": 0.9 * value["value"], "high": 1.1 * value["value"]}
    return {key: widened(item) for key, item in value.items()}


def renamed(value: Any) -> Any:
    """As a hostile server or scenario would name itself."""
    if isinstance(value, str):
        return value.replace("candidate", HOSTILE).replace("short_qa", HOSTILE)
    if isinstance(value, dict):
        by_arm = not value.keys() & {"aggregate", "sentence", "stage"}
        return {renamed(key) if by_arm else key: renamed(item) for key, item in value.items()}
    return [renamed(item) for item in value] if isinstance(value, list) else value


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[Summary, Manifest], Path]:
    def save(summary: Summary, manifest: Manifest) -> Path:
        file = tmp_path / "report.html"
        file.write_text(render_html(summary, manifest), encoding="utf-8")
        return file

    return save


def luminance(page: Page) -> float:
    """Of the page's ground, 0 black to 1 white."""
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    red, green, blue = (int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(","))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_draws_in_both_themes_and_is_quiet(chromium, tmp_path, run, saved, theme: Theme) -> None:
    """F13: one small file that opens from disk."""
    file = saved(*run)
    with browsing(chromium, tmp_path / "profile", file, theme) as opened:
        opened.drawn(theme)
        page = opened.page
        assert (luminance(page) > 0.5) == (theme == "light")
        plots = page.locator(".plot").all()
        assert len(plots) > 15
        for plot in plots:
            assert plot.locator("svg.main-svg").count() >= 1
            assert plot.locator("path.point, .point path").count() >= 1, plot.get_attribute("aria-label")
        assert page.locator("#f-speedup path.yerror").count() >= 6
        assert page.locator("#f-speedup .shapelayer path").count() >= 3, "the line at 1"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        picture = page.screenshot(path=tmp_path / f"{theme}.png", full_page=True)
        assert len(picture) > 50_000
        assert opened.said == []
        assert opened.asked == [file.as_uri()]


def test_the_keyboard_reaches_the_theme_and_the_tables(chromium, tmp_path, run, saved) -> None:
    with browsing(chromium, tmp_path / "profile", saved(*run), "light") as opened:
        opened.drawn("light")
        page = opened.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        opened.drawn("dark")
        assert luminance(page) < 0.5
        assert page.locator("#theme").get_attribute("aria-pressed") == "true"
        page.keyboard.press("Space")
        opened.drawn("light")
        numbers = page.locator("#f-speedup details summary")
        numbers.focus()
        page.keyboard.press("Enter")
        assert page.locator("#f-speedup table").first.is_visible()
        assert opened.said == []


def test_printing_opens_the_tables_and_gives_them_back(chromium, tmp_path, run, saved) -> None:
    with browsing(chromium, tmp_path / "profile", saved(*run), "dark") as opened:
        opened.drawn("dark")
        page = opened.page
        closed = page.locator("figure details:not([open])").count()
        assert closed
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        opened.drawn("light")
        assert page.locator("figure details:not([open])").count() == 0
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        opened.drawn("dark")
        assert page.locator("figure details:not([open])").count() == closed
        assert opened.said == []


def test_hostile_names_are_text_everywhere(chromium, tmp_path, run, saved) -> None:
    summary, manifest = run
    hostile = Summary.model_validate(renamed(summary.model_dump(mode="json")))
    named = Manifest.model_validate(renamed(manifest.model_dump(mode="json")))
    file = saved(hostile, named)
    with browsing(chromium, tmp_path / "profile", file, "light") as opened:
        opened.drawn("light")
        page = opened.page
        assert page.evaluate("typeof window.pwned") == "undefined"
        assert page.locator("img").count() == 0
        assert page.locator('.plot a[href], .plot a[*|href]:not([href=""])').count() == 0
        assert page.get_by_text("</script>").count() > 0
        assert opened.said == []
        assert opened.asked == [file.as_uri()]


def test_the_policy_stops_what_is_not_ours(chromium, tmp_path, run, saved) -> None:
    """Should something get into the page after all: it does not run, and reaches no host."""
    with browsing(chromium, tmp_path / "profile", saved(*run), "light") as opened:
        opened.drawn("light")
        page = opened.page
        page.evaluate(
            "() => { const s = document.createElement('script'); s.textContent = 'window.pwned = 1';"
            " document.body.append(s); const i = new Image(); i.src = 'http://127.0.0.1:9/x.png';"
            " document.body.append(i); }"
        )
        assert page.evaluate("typeof window.pwned") == "undefined"
        reached = page.evaluate("() => fetch('http://127.0.0.1:9/').then(() => true, () => false)")
        assert reached is False
        assert len([text for text in opened.said if "Content Security Policy" in text]) >= 3


def test_the_page_of_a_sweep_draws_in_both_themes_and_is_quiet(chromium, tmp_path, by_hand) -> None:
    """F13. Lines have as many points as the summary, intervals are bars, a field of the map is coloured."""
    file = tmp_path / "sweep.html"
    file.write_text(render_sweep_html(by_hand.summary()), encoding="utf-8")
    assert file.stat().st_size < 5_000_000
    with browsing(chromium, tmp_path / "profile", file, "light") as opened:
        opened.drawn("light")
        page = opened.page
        assert len(page.locator(".plot").all()) > 20
        assert page.locator(".plot:not(:has(svg.main-svg))").count() == 0
        net = page.locator('.plot[data-figure="along-concurrency"][data-panel="0"]')
        assert net.locator(".scatterlayer path.js-line").count() == 3
        assert net.locator(".scatterlayer path.point").count() == 9
        assert net.locator(".scatterlayer path.yerror").count() == 9
        total = page.locator('.plot[data-figure="along-concurrency"][data-panel="4"]')
        assert total.locator(".scatterlayer path.point").count() == 6, "a level without a number has no mark"
        heat = page.locator('.plot[data-figure="map"]')
        assert heat.locator(".heatmaplayer image").count() == 1
        assert heat.locator(".heatmap-label").count() == 6
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert luminance(page) > 0.5
        page.locator("#theme").click()
        opened.drawn("dark")
        assert luminance(page) < 0.5
        assert net.locator(".scatterlayer path.point").count() == 9
        assert opened.said == []
        assert [url for url in opened.asked if not url.startswith("data:")] == [file.as_uri()]
