"""Scrapes to rows and back; what a segment's rows are labelled with."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Protocol

import orjson

from loadgen.observe import Scrape, Scraped, TelemetrySample
from server_adapters.base import MetricKind, MetricsPage, Series
from server_adapters.telemetry import Reading

Row = dict[str, Any]


class Labels(Protocol):
    """What a segment's rows are labelled with: a `plan.Segment`, or a `PhaseRecord`."""

    @property
    def stage(self) -> str: ...
    @property
    def repeat_idx(self) -> int: ...
    @property
    def block(self) -> int: ...
    @property
    def executor(self) -> str: ...
    @property
    def concurrency(self) -> int | None: ...
    @property
    def rate_per_s(self) -> float | None: ...


def scrape_row(scrape: Scrape) -> Row:
    page = scrape.page
    return {
        "arm": scrape.arm,
        "source": scrape.source,
        "asked_ns": scrape.asked_ns,
        "answered_ns": scrape.answered_ns,
        "status": scrape.status.value,
        "reason": scrape.reason,
        "edge": scrape.edge,
        "segment": scrape.segment,
        "started_unix_s": page.started_unix_s if page else None,
        "model_names": list(page.model_names) if page else None,
        "engines": list(page.engines) if page else None,
        "series": [asdict(series) for series in page.series] if page else None,
    }


def scrape_of(row: Row) -> Scrape:
    page = None
    if row["series"] is not None:
        page = MetricsPage(
            series=tuple(Series(**{**one, "kind": MetricKind(one["kind"])}) for one in row["series"]),
            model_names=tuple(row["model_names"]),
            engines=tuple(row["engines"]),
            started_unix_s=row["started_unix_s"],
        )
    keys = ("arm", "source", "asked_ns", "answered_ns", "reason", "edge", "segment")
    return Scrape(**{key: row[key] for key in keys}, status=Scraped(row["status"]), page=page)


def telemetry_row(sample: TelemetrySample) -> Row:
    keys = ("arm", "source", "asked_ns", "answered_ns", "reason")
    return {
        **{key: getattr(sample, key) for key in keys},
        "readings": [asdict(reading) for reading in sample.readings],
        "absent": orjson.dumps(dict(sample.absent)).decode(),
    }


def telemetry_of(row: Row) -> TelemetrySample:
    keys = ("arm", "source", "asked_ns", "answered_ns", "reason")
    readings = tuple(Reading(**one) for one in row["readings"])
    return TelemetrySample(**{key: row[key] for key in keys}, readings=readings, absent=orjson.loads(row["absent"]))
