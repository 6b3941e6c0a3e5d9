"""Hand-made pages and scrapes."""

from collections.abc import Callable
from typing import Any

import pytest

from loadgen.observe import Scrape, Scraped
from server_adapters.base import CANONICAL, MetricsPage, Series

S = 1_000_000_000


def page(
    values: dict[str, float], *, model: str | None = "m", engine: str | None = "0", started: float | None = None
) -> MetricsPage:
    series = tuple(Series(n, CANONICAL[n], v, engine=engine, model=model) for n, v in values.items())
    return MetricsPage(series, (model,) if model else (), (engine,) if engine else (), started)


def scrape(at_s: float, what: MetricsPage | str | None, **more: Any) -> Scrape:
    """A scrape asked at `at_s` and answered 1 ms later; a text instead of a page is a failure's reason."""
    at = round(at_s * S)
    ok = isinstance(what, MetricsPage)
    fields: dict[str, Any] = {
        "arm": "a",
        "source": "http://one/metrics",
        "asked_ns": at,
        "answered_ns": at + S // 1000,
        "status": Scraped.OK if ok else Scraped.UNREACHABLE,
        "reason": None if ok else what,
        "page": what if ok else None,
    }
    return Scrape(**{**fields, **more})


@pytest.fixture
def make_page() -> Callable[..., MetricsPage]:
    return page


@pytest.fixture
def make_scrape() -> Callable[..., Scrape]:
    return scrape
