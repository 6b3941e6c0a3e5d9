"""Live metrics of runs on the service's page, which outlives them.

Runs at once have a lane each, told apart by the label `lane`: a small number, so that labels do not grow with runs.
Counters of a lane go on from run to run, as a scraper expects of a process that lives on. What a run told stays a grace
time after its end, and then goes, unless a later run of the lane has told it, too. A lane whose run has ended is taken
again only after the grace time, while there are lanes left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from loadgen.export import FAMILIES, LANE, Counted, Metrics, MetricsTold, Series, family_of

#: Lanes beyond those that runs at once need.
SPARE = 2
#: What is 0 as soon as a run or a canary's monitor has ended.
_OF_NOW = ("run_active", "canary_active", "inflight_requests", "target_concurrency", "target_rate_per_second")


@dataclass
class _Lane:
    """`base`: where counters stood when the lane's run began, of series that it has told; `shown`: what a scrape gets.
    `told_by`: number of the run that told a series last."""

    numbers: dict[Series, float] = field(default_factory=dict)
    histograms: dict[Series, Counted] = field(default_factory=dict)
    base: dict[Series, float] = field(default_factory=dict)
    histogram_base: dict[Series, Counted] = field(default_factory=dict)
    told: MetricsTold = field(default_factory=MetricsTold)
    told_by: dict[Series, int] = field(default_factory=dict)
    run: int = 0
    active: bool = False
    #: run number to when its series go
    forget_at_s: dict[int, float] = field(default_factory=dict)


class Lanes:
    """Thread-safe. `now`: seconds, monotonic. `canaries`: monitors that have lanes beside the runs."""

    def __init__(
        self, at_once: int, grace_s: float, now: Callable[[], float] = time.monotonic, canaries: int = 0
    ) -> None:
        self._now = now
        self._grace_s = grace_s
        self._lock = Lock()
        self._lanes = [_Lane() for _ in range(at_once + SPARE + canaries)]
        self._of_runs = range(at_once + SPARE)
        for lane in self._lanes[:at_once]:
            lane.numbers["run_active", ()] = 0.0

    def begin(self, *, canary: bool = False) -> int:
        """A lane for a run: the first that is free and forgotten, else the one whose run ended longest ago. Canaries
        have theirs apart, so that runs are not spread over more lanes."""
        with self._lock:
            self._forget()
            lanes = range(len(self._of_runs), len(self._lanes)) if canary else self._of_runs
            free = [i for i in lanes if not self._lanes[i].active]
            number = min(free, key=lambda i: (max(self._lanes[i].forget_at_s.values(), default=0.0), i))
            lane = self._lanes[number]
            for series in [s for s in lane.numbers if FAMILIES[s[0]].of_run]:
                del lane.numbers[series]
                lane.told_by.pop(series, None)
            lane.run += 1
            lane.active = True
            lane.base, lane.histogram_base, lane.told = {}, {}, MetricsTold()
            return number

    def take(self, number: int, changes: Mapping[str, Any]) -> MetricsTold:
        """What the lane's run tells. Raises ValueError, TypeError or KeyError where it is none of ours."""
        with self._lock:
            lane = self._lanes[number]
            before = set(lane.told.numbers)
            lane.told.take(changes)
            for series in before - lane.told.numbers.keys():
                lane.numbers.pop(series, None)
            for name, values, *_ in changes["numbers"]:
                self._number(lane, (name, tuple(values)))
            for name, values, *_ in changes["histograms"]:
                self._histogram(lane, (name, tuple(values)))
            return lane.told

    def _number(self, lane: _Lane, series: Series) -> None:
        if series not in lane.told.numbers:
            return
        value = lane.told.numbers[series]
        if FAMILIES[series[0]].kind == "counter":
            value += lane.base.setdefault(series, lane.numbers.get(series, 0.0))
        lane.numbers[series] = value
        lane.told_by[series] = lane.run

    def _histogram(self, lane: _Lane, series: Series) -> None:
        """With other edges it begins anew: a reset to a scraper."""
        told = lane.told.histograms[series]
        base = lane.histogram_base.setdefault(series, lane.histograms.get(series, Counted(told.edges)))
        shown = Counted(told.edges, list(told.counts), told.total, dict(told.exemplars))
        if base.edges == told.edges:
            shown.merge(Counted(base.edges, list(base.counts), base.total))
        lane.histograms[series] = shown
        lane.told_by[series] = lane.run

    def end(self, number: int) -> None:
        """The lane's run is over: nothing is active in it, and what it told has its grace time."""
        with self._lock:
            lane = self._lanes[number]
            lane.active = False
            for name in _OF_NOW:
                for series in [s for s in lane.numbers if s[0] == name]:
                    lane.numbers[series] = 0.0
            lane.forget_at_s[lane.run] = self._now() + self._grace_s

    def _forget(self) -> None:
        now_s = self._now()
        for lane in self._lanes:
            over = {run for run, at_s in lane.forget_at_s.items() if now_s >= at_s}
            if not over:
                continue
            for series in [s for s, run in lane.told_by.items() if run in over and s[0] != "run_active"]:
                lane.numbers.pop(series, None)
                lane.histograms.pop(series, None)
                del lane.told_by[series]
            lane.forget_at_s = {run: at_s for run, at_s in lane.forget_at_s.items() if run not in over}

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            self._forget()
            numbers: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in FAMILIES}
            histograms: dict[str, dict[tuple[str, ...], Counted]] = {name: {} for name in FAMILIES}
            for i, lane in enumerate(self._lanes):
                for (name, values), number in lane.numbers.items():
                    numbers[name][*values, str(i)] = number
                for (name, values), counted in lane.histograms.items():
                    histograms[name][*values, str(i)] = counted
            found = [family_of(f, numbers[f.name], histograms[f.name], (LANE,)) for f in FAMILIES.values()]
        yield from (metric for metric in found if metric.samples)


class Page(Collector):
    """The service's page: what it tells of itself, and its lanes. The two have no family in common."""

    def __init__(self, own: Metrics, lanes: Lanes) -> None:
        self._own = own
        self._lanes = lanes

    def collect(self) -> Iterator[Metric]:
        yield from self._own.collect()
        yield from self._lanes.collect()

    def registry(self) -> CollectorRegistry:
        made = CollectorRegistry()
        made.register(self)
        return made
