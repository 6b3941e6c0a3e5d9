"""What the servers' own counters say of a pull: when they rose last, and when they rose again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from loadgen.analyze.summary import N
from loadgen.observe import Scrape
from server_adapters.base import MetricsPage

SOURCE = "counters"
_ARRIVED = frozenset({"requests_finished", "running", "waiting"})

Read = Callable[[MetricsPage, str], float | None]


@dataclass(frozen=True, slots=True)
class Rise:
    """A counter rose between two scrapes of a page: not before `low_ns`, no later than `high_ns`."""

    low_ns: int
    high_ns: int
    by: float


@dataclass(frozen=True)
class Watched:
    """The pages of one side. `looks`: usable scrapes by page, in time order."""

    looks: tuple[tuple[Scrape, ...], ...]
    model: str

    @property
    def any(self) -> bool:
        return any(len(page) > 1 for page in self.looks)

    def rises(self, read: Read) -> list[Rise]:
        """In time order. A counter that fell (a restart) rises from 0."""
        found = []
        for page in self.looks:
            values = [(look, read(look.page, self.model)) for look in page if look.page is not None]
            for (before, was), (after, now) in pairwise(values):
                if now is not None and now > (was or 0.0):
                    found.append(Rise(before.asked_ns, after.answered_ns, now - (was or 0.0)))
                elif now is not None and was is not None and 0 < now < was:
                    found.append(Rise(before.asked_ns, after.answered_ns, now))
        return sorted(found, key=lambda rise: rise.high_ns)


def watched(scrapes: Sequence[Scrape], sources: Collection[str], model: str) -> Watched:
    """`sources`: names of the side's pages, as the scrapes have them."""
    by_page: dict[str, list[Scrape]] = {name: [] for name in sources}
    for scrape in sorted(scrapes, key=lambda s: s.answered_ns):
        if scrape.source in by_page and scrape.page is not None:
            by_page[scrape.source].append(scrape)
    return Watched(tuple(tuple(page) for page in by_page.values()), model)


def counter(name: str) -> Read:
    """The sum of a counter over engines and further labels; None where it is not on the page."""

    def read(page: MetricsPage, model: str) -> float | None:
        values = [s.value for s in page.series if s.name == name and s.model in (None, model)]
        return sum(values) if values else None

    return read


def arrived(page: MetricsPage, model: str) -> float | None:
    """Requests that have come so far: those that ended, run or wait. None where the page does not tell."""
    found = [s for s in page.series if s.name in _ARRIVED and s.model in (None, model)]
    return sum(s.value for s in found) if {s.name for s in found} >= {"requests_finished", "running"} else None


def arrivals(side: Watched) -> list[Rise]:
    """A request that ends moves from a gauge to a counter, not always in one scrape: only new heights count."""
    heights: list[Rise] = []
    for page in side.looks:
        highest: float | None = None
        for before, after in pairwise(page):
            was, now = (None if p is None else arrived(p, side.model) for p in (before.page, after.page))
            if highest is None or (was is not None and was > highest):
                highest = was
            if now is not None and highest is not None and now > highest:
                heights.append(Rise(before.asked_ns, after.answered_ns, now - highest))
                highest = now
    return sorted(heights, key=lambda rise: rise.high_ns)


def last_rise(side: Watched, rises: Sequence[Rise], from_ns: int, to_ns: int, what: str) -> N:
    """Seconds from `from_ns` to the last rise that may lie before `to_ns`: bounds alone, or 0 where none came after."""
    n = sum(len(page) for page in side.looks)
    if not side.any:
        return N(value=None, n=n, source=SOURCE, reason="no page of the speculating servers was read")
    after = [rise for rise in rises if rise.high_ns > from_ns and rise.low_ns < to_ns]
    if any(not any(from_ns <= look.asked_ns < to_ns for look in page) for page in side.looks):
        return N(value=None, n=n, source=SOURCE, reason="a page of the speculating servers was not read after the pull")
    if not rises:
        return N(value=None, n=n, source=SOURCE, reason=f"{what} never rose: not told, or nothing happened")
    if not after:
        return N(value=0.0, low=0.0, high=0.0, n=n, source=SOURCE, reason="it did not rise any more")
    low, high = (max(getattr(after[-1], key) - from_ns, 0) / 1e9 for key in ("low_ns", "high_ns"))
    return N(value=None, low=low, high=high, n=n, source=SOURCE, reason="known from one scrape to the next")


def first_rise(side: Watched, rises: Sequence[Rise], from_ns: int, to_ns: int, what: str) -> N:
    """Seconds from `from_ns` to the first rise that began after it and is seen before `to_ns`."""
    n = sum(len(page) for page in side.looks)
    if not side.any:
        return N(value=None, n=n, source=SOURCE, reason="no page of the speculating servers was read")
    after = [rise for rise in rises if rise.low_ns >= from_ns and rise.high_ns <= to_ns]
    if not after:
        return N(value=None, n=n, source=SOURCE, reason=f"{what} did not rise before the end")
    low, high = (max(getattr(after[0], key) - from_ns, 0) / 1e9 for key in ("low_ns", "high_ns"))
    return N(value=None, low=low, high=high, n=n, source=SOURCE, reason="known from one scrape to the next")
