"""What was seen on the servers' side. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from pydantic import SecretStr

from loadgen.scenario import Reach
from server_adapters.base import MetricsPage
from server_adapters.telemetry import Reading

Edge = Literal["start", "end"]


class Scraped(StrEnum):
    OK = "ok"
    UNREACHABLE = "unreachable"
    NOT_METRICS = "not_metrics"  # empty, HTML, another service
    FAMILIES_MISSING = "families_missing"  # a metrics page, but none of this server's


@dataclass(frozen=True, slots=True)
class Scrape:
    """One look at one metrics page. `page` is None unless `status` is OK.

    `asked_ns`/`answered_ns`: CLOCK_MONOTONIC around the request; a counter's value is of
    some instant between them. `source` is the page's URL, redacted. `edge` and `segment` are set
    for the scrapes taken at the idle edges of a segment, None for periodic ones.
    """

    arm: str
    source: str
    asked_ns: int
    answered_ns: int
    status: Scraped
    reason: str | None
    page: MetricsPage | None
    edge: Edge | None = None
    segment: int | None = None


@dataclass(frozen=True, slots=True)
class SeriesKey:
    name: str
    engine: str | None
    position: int | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class CounterWindow:
    """Increase of counters over [start_ns, end_ns], summed over engines and pages, of one model.

    A page's value at an edge is its edge scrape, else the last scrape answered before the start
    and the first asked after the end. A family absent at the start and present at the end
    counts from 0 in the same process, and after a restart from 0 of the new one.

    `deltas[name]` for families without position or detail; `by_position`, `by_detail`
    for the others. A family absent at both ends is absent here, with its reason in
    `absent[name]`. `restarts` counts resets seen inside; `incomplete` lists why the window
    may miss something (a page not scraped at an edge), empty if nothing. `restarts` is summed
    over pages.
    """

    start_ns: int
    end_ns: int
    deltas: dict[str, float]
    by_position: dict[str, tuple[float, ...]]
    by_detail: dict[str, dict[str, float]]
    absent: dict[str, str]
    restarts: int
    incomplete: tuple[str, ...]
    pages: int
    engines: int


@dataclass(frozen=True, slots=True)
class TelemetrySample:
    """One look at one source of an arm's hardware: "nvml", an exporter's page (masked URL) or "pid …".

    Stamps as in `Scrape`. `reason`: why there are no readings at all; `absent`: canonical name to why this source does
    not tell it. Names and units: `server_adapters.telemetry.TELEMETRY`.
    """

    arm: str
    source: str
    asked_ns: int
    answered_ns: int
    reason: str | None
    readings: tuple[Reading, ...]
    absent: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TelemetrySources:
    """Where an arm's hardware is looked at (docs/resources.md). `nvml`: GPUs of this machine, by index or UUID;
    `devices`: those of the exporters' pages that are the arm's, empty for all; `pid`: a server on this machine."""

    nvml: tuple[int | str, ...] = ()
    gpu_metrics_urls: tuple[str, ...] = ()
    devices: tuple[int | str, ...] = ()
    pid: int | None = None
    interval_s: float = 1.0

    @property
    def any(self) -> bool:
        return bool(self.nvml or self.gpu_metrics_urls or self.pid is not None)


@dataclass(frozen=True, slots=True)
class ScrapeArm:
    """One arm's metrics pages, and how to read them. `adapter` is a name for `server_adapters.adapter_named`;
    `metrics_urls` are all pages that hold the arm's counters (not one per replica, D5)."""

    name: str
    adapter: str
    model: str
    metrics_urls: tuple[str, ...]
    headers: Mapping[str, SecretStr] = field(default_factory=dict)
    reach: Reach = field(default_factory=Reach)
    telemetry: TelemetrySources = field(default_factory=TelemetrySources)


@dataclass(frozen=True, slots=True)
class Idle:
    """Whether running + waiting = 0 was seen on every page before the edge; None = cannot be known."""

    reached: bool | None
    reason: str | None
    waited_s: float
