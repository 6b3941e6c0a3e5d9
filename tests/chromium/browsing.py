"""What tests of the service's pages do with a browser."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page

from tests.chromium.test_report_browser import DRAWN_MS
from tests.service.conftest import TOKENS, Served

Theme = Literal["light", "dark"]


@dataclass
class Seen:
    """What pages said and asked for."""

    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def quiet(self, *, but: str = "nothing") -> None:
        assert [text for text in self.said if but not in text] == []
        hosts = {urlsplit(url).hostname for url in self.asked if urlsplit(url).scheme in ("http", "https", "ws", "wss")}
        assert hosts == {"127.0.0.1"}


@contextmanager
def browsing(
    browser: Browser, service: Served, theme: Theme = "light", *, url: str | None = None, known: bool = True
) -> Iterator[tuple[Page, Seen]]:
    """A window of its own, logged in unless `known` is False. `url`: another way to the service."""
    seen = Seen()
    base = url or str(service.client.base_url)
    context = browser.new_context(color_scheme=theme, viewport={"width": 1280, "height": 900}, base_url=base)
    if known:
        answer = service.client.post("/login", data={"token": TOKENS["ops"]})
        assert answer.status_code == 303, answer.text
        context.add_cookies([{"name": k, "value": v, "url": base} for k, v in answer.cookies.items()])
        service.client.cookies.clear()
    context.set_default_timeout(DRAWN_MS)
    context.on("request", lambda request: seen.asked.append(request.url))
    context.on("console", lambda message: seen.said.append(message.text))
    context.on("weberror", lambda error: seen.said.append(str(error.error)))
    context.on("dialog", lambda dialog: seen.said.append(dialog.message))
    try:
        yield context.new_page(), seen
    finally:
        context.close()


def until(true: Callable[[], Any], what: str, limit_s: float = 90) -> Any:
    """The pages' policy forbids the polling that Playwright brings along: it evaluates text."""
    limit = time.monotonic() + limit_s
    while not (found := true()):
        assert time.monotonic() < limit, f"not within {limit_s:g} s: {what}"
        time.sleep(0.1)
    return found


def focused(page: Page, element: str) -> None:
    """Browsers give the focus some time after the page has loaded: what is typed before goes nowhere."""
    until(lambda: page.evaluate("document.activeElement.id") == element, f"#{element} has the focus")


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


class Wire:
    """A way to the service that can be cut: what is open is closed, and nothing comes through until it is mended."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._whole = True
        self._open: set[socket.socket] = set()
        self._threads: list[Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Wire:
        self._begin(self._accept)
        return self

    def _begin(self, work: Callable[..., None], *arguments: Any) -> None:
        self._threads.append(Thread(target=work, args=arguments, daemon=True))
        self._threads[-1].start()

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self.cut()
        for thread in self._threads:
            thread.join(20)
        for one in (self._listener, *self._open):
            one.close()

    def cut(self) -> None:
        self._whole = False
        for one in list(self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._whole = True

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if not self._whole:
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self._port))
                self._open |= {near, far}
                for ends in ((near, far), (far, near)):
                    self._begin(self._carry, *ends)

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for one in (source, sink):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
