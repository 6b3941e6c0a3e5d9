"""The servers' pages as metrics: sums over engines and pages, restarts, what is missing."""

from collections.abc import Callable
from typing import Any

import pytest

from loadgen.export import Metrics
from loadgen.export.scraped import Pages
from loadgen.observe import Scrape
from server_adapters.base import MetricsPage

MakePage = Callable[..., MetricsPage]
MakeScrape = Callable[..., Scrape]
WINDOW = {"arm": "base", "task_type": "code", "source": "server_window"}
NAMES = ("verify_rounds_total", "draft_tokens_total", "accepted_tokens_total", "rollback_rounds_total")


@pytest.fixture
def pages() -> tuple[Metrics, Pages]:
    metrics = Metrics()
    return metrics, Pages(metrics, {"base": "m"}, {"base": False}, "code", {1, 3})


def counted(metrics: Metrics) -> list[float | None]:
    return [metrics.value(name, **WINDOW) for name in NAMES]


def drafts(rounds: float, drafted: float, accepted: float) -> dict[str, float]:
    return {"drafts": rounds, "draft_tokens": drafted, "accepted_tokens": accepted}


def test_only_what_measured_segments_add_is_counted(pages: Any, page: MakePage, scrape: MakeScrape) -> None:
    """D20: increases, never absolute totals; warm-up (segment 0 and 2) and what lies between is left out."""
    metrics, look = pages
    for at, n, edge, segment in [
        (0, 100, "start", 0), (1, 150, "end", 0), (2, 200, "start", 1), (3, 210, None, None), (4, 230, "end", 1),
        (5, 300, "start", 2), (6, 400, "end", 2), (7, 500, "start", 3), (8, 501, "end", 3), (9, 900, None, None),
    ]:  # fmt: skip
        seen = page(drafts(n, 2 * n, n + n // 2), (float(n), n // 2))
        look.scraped(scrape(at, seen, edge=edge, segment=segment))
    assert counted(metrics)[:3] == [31, 62, 46]
    at_0 = metrics.value("accepted_position_total", arm="base", position="0", source="server_window")
    assert at_0 == 31
    assert metrics.value("server_scrapes_total", arm="base") == 10


def test_engines_and_pages_are_summed(pages: Any, page: MakePage, scrape: MakeScrape) -> None:
    """D1, D2: position 0 of two engines is one position; two pages of an arm add up, gauges too, KV use is a mean."""
    metrics, look = pages
    for at, n, edge in ((0, 10, "start"), (1, 30, "end")):
        for source in ("http://one/metrics", "http://two/metrics"):
            parts = [
                page({**drafts(n, 2 * n, n), "running": 3, "waiting": 1, "kv_usage": kv}, (n / 2, n / 2), engine=engine)
                for engine, kv in (("0", 0.2), ("1", 0.4))
            ]
            both = MetricsPage(parts[0].series + parts[1].series, ("m",), ("0", "1"), None)
            look.scraped(scrape(at, both, edge=edge, segment=1, source=source))
    assert counted(metrics)[:3] == [80, 160, 80]
    assert metrics.value("accepted_position_total", arm="base", position="1", source="server_window") == 40
    assert metrics.value("server_running_requests", arm="base") == 12
    assert metrics.value("server_waiting_requests", arm="base") == 4
    assert metrics.value("server_kv_usage_ratio", arm="base") == pytest.approx(0.3)


def test_a_restart_counts_from_0_and_is_said(pages: Any, page: MakePage, scrape: MakeScrape) -> None:
    """D3, D4: 1000 → 1200 → (restart) 50 → 300 is 500, nothing goes back."""
    metrics, look = pages
    for at, n, edge in ((0, 1000, "start"), (1, 1200, None), (2, 50, None), (3, 300, "end")):
        look.scraped(scrape(at, page(drafts(n, n, n)), edge=edge, segment=1 if edge else None))
    assert counted(metrics)[:3] == [500, 500, 500]
    assert metrics.value("server_resets_total", arm="base") == 1


def test_a_failed_look_loses_nothing(pages: Any, page: MakePage, scrape: MakeScrape) -> None:
    """A look that failed is counted, its gauges go, and the next one's increase holds what happened meanwhile."""
    metrics, look = pages
    look.scraped(scrape(0, page({**drafts(10, 20, 10), "running": 2}), edge="start", segment=1))
    look.scraped(scrape(1, None))
    assert metrics.value("server_scrape_errors_total", arm="base") == 1
    assert metrics.value("server_running_requests", arm="base") is None
    look.scraped(scrape(2, page(drafts(40, 80, 30)), edge="end", segment=1))
    assert counted(metrics)[:3] == [30, 60, 20]


def test_a_front_end_without_draft_counters_is_no_zero(pages: Any, page: MakePage, scrape: MakeScrape) -> None:
    """D5: the family is missing on the page, which is said, and no acceptance of 0 is."""
    metrics, look = pages
    for at, edge in ((0, "start"), (1, "end")):
        look.scraped(scrape(at, page({"running": 0, "waiting": 0}), edge=edge, segment=1))
    assert metrics.value("server_spec_counters", arm="base") == 0
    assert counted(metrics) == [None] * 4
    look.scraped(scrape(2, page(drafts(0, 0, 0))))
    assert metrics.value("server_spec_counters", arm="base") == 1
    look.scraped(scrape(3, None))
    assert metrics.value("server_spec_counters", arm="base") is None


def test_another_models_page_is_none_of_the_arm(pages: Any, page: MakePage, scrape: MakeScrape) -> None:
    metrics, look = pages
    look.scraped(scrape(0, page({"running": 7}, model="other")))
    assert metrics.value("server_scrape_errors_total", arm="base") == 1
    assert metrics.value("server_running_requests", arm="base") is None


@pytest.mark.parametrize(("artefact", "rolled_back"), [(False, 6), (True, 0), (None, 0)])
def test_certain_rollbacks_of_counters(
    artefact: bool | None, rolled_back: int, page: MakePage, scrape: MakeScrape
) -> None:
    """10 rounds of k = 2, all full: 4 accepted both drafts, so 6 had a rejection; perhaps none of an unknown method."""
    metrics = Metrics()
    look = Pages(metrics, {"base": "m"}, {"base": artefact}, "code", {1})
    look.scraped(scrape(0, page(drafts(0, 0, 0), (0.0, 0.0)), edge="start", segment=1))
    look.scraped(scrape(1, page(drafts(10, 20, 12), (8.0, 4.0)), edge="end", segment=1))
    assert counted(metrics) == [10, 20, 12, rolled_back]


def test_counters_that_contradict_each_other_show_no_rollback(pages: Any, page: MakePage, scrape: MakeScrape) -> None:
    metrics, look = pages
    look.scraped(scrape(0, page(drafts(0, 0, 0), (0.0, 0.0)), edge="start", segment=1))
    look.scraped(scrape(1, page(drafts(10, 20, 12), (12.0, 4.0)), edge="end", segment=1))
    assert counted(metrics) == [10, 20, 12, 0]


def test_the_observer_is_observed(pages: Any, page: MakePage, scrape: MakeScrape) -> None:
    """G22: how long a look took is a metric."""
    metrics, look = pages
    look.scraped(scrape(0, page({"running": 1})))
    assert metrics.value("server_scrape_duration_seconds", arm="base") == pytest.approx(0.001)


def test_a_plateau_below_the_asked_concurrency_is_visible(make_run: Any, page: MakePage, scrape: MakeScrape) -> None:
    """E3: a proxy that lets 100 through shows as running 100 and none waiting, beside a target of 256."""
    metrics, run, plan = make_run([{"kind": "concurrency", "concurrency": 256, "cases": 512}])
    run.began(next(s for s in plan.segments if s.phase == "measure"), 0)
    run.scraped(scrape(1, page({"running": 100, "waiting": 0})))
    assert metrics.value("target_concurrency", arm="base") == 256
    assert metrics.value("server_running_requests", arm="base") == 100
    assert metrics.value("server_waiting_requests", arm="base") == 0
