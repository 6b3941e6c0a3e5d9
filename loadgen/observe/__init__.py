"""The servers' side: scrapes and windows."""

from loadgen.observe.gauges import GaugeTrack, gauge_mean, idle
from loadgen.observe.hardware import gpu_facts
from loadgen.observe.scraper import Scraper
from loadgen.observe.tracks import Measured, Tracks, tracks_of
from loadgen.observe.types import (
    CounterWindow,
    Edge,
    Idle,
    Scrape,
    ScrapeArm,
    Scraped,
    SeriesKey,
    TelemetrySample,
    TelemetrySources,
)
from loadgen.observe.windows import window

__all__ = [
    "CounterWindow",
    "Edge",
    "GaugeTrack",
    "Idle",
    "Measured",
    "Scrape",
    "ScrapeArm",
    "Scraped",
    "Scraper",
    "SeriesKey",
    "TelemetrySample",
    "TelemetrySources",
    "Tracks",
    "gauge_mean",
    "gpu_facts",
    "idle",
    "tracks_of",
    "window",
]
