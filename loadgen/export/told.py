"""Live metrics from one process to another: what has changed since the last time, as plain JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from loadgen.export.buckets import Counted, Exemplar
from loadgen.export.families import FAMILIES
from loadgen.export.store import Metrics, Series

#: Values are absolute, so a message that is left out is made up for by the next of its series.
Changes = dict[str, Any]


class MetricsTeller:
    """The sending side."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._numbers: dict[Series, float] = {}
        self._counts: dict[Series, list[int]] = {}

    def take(self) -> Changes | None:
        """What is new, another or gone since the last call; None: nothing."""
        numbers, histograms = self._metrics.numbers(), self._metrics.histograms()
        changed = [[name, values, n] for (name, values), n in numbers.items() if self._numbers.get((name, values)) != n]
        gone = [[name, values, None] for name, values in self._numbers.keys() - numbers.keys()]
        counted = [
            [name, values, c.edges, c.counts, c.total, _exemplars(c)]
            for (name, values), c in histograms.items()
            if self._counts.get((name, values)) != c.counts
        ]
        self._numbers = numbers
        self._counts = {series: c.counts for series, c in histograms.items()}
        return {"numbers": changed + gone, "histograms": counted} if changed or gone or counted else None


class MetricsTold:
    """The receiving side: everything as it was last told."""

    def __init__(self) -> None:
        self.numbers: dict[Series, float] = {}
        self.histograms: dict[Series, Counted] = {}

    def take(self, changes: Mapping[str, Any]) -> None:
        """Raises ValueError, TypeError or KeyError where it is none of ours."""
        for series, number in _known(changes["numbers"]):
            if number is None:
                self.numbers.pop(series, None)
            else:
                self.numbers[series] = float(number)
        for series, edges, counts, total, exemplars in _known(changes["histograms"]):
            if len(counts) != len(edges) + 1:
                raise ValueError(f"{series[0]}: {len(counts)} counts of {len(edges)} edges")
            kept = {int(i): Exemplar(float(v), str(r), float(at)) for i, v, r, at in exemplars}
            self.histograms[series] = Counted(tuple(edges), list(counts), float(total), kept)


def _known(rows: Iterable[Any]) -> Iterator[Any]:
    """(series, …) of each row. Raises KeyError for a family that there is not."""
    for name, values, *rest in rows:
        if len(values) != len(FAMILIES[name].labels):
            raise ValueError(f"{name}: {len(values)} labels")
        yield (name, tuple(map(str, values))), *rest


def _exemplars(counted: Counted) -> list[tuple[int, float, str, float]]:
    return [(i, e.value, e.request_id, e.at_s) for i, e in counted.exemplars.items()]
