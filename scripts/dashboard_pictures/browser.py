"""A page of panels in Chromium, and its picture."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from playwright.async_api import Route, async_playwright

CHROMIUM = Path("/usr/bin/chromium")
ARGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
        "--disable-sync", "--no-first-run")  # fmt: skip
#: No host of that name is asked: every request of the page is answered here.
ORIGIN = "http://dashboard.invalid/"
FONTS = {
    "public/fonts/inter/Inter-Regular.woff2": "inter-latin-400-normal.woff2",
    "public/fonts/inter/Inter-Medium.woff2": "inter-latin-500-normal.woff2",
}
HTML = """<!doctype html><html><head><meta charset="utf-8"><link rel="stylesheet" href="dashboard.css">
<style>html, body {{ margin: 0 }}</style></head><body><div id="root"></div>
<script>window.specloadPage = {page}</script><script src="dashboard.js"></script></body></html>"""


def file_of(asked: str, bundle: Path, modules: Path) -> Path:
    """What a Grafana server would send for the path `asked`."""
    if "img/icons/" in asked:
        return modules / "@grafana" / "ui" / "dist" / "public" / "img" / "icons" / asked.partition("img/icons/")[2]
    return modules / "@fontsource" / "inter" / "files" / FONTS[asked] if asked in FONTS else bundle / asked


async def shoot(page: dict[str, Any], bundle: Path, modules: Path, picture: Path) -> list[str]:
    """Draws `page` (answers.page) into `picture`. Returns the titles of panels without data.

    Raises RuntimeError where the page says an error.
    """
    html = HTML.format(page=json.dumps(page).replace("</", "<\\/"))

    async def answer(route: Route) -> None:
        asked = route.request.url.removeprefix(ORIGIN).split("?")[0]
        file = file_of(asked, bundle, modules)
        if asked == "":
            await route.fulfill(body=html, content_type="text/html")
        elif file.is_file():
            await route.fulfill(path=file)
        else:
            await route.abort()

    said: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        try:
            view = await browser.new_page(viewport={"width": page["width"] + 32, "height": page["height"] + 200})
            view.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
            view.on("pageerror", lambda error: said.append(error.stack or str(error)))
            view.on("requestfailed", lambda request: said.append(request.url))
            await view.route("**/*", answer)
            await view.goto(ORIGIN)
            await view.wait_for_selector("html[data-drawn]", state="attached", timeout=60_000)
            if await view.locator('html[data-drawn="failed"]').count():
                raise RuntimeError("\n".join(said))
            shot = await view.locator("#dashboard").screenshot(animations="disabled")
            small = await view.evaluate("picture => window.shrink(picture)", base64.b64encode(shot).decode())
            picture.write_bytes(base64.b64decode(small))  # noqa: ASYNC240
            empty: list[str] = await view.locator('[data-empty="true"]').evaluate_all(
                "all => all.map(e => e.dataset.panel)"
            )
        finally:
            await browser.close()
    for text in said:
        print(f"{picture.name}: {text}")
    return empty
