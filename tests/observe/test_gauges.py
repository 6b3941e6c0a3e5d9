"""Gauges: sums over engines and pages, means over time, and what idle means."""

from collections.abc import Callable
from typing import Any

from loadgen.observe import GaugeTrack, gauge_mean, idle
from server_adapters.base import MetricKind, MetricsPage, Series

S = 1_000_000_000
Make = Callable[..., Any]


def engines(values: list[float], name: str = "running", model: str = "m") -> MetricsPage:
    series = tuple(Series(name, MetricKind.GAUGE, v, str(i), model=model) for i, v in enumerate(values))
    return MetricsPage(series, (model,), tuple(str(i) for i in range(len(values))), None)


def test_sum_over_engines_and_pages_mean_over_time(make_scrape: Make) -> None:
    scrapes = [make_scrape(t, engines([t, 1])) for t in (1, 2, 3, 4)]
    scrapes += [make_scrape(t + 0.1, engines([10]), source="http://two/metrics") for t in (1, 2, 3, 4)]
    assert gauge_mean(scrapes, "a", "running", round(1.5 * S), round(3.5 * S)) == (3.5 + 10, 2)


def test_only_samples_strictly_inside_count(make_scrape: Make) -> None:
    scrapes = [make_scrape(t, engines([t])) for t in (1, 2, 3)]
    assert gauge_mean(scrapes, "a", "running", 1 * S, 3 * S) == (2.0, 1)
    assert gauge_mean(scrapes, "a", "running", 2 * S, 3 * S) is None
    assert gauge_mean(scrapes, "a", "running", 1 * S - 1, 3 * S + S // 1000 + 1) == (2.0, 3)


def test_a_page_without_sample_leaves_no_number(make_scrape: Make) -> None:
    """D5: a partial sum would read as a smaller batch."""
    scrapes = [make_scrape(t, engines([4])) for t in (1, 2)]
    scrapes.append(make_scrape(1, "refused", source="http://two/metrics"))
    assert gauge_mean(scrapes, "a", "running", 0, 9 * S) is None


def test_edge_and_failed_scrapes_are_no_samples(make_scrape: Make) -> None:
    scrapes = [make_scrape(1, engines([0]), edge="start", segment=1), make_scrape(2, "x"), make_scrape(3, engines([6]))]
    assert gauge_mean(scrapes, "a", "running", 0, 9 * S) == (6.0, 1)


def test_ratios_are_averaged_over_engines_and_pages(make_scrape: Make) -> None:
    scrapes = [make_scrape(1, engines([0.2, 0.4], "kv_usage"))]
    scrapes.append(make_scrape(1, engines([0.9], "kv_usage"), source="http://two/metrics"))
    found = gauge_mean(scrapes, "a", "kv_usage", 0, 9 * S)
    assert found is not None
    assert abs(found[0] - (0.3 + 0.9) / 2) < 1e-12


def test_other_models_are_left_out_where_asked(make_scrape: Make) -> None:
    mixed = MetricsPage((*engines([3]).series, *engines([5], model="other").series), ("m", "other"), ("0",), None)
    scrapes = [make_scrape(1, mixed)]
    assert GaugeTrack(scrapes, "a", "running", "m").mean(0, 9 * S) == (3.0, 1)
    assert GaugeTrack(scrapes, "a", "running").mean(0, 9 * S) == (8.0, 1)


def test_nothing_scraped_is_no_number() -> None:
    assert gauge_mean([], "a", "running", 0, 9 * S) is None


def test_idle(make_scrape: Make, make_page: Make) -> None:
    quiet = make_scrape(1, make_page({"running": 0, "waiting": 0}))
    busy = make_scrape(1, make_page({"running": 0, "waiting": 2}), source="http://two/metrics")
    unknown = make_scrape(1, make_page({"running": 0}), source="http://three/metrics")
    failed = make_scrape(1, "refused", source="http://four/metrics")
    assert idle([quiet]) is True
    assert idle([quiet, busy]) is False
    assert idle([busy, failed]) is False
    assert idle([quiet, unknown]) is None
    assert idle([quiet, failed]) is None
    assert idle([]) is None
