"""What was seen on the servers' side. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from server_adapters.base import MetricsPage


class Scraped(StrEnum):
    OK = "ok"
    UNREACHABLE = "unreachable"
    NOT_METRICS = "not_metrics"  # empty, HTML, another service
    FAMILIES_MISSING = "families_missing"  # a metrics page, but none of this server's


@dataclass(frozen=True, slots=True)
class Scrape:
    """One look at one replica's metrics. `page` is None unless `status` is OK.

    `asked_ns`/`answered_ns`: CLOCK_MONOTONIC around the request; a counter's value is of
    some instant between them. `edge` names a phase edge ("segment 3 start"), None for periodic.
    """

    arm: str
    replica: str
    asked_ns: int
    answered_ns: int
    status: Scraped
    reason: str | None
    page: MetricsPage | None
    edge: str | None = None


@dataclass(frozen=True, slots=True)
class SeriesKey:
    name: str
    engine: str | None
    position: int | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class CounterWindow:
    """Increase of counters over [start_ns, end_ns], summed over engines and replicas.

    `deltas[name]` for families without position or detail; `by_position`, `by_detail`
    for the others. A family absent at both ends is absent here, with its reason in
    `absent[name]`. `restarts` counts resets seen inside; `incomplete` lists why the window
    may miss something (a replica not scraped at an edge), empty if nothing.
    """

    start_ns: int
    end_ns: int
    deltas: dict[str, float]
    by_position: dict[str, tuple[float, ...]]
    by_detail: dict[str, dict[str, float]]
    absent: dict[str, str]
    restarts: int
    incomplete: tuple[str, ...]
    replicas: int
    engines: int
