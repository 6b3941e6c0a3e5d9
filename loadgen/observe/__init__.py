"""The servers' side: scrapes and windows."""

from loadgen.observe.gauges import GaugeTrack, gauge_mean, idle
from loadgen.observe.scraper import Scraper
from loadgen.observe.types import CounterWindow, Edge, Idle, Scrape, ScrapeArm, Scraped, SeriesKey
from loadgen.observe.windows import window

__all__ = [
    "CounterWindow",
    "Edge",
    "GaugeTrack",
    "Idle",
    "Scrape",
    "ScrapeArm",
    "Scraped",
    "Scraper",
    "SeriesKey",
    "gauge_mean",
    "idle",
    "window",
]
