"""What the service's benchmark says of its numbers."""

from __future__ import annotations

from argparse import Namespace

import pytest
from scrape_lag import Scraper
from service_load import Crowd, sentence

ASKED = Namespace(seconds=10.0, blocks=2, queued=50, watchers=20, every=1.0)


@pytest.mark.parametrize(
    ("beset_ms", "word"),
    [
        ((1.0, 1.2, 1.1, 1.2), "met"),
        ((2.0, 2.0, 2.01, 2.01), "not met"),
        ((1.0, 1.0, 2.0, 2.0), "not shown"),
    ],
)
def test_the_limit_is_met_missed_or_not_shown(beset_ms: tuple[float, ...], word: str) -> None:
    """By the whole interval."""
    told = sentence([0.001] * 4, [x / 1e3 for x in beset_ms], [], ASKED)
    assert told.endswith(f"limit 0.5 ms: {word}")


def test_a_crowd_that_was_not_there_shows_nothing() -> None:
    scraper = Scraper(1.0)
    scraper.took_s = [0.01] * 10
    assert Crowd(50, 9, 1000, scraper).problems(ASKED) == []
    scraper.took_s = []
    found = Crowd(49, 2, 10, scraper).problems(ASKED)
    assert found == ["only 49 runs waited", "a watcher got 2 looks, fewer than 7", "only 0 scrapes"]
    assert "limit 0.5 ms: not shown (only 49 runs waited;" in sentence([0.001] * 4, [0.001] * 4, found, ASKED)
