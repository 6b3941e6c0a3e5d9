"""Increase of counters: exact expected numbers from hand-made scrapes."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.observe import CounterWindow, Scrape, Scraped, window
from server_adapters.base import CANONICAL, MetricKind, MetricsPage, Series

S = 1_000_000_000
Make = Callable[..., Any]


def counted(scrapes: list[Scrape], start_s: float = 0.5, end_s: float = 9.5, **more: Any) -> CounterWindow:
    return window(scrapes, "a", "m", round(start_s * S), round(end_s * S), **more)


def drafts(make_scrape: Make, make_page: Make, values: list[float], started: list[float | None]) -> list[Scrape]:
    times = [0.0, *(1.0 + i for i in range(len(values) - 2)), 10.0]
    return [
        make_scrape(t, make_page({"drafts": v}, started=at)) for t, v, at in zip(times, values, started, strict=True)
    ]


def test_a_restart_adds_the_new_value(make_scrape: Make, make_page: Make) -> None:
    """D4: 1000, 1200, restart, 50, 300: 200 before, then 50 + 250."""
    got = counted(drafts(make_scrape, make_page, [1000, 1200, 50, 300], [None] * 4))
    assert got.deltas["drafts"] == 500
    assert got.restarts == 1
    assert len(got.incomplete) == 1
    assert "restarted" in got.incomplete[0]


def test_a_restart_seen_by_identity_though_the_counter_is_higher(make_scrape: Make, make_page: Make) -> None:
    """D4: 10, 20, restart, 70 by the next scrape: 10 + 70, not 60."""
    got = counted(drafts(make_scrape, make_page, [10, 20, 70], [100.0, 100.0, 160.0]))
    assert got.deltas["drafts"] == 80
    assert got.restarts == 1


def test_start_times_that_differ_by_rounding_are_one_process(make_scrape: Make, make_page: Make) -> None:
    got = counted(drafts(make_scrape, make_page, [10, 20, 70], [100.0, 100.004, 99.998]))
    assert got.deltas["drafts"] == 60
    assert got.restarts == 0
    assert got.incomplete == ()


def test_one_falling_counter_resets_the_whole_page_where_identity_is_unknown(
    make_scrape: Make, make_page: Make
) -> None:
    """A restart that one counter shows and another hides (it has grown beyond its old value)."""
    pages = [{"drafts": 1000, "generation_tokens": 10}, {"drafts": 5, "generation_tokens": 40}]
    got = counted([make_scrape(t, make_page(p)) for t, p in zip((0, 10), pages, strict=True)])
    assert got.deltas == {"drafts": 5, "generation_tokens": 40}
    assert got.restarts == 1


def test_one_falling_counter_of_the_same_process_resets_itself_only(make_scrape: Make, make_page: Make) -> None:
    pages = [{"drafts": 1000, "generation_tokens": 10}, {"drafts": 5, "generation_tokens": 40}]
    got = counted([make_scrape(t, make_page(p, started=7.0)) for t, p in zip((0, 10), pages, strict=True)])
    assert got.deltas == {"drafts": 5, "generation_tokens": 30}
    assert got.restarts == 1


def test_a_sum_of_seconds_that_falls_in_the_same_process_is_no_restart(make_scrape: Make, make_page: Make) -> None:
    """One observation below zero, such as the queue time of a server whose clock ran late."""
    pages = [{"queue_count": 1, "queue_sum": 0.5}, {"queue_count": 2, "queue_sum": 0.25}]
    got = counted([make_scrape(t, make_page(p, started=7.0)) for t, p in zip((0, 10), pages, strict=True)])
    assert got.deltas == {"queue_count": 1, "queue_sum": -0.25}
    assert (got.restarts, got.incomplete) == (0, ())


def test_a_sum_that_falls_with_its_count_was_reset(make_scrape: Make, make_page: Make) -> None:
    """The same where nothing tells whether it is the same process."""
    pages = [{"queue_count": 2, "queue_sum": 0.5}, {"queue_count": 1, "queue_sum": 0.25}]
    got = counted([make_scrape(t, make_page(p, started=7.0)) for t, p in zip((0, 10), pages, strict=True)])
    assert (got.deltas, got.restarts) == ({"queue_count": 1, "queue_sum": 0.25}, 1)
    pages[1]["queue_count"] = 3
    got = counted([make_scrape(t, make_page(p)) for t, p in zip((0, 10), pages, strict=True)])
    assert (got.deltas, got.restarts) == ({"queue_count": 3, "queue_sum": 0.25}, 1)


@pytest.mark.parametrize("started", [None, 7.0])
def test_looks_that_overlap_have_no_order(make_scrape: Make, make_page: Make, started: float | None) -> None:
    """A slow periodic look was read before the start edge and arrived after it, one within before the end edge."""
    looks = [
        make_scrape(0.1, make_page({"drafts": 5}, started=started), edge="start", segment=3),
        make_scrape(0.0, make_page({"drafts": 1}, started=started), answered_ns=S),
        make_scrape(2.0, make_page({"drafts": 10}, started=started), answered_ns=3 * S),
        make_scrape(2.5, make_page({"drafts": 8}, started=started), answered_ns=4 * S),
        make_scrape(9.0, make_page({"drafts": 25}, started=started), answered_ns=10 * S),
        make_scrape(9.9, make_page({"drafts": 20}, started=started), answered_ns=11 * S, edge="end", segment=3),
    ]
    got = counted(looks, segment=3)
    assert (got.deltas, got.restarts, got.incomplete) == ({"drafts": 15}, 0, ())


def test_a_failed_look_that_overlaps_still_counts_as_failed(make_scrape: Make, make_page: Make) -> None:
    got = counted([
        make_scrape(0, make_page({"drafts": 1})),
        make_scrape(2, make_page({"drafts": 4}), answered_ns=4 * S),
        make_scrape(3, "no answer within 3 s", answered_ns=6 * S),
        make_scrape(5, make_page({"drafts": 2}), answered_ns=7 * S),
        make_scrape(10, make_page({"drafts": 9})),
    ])  # fmt: skip
    assert got.deltas["drafts"] == 3 + 2 + 7, "what failed hides no look beside it"
    assert "1 of 5 scrapes inside the window failed" in got.incomplete[-1]


def test_load_balancer_flips_are_not_restarts_where_identity_is_known(make_scrape: Make, make_page: Make) -> None:
    """D3: 4, 8, 5, 9 from two processes in turn: 1 + 1, and the window says what it cannot know."""
    got = counted(drafts(make_scrape, make_page, [4, 8, 5, 9], [100.0, 200.0, 100.0, 200.0]))
    assert got.deltas["drafts"] == 2
    assert got.restarts == 0
    assert "2 server processes answer in turn" in got.incomplete[0]


def test_load_balancer_flips_without_identity_are_flagged(make_scrape: Make, make_page: Make) -> None:
    """D3: nothing on the page tells a flip from a restart, so the window is marked, never silently wrong."""
    got = counted(drafts(make_scrape, make_page, [4, 8, 5, 9], [None] * 4))
    assert got.deltas["drafts"] == 4 + 5 + 4
    assert got.restarts == 1
    assert got.incomplete


def test_engines_and_pages_are_summed_position_by_position(make_scrape: Make) -> None:
    """D1, D2: the same position appears once per engine; adding, never assigning."""

    def dp_page(base: float) -> MetricsPage:
        series = [
            Series("accepted_at", MetricKind.COUNTER, base + 10 * engine + position, str(engine), position, None, "m")
            for engine in range(2)
            for position in range(3)
        ]
        counts = [22, 15]
        series += [Series("drafts", MetricKind.COUNTER, base + n, str(e), model="m") for e, n in enumerate(counts)]
        return MetricsPage(tuple(series), ("m",), ("0", "1"), None)

    scrapes = [
        make_scrape(t, dp_page(base), source=source)
        for source, gain in (("http://one/metrics", 5.0), ("http://two/metrics", 7.0))
        for t, base in ((0, 100.0), (10, 100.0 + gain))
    ]
    got = counted(scrapes)
    assert got.deltas == {"drafts": 2 * 5 + 2 * 7}
    assert got.by_position == {"accepted_at": (24.0, 24.0, 24.0)}
    assert (got.pages, got.engines) == (2, 4)
    assert got.incomplete == ()


def test_one_of_two_pages_restarts(make_scrape: Make, make_page: Make) -> None:
    scrapes = [make_scrape(t, make_page({"drafts": v})) for t, v in ((0, 100), (5, 150), (10, 200))]
    two = "http://two/metrics"
    scrapes += [make_scrape(t, make_page({"drafts": v}), source=two) for t, v in ((0, 100), (5, 3), (10, 4))]
    got = counted(scrapes)
    assert got.deltas["drafts"] == 100 + 3 + 1
    assert got.restarts == 1
    assert [two in note for note in got.incomplete] == [True]


def test_a_family_that_appears_late_counts_from_zero(make_scrape: Make, make_page: Make) -> None:
    got = counted([
        make_scrape(0, make_page({"generation_tokens": 7}, started=1.0)),
        make_scrape(5, make_page({"generation_tokens": 8, "drafts": 30}, started=1.0)),
        make_scrape(10, make_page({"generation_tokens": 9, "drafts": 42}, started=1.0)),
    ])  # fmt: skip
    assert got.deltas == {"generation_tokens": 2, "drafts": 42}


def test_a_family_that_appears_after_a_restart_counts_from_zero(make_scrape: Make, make_page: Make) -> None:
    got = counted([
        make_scrape(0, make_page({"generation_tokens": 7, "drafts": 99}, started=1.0)),
        make_scrape(5, make_page({"generation_tokens": 1}, started=60.0)),
        make_scrape(10, make_page({"generation_tokens": 4, "drafts": 12}, started=60.0)),
    ])  # fmt: skip
    assert got.deltas == {"generation_tokens": 4, "drafts": 12}


def test_a_family_missing_from_one_scrape_loses_nothing(make_scrape: Make, make_page: Make) -> None:
    got = counted([
        make_scrape(0, make_page({"drafts": 10, "preemptions": 1}, started=1.0)),
        make_scrape(5, make_page({"preemptions": 1}, started=1.0)),
        make_scrape(10, make_page({"drafts": 25, "preemptions": 1}, started=1.0)),
    ])  # fmt: skip
    assert got.deltas == {"drafts": 15, "preemptions": 0}
    assert got.incomplete == ()


def test_a_family_that_is_gone_at_the_end_is_flagged(make_scrape: Make, make_page: Make) -> None:
    got = counted([
        make_scrape(0, make_page({"drafts": 10, "preemptions": 1}, started=1.0)),
        make_scrape(5, make_page({"drafts": 14, "preemptions": 1}, started=1.0)),
        make_scrape(10, make_page({"preemptions": 1}, started=1.0)),
    ])  # fmt: skip
    assert got.deltas["drafts"] == 4
    assert "gone from the page" in got.incomplete[0]
    assert "drafts" in got.incomplete[0]


def test_a_family_that_is_nowhere_is_absent_with_a_reason_never_zero(make_scrape: Make, make_page: Make) -> None:
    """D5: missing family = unavailable, not 0."""
    got = counted([make_scrape(t, make_page({"generation_tokens": t})) for t in (0, 10)])
    assert got.deltas == {"generation_tokens": 10}
    counters = {n for n, kind in CANONICAL.items() if kind is MetricKind.COUNTER}
    assert got.absent.keys() == counters - {"generation_tokens"}
    assert got.absent["drafts"] == "not on the pages that were read"


def test_a_page_never_scraped_is_absent_with_its_reason(make_scrape: Make) -> None:
    """G23: an HTML page or an empty body is a failed collection."""
    scrapes = [make_scrape(t, None, status=Scraped.NOT_METRICS, reason="an HTML page") for t in (0, 5, 10)]
    got = counted(scrapes)
    assert (got.deltas, got.by_position, got.by_detail, got.pages) == ({}, {}, {}, 0)
    assert got.absent["drafts"] == "http://one/metrics: never scraped (not_metrics: an HTML page)"
    assert got.incomplete == ("http://one/metrics: never scraped (not_metrics: an HTML page)",)


def test_one_page_that_failed_makes_the_sum_incomplete(make_scrape: Make, make_page: Make) -> None:
    """D5: a partial scrape failure is visible."""
    scrapes = [make_scrape(t, make_page({"drafts": t})) for t in (0, 10)]
    scrapes += [make_scrape(t, "refused", source="http://two/metrics") for t in (0, 10)]
    got = counted(scrapes)
    assert got.deltas == {"drafts": 10}
    assert got.pages == 1
    assert got.incomplete == ("http://two/metrics: never scraped (unreachable: refused)",)
    assert got.absent["preemptions"].endswith("http://two/metrics: never scraped (unreachable: refused)")


def test_no_scrapes_at_all() -> None:
    got = counted([])
    assert got.absent["drafts"] == "the arm has no metrics page, or it was never scraped"
    assert got.deltas == {}


def test_a_single_scrape_gives_no_difference(make_scrape: Make, make_page: Make) -> None:
    got = counted([make_scrape(0, make_page({"drafts": 5}))])
    assert got.deltas == {}
    assert "one usable scrape only" in got.absent["drafts"]


def test_other_models_of_the_page_are_left_out(make_scrape: Make) -> None:
    """D31: windows take one model's series only."""

    def two_models(mine: float, other: float) -> MetricsPage:
        series = tuple(
            Series("drafts", MetricKind.COUNTER, v, "0", model=name) for name, v in (("m", mine), ("other", other))
        )
        return MetricsPage(series, ("m", "other"), ("0",), None)

    got = counted([make_scrape(0, two_models(5, 1000)), make_scrape(10, two_models(8, 3000))])
    assert got.deltas == {"drafts": 3}
    assert got.engines == 1


def test_a_page_of_another_model_is_not_read(make_scrape: Make, make_page: Make) -> None:
    """D31: a port clash showed another model's counters."""
    got = counted([make_scrape(t, make_page({"drafts": t}, model="other")) for t in (0, 10)])
    assert got.deltas == {}
    assert got.absent["drafts"] == "http://one/metrics: never scraped (shows other, not m)"


def test_series_without_a_model_label_count(make_scrape: Make, make_page: Make) -> None:
    got = counted([make_scrape(t, make_page({"drafts": t}, model=None, engine=None)) for t in (0, 10)])
    assert got.deltas == {"drafts": 10}


def test_details_stay_apart(make_scrape: Make) -> None:
    def finished(stop: float, length: float) -> MetricsPage:
        pairs = (("stop", stop), ("length", length))
        series = tuple(Series("requests_finished", MetricKind.COUNTER, v, "0", None, d, "m") for d, v in pairs)
        return MetricsPage(series, ("m",), ("0",), None)

    got = counted([make_scrape(0, finished(3, 4)), make_scrape(10, finished(5, 9))])
    assert got.by_detail == {"requests_finished": {"stop": 2, "length": 5}}


def test_a_gap_between_positions_is_an_absence(make_scrape: Make) -> None:
    def gap(value: float) -> MetricsPage:
        series = tuple(Series("accepted_at", MetricKind.COUNTER, value, "0", p, None, "m") for p in (0, 2))
        return MetricsPage(series, ("m",), ("0",), None)

    got = counted([make_scrape(0, gap(1)), make_scrape(10, gap(2))])
    assert got.by_position == {}
    assert got.absent["accepted_at"] == "positions [1] are missing on the page"


def test_own_edge_scrapes_win_over_nearer_periodic_ones(make_scrape: Make, make_page: Make) -> None:
    scrapes = [
        make_scrape(0.0, make_page({"drafts": 1})),
        make_scrape(0.1, make_page({"drafts": 2}), edge="start", segment=3),
        make_scrape(0.4, make_page({"drafts": 4})),
        make_scrape(9.6, make_page({"drafts": 50})),
        make_scrape(9.9, make_page({"drafts": 60}), edge="end", segment=3),
        make_scrape(9.95, make_page({"drafts": 61}), edge="start", segment=4),
    ]
    assert counted(scrapes, segment=3).deltas["drafts"] == 58
    assert counted(scrapes, segment=3).incomplete == ()
    assert counted(scrapes).deltas["drafts"] == 46


def test_a_failed_edge_falls_back_and_says_so(make_scrape: Make, make_page: Make) -> None:
    scrapes = [
        make_scrape(0.0, make_page({"drafts": 1})),
        make_scrape(0.4, "refused", edge="start", segment=3),
        make_scrape(10.0, make_page({"drafts": 9}), edge="end", segment=3),
    ]
    got = counted(scrapes, segment=3)
    assert got.deltas["drafts"] == 8
    assert got.incomplete[0] == (
        "http://one/metrics: no scrape at the start edge (unreachable: refused): counted from 0.499 s before it"
    )


def test_a_window_not_covered_at_its_ends_says_so(make_scrape: Make, make_page: Make) -> None:
    got = counted([make_scrape(t, make_page({"drafts": t})) for t in (2, 8)])
    assert got.deltas["drafts"] == 6
    assert got.incomplete == (
        "http://one/metrics: not scraped before the window: counted from 1.501 s after its start",
        "http://one/metrics: not scraped after the window: counted until 1.500 s before its end",
    )


@pytest.mark.parametrize(("started", "flagged"), [(None, True), (5.0, False)])
def test_a_failed_scrape_inside_matters_only_where_a_restart_could_hide(
    make_scrape: Make, make_page: Make, started: float | None, flagged: bool
) -> None:
    got = counted([
        make_scrape(0, make_page({"drafts": 1}, started=started)),
        make_scrape(5, "timeout"),
        make_scrape(10, make_page({"drafts": 9}, started=started)),
    ])  # fmt: skip
    assert got.deltas["drafts"] == 8
    assert bool(got.incomplete) is flagged
    assert got.restarts == 0


def test_scrapes_of_other_arms_and_any_order(make_scrape: Make, make_page: Make) -> None:
    scrapes = [make_scrape(t, make_page({"drafts": t * t})) for t in (0, 3, 10)]
    foreign = [make_scrape(t, make_page({"drafts": 1000 * t}), arm="b") for t in (0, 10)]
    assert counted([*reversed(scrapes), *foreign]).deltas == {"drafts": 100}


@settings(max_examples=60, deadline=None)
@given(
    lives=st.lists(st.lists(st.integers(0, 1000), min_size=1, max_size=5), min_size=1, max_size=4),
    identity=st.booleans(),
)
def test_increase_equals_what_was_added_between_scrapes(lives: list[list[int]], identity: bool) -> None:
    """D4: with every reset visible, the increase is the sum of all that was counted after the first scrape."""
    scrapes, truth, at = [], 0, 0
    for life, gains in enumerate(lives):
        value = 0
        for i, gain in enumerate(gains):
            if life and i == 0 and not identity:
                gain = 0  # a reset shows only by a fall
            value += gain
            truth += gain if at else 0
            series = (Series("drafts", MetricKind.COUNTER, float(value), "0", model="m"),
                      Series("preemptions", MetricKind.COUNTER, float(10**6 - life), "0", model="m"))  # fmt: skip
            page = MetricsPage(series, ("m",), ("0",), 1000.0 + 60 * life if identity else None)
            stamp = at * S
            scrapes.append(Scrape("a", "p", stamp, stamp + 1, Scraped.OK, None, page))
            at += 1
    got = window(scrapes, "a", "m", 1, max((at - 1) * S, 1))
    if at == 1:
        assert got.deltas == {}
    else:
        assert got.deltas["drafts"] == truth
        assert got.restarts == len(lives) - 1


def test_a_page_that_shows_another_model_at_the_end_is_named(make_scrape: Make, make_page: Make) -> None:
    """D31: another server took the port in mid-run; its counters are not ours, and the window says why it is short."""
    ours = [make_scrape(t, make_page({"drafts": 10 * t})) for t in (0, 5)]
    got = counted([*ours, *(make_scrape(t, make_page({"drafts": 900}, model="other")) for t in (8, 10))])
    assert got.deltas["drafts"] == 50
    assert any("no scrape after that was usable (shows other, not m)" in note for note in got.incomplete)
