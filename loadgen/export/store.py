"""The values behind the metrics page: written by a run, read by whoever scrapes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    Exemplar,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from loadgen.export.buckets import Counted
from loadgen.export.families import FAMILIES, Family

Values = tuple[str, ...]
#: (name without its prefix, values of its labels in their order)
Series = tuple[str, Values]
_ALL = tuple(FAMILIES.values())
#: Series about one run stay so long after its end: two scrapes of any usual interval.
GRACE_S = 120.0
#: OpenMetrics allows 128 characters of labels in an exemplar.
_LONGEST_ID = 100


class Metrics(Collector):
    """Values by family and labels, thread-safe. Counters only grow; nothing has a value before it is given one, so
    `declare` says 0 of what is known to come: a series born at 5 has an increase of 0.

    `now`: seconds, monotonic; after `forget_after_grace` the families of one run go when it is over.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic, grace_s: float = GRACE_S) -> None:
        self._now = now
        self._grace_s = grace_s
        self._lock = Lock()
        self._numbers: dict[str, dict[Values, float]] = {
            name: {} for name, family in FAMILIES.items() if family.kind != "histogram"
        }
        self._histograms: dict[str, dict[Values, Counted]] = {
            name: {} for name, family in FAMILIES.items() if family.kind == "histogram"
        }
        self._forget_at_s: float | None = None
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def declare(self, name: str, **labels: str) -> None:
        """0, unless it has a value."""
        with self._lock:
            self._numbers[name].setdefault(_values(name, labels), 0.0)

    def declare_histogram(self, name: str, edges: tuple[float, ...], **labels: str) -> None:
        """Empty, unless it is there. With other edges it begins anew: a counter reset to a scraper, and new edges begin
        at 0."""
        values = _values(name, labels)
        with self._lock:
            kept = self._histograms[name].get(values)
            if kept is None or kept.edges != edges:
                self._histograms[name][values] = Counted(edges)

    def inc(self, name: str, by: float = 1.0, **labels: str) -> None:
        """Raises ValueError where a counter would go back."""
        if by < 0 and FAMILIES[name].kind == "counter":
            raise ValueError(f"{name}: a counter cannot go back by {-by:g}")
        values = _values(name, labels)
        with self._lock:
            self._numbers[name][values] = self._numbers[name].get(values, 0.0) + by

    def set(self, name: str, value: float | None, **labels: str) -> None:
        """Of a gauge; None takes the series away: not known is not 0."""
        values = _values(name, labels)
        with self._lock:
            if value is None:
                self._numbers[name].pop(values, None)
            else:
                self._numbers[name][values] = float(value)

    def observe(self, name: str, counted: Counted, **labels: str) -> None:
        values = _values(name, labels)
        with self._lock:
            kept = self._histograms[name].setdefault(values, Counted(counted.edges))
            kept.merge(counted)

    def value(self, name: str, **labels: str) -> float | None:
        with self._lock:
            return self._numbers[name].get(_values(name, labels))

    @property
    def begun(self) -> bool:
        """Whether a run or a canary was ever told of."""
        with self._lock:
            return any(self._numbers[name] for name in ("run_active", "canary_active"))

    def histogram(self, name: str, **labels: str) -> Counted | None:
        with self._lock:
            return self._histograms[name].get(_values(name, labels))

    def forget_after_grace(self) -> None:
        """The run is over: what is about it alone goes after the grace time, or it would stand on every dashboard."""
        with self._lock:
            self._forget_at_s = self._now() + self._grace_s

    def forget_run(self) -> None:
        """Now: another run begins."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        self._forget_at_s = None
        for name, family in FAMILIES.items():
            if family.of_run:
                self._numbers[name].clear()

    def collect(self) -> Iterator[Metric]:
        """A consistent look at everything; families without a value are left out."""
        with self._lock:
            if self._forget_at_s is not None and self._now() >= self._forget_at_s:
                self._forget()
            found = [family_of(f, self._numbers.get(f.name, {}), self._histograms.get(f.name, {})) for f in _ALL]
        yield from (metric for metric in found if metric.samples)

    def numbers(self) -> dict[Series, float]:
        """Every counter and gauge now."""
        with self._lock:
            return {(name, values): n for name, found in self._numbers.items() for values, n in found.items()}

    def histograms(self) -> dict[Series, Counted]:
        """Every histogram now, as copies."""
        with self._lock:
            return {
                (name, values): Counted(kept.edges, list(kept.counts), kept.total, dict(kept.exemplars))
                for name, found in self._histograms.items()
                for values, kept in found.items()
            }

    def describe(self) -> Iterator[Metric]:
        """Registering must not collect: the names are these."""
        yield from (_empty(family) for family in _ALL)


def family_of(
    family: Family, numbers: Mapping[Values, float], histograms: Mapping[Values, Counted], more: tuple[str, ...] = ()
) -> Metric:
    """A family as Prometheus' library has it. `more`: labels beyond its own, whose values come last."""
    made = _empty(family, more)
    if family.kind == "histogram":
        for values, counted in histograms.items():
            made.add_metric(values, _buckets(counted), counted.total)
    else:
        for values, number in numbers.items():
            made.add_metric(values, number)
    return made  # type: ignore[no-any-return]


def _empty(family: Family, more: tuple[str, ...] = ()) -> Any:
    kinds = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily}
    return kinds[family.kind](family.full_name, family.meaning, labels=(*family.labels, *more))


def _values(name: str, labels: dict[str, str]) -> Values:
    family = FAMILIES[name]
    if labels.keys() != set(family.labels):
        raise ValueError(f"{name} has the labels {', '.join(family.labels)}, not {', '.join(labels)}")
    return tuple(labels[label] for label in family.labels)


def _buckets(counted: Counted) -> Sequence[Any]:
    names = [*(str(edge) for edge in counted.edges), "+Inf"]
    found: list[Any] = []
    for i, (name, n) in enumerate(zip(names, counted.cumulative(), strict=True)):
        seen = counted.exemplars.get(i)
        if seen is None or len(seen.request_id) > _LONGEST_ID:
            found.append((name, n))
        else:
            found.append((name, n, Exemplar({"request_id": seen.request_id}, seen.value, seen.at_s)))
    return found
