"""What the servers' gauges said: time means over an interval, and whether a server is idle. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate

from loadgen.observe.types import Scrape
from loadgen.observe.windows import by_page
from server_adapters.base import MetricsPage

#: Ratios are averaged over engines and pages; every other gauge is summed.
RATIOS = frozenset({"kv_usage"})


class GaugeTrack:
    """One gauge of one arm, indexed for many questions. Only periodic, usable scrapes are samples.

    `model`: leave out series of other models; None takes all.
    """

    def __init__(self, scrapes: Iterable[Scrape], arm: str, name: str, model: str | None = None) -> None:
        self._ratio = name in RATIOS
        self._pages = [_samples(looks, name, model) for looks in by_page(scrapes, arm).values()]

    def mean(self, start_ns: int, end_ns: int) -> tuple[float, int] | None:
        """Time mean over the samples strictly inside, and their number on the page that has fewest.

        Sampling is periodic, so the plain mean over a page's samples is its time mean; pages are
        summed (ratios: averaged). None where a page of the arm has no sample inside: a partial sum
        would read as a smaller load.
        """
        means: list[float] = []
        fewest: int | None = None
        for asked, answered, sums in self._pages:
            first, end = bisect_right(asked, start_ns), bisect_left(answered, end_ns)
            if end <= first:
                return None
            means.append((sums[end] - sums[first]) / (end - first))
            fewest = end - first if fewest is None else min(fewest, end - first)
        if fewest is None:
            return None
        return (sum(means) / len(means) if self._ratio else sum(means)), fewest


def gauge_mean(
    scrapes: Iterable[Scrape], arm: str, name: str, start_ns: int, end_ns: int, model: str | None = None
) -> tuple[float, int] | None:
    """Time mean of a gauge of the arm over (start_ns, end_ns), summed over engines and pages; with its n."""
    return GaugeTrack(scrapes, arm, name, model).mean(start_ns, end_ns)


def idle(scrapes: Iterable[Scrape]) -> bool | None:
    """Whether running + waiting = 0 on all pages, whatever the model (they share the hardware).

    `scrapes`: the newest of every page. None = cannot be known: no page, a page that could not be read,
    or one without these gauges.
    """
    loads = [load(scrape) for scrape in scrapes]
    if any(one is not None and one > 0 for one in loads):
        return False
    return None if not loads or None in loads else True


def load(scrape: Scrape) -> float | None:
    """Requests running and waiting on one page; None where it does not tell both."""
    if scrape.page is None:
        return None
    running, waiting = value(scrape.page, "running"), value(scrape.page, "waiting")
    return None if running is None or waiting is None else running + waiting


def value(page: MetricsPage, name: str, model: str | None = None) -> float | None:
    """A gauge of one page over its engines: the sum (ratios: the mean); None where it is not there."""
    values = [s.value for s in page.series if s.name == name and (model is None or s.model in (None, model))]
    if not values:
        return None
    return sum(values) / len(values) if name in RATIOS else sum(values)


def _samples(looks: list[Scrape], name: str, model: str | None) -> tuple[list[int], list[int], list[float]]:
    """Stamps and running sums (`sums[i]` = sum of the first i values) of one page's samples."""
    asked: list[int] = []
    answered: list[int] = []
    values: list[float] = []
    for look in looks:
        seen = value(look.page, name, model) if look.page is not None and look.edge is None else None
        if seen is not None:
            asked.append(look.asked_ns)
            answered.append(look.answered_ns)
            values.append(seen)
    return asked, answered, list(accumulate(values, initial=0.0))
