"""Increase of counters over a window: restart-safe, summed over engines and pages. Pure.

The rule is Prometheus' increase() without extrapolation: differences between neighbouring scrapes, and
after a reset the whole new value (docs/method.md, "Speculation"; D3, D4). Looks that overlap in time have no
order, so no difference is taken between them. A histogram's sum of seconds is no counter: one observation below
zero (a clock that stepped, a late server's queue time) lets it fall, so in the same process only counts that fall
are a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from loadgen.observe.types import CounterWindow, Edge, Scrape, SeriesKey
from server_adapters.base import CANONICAL, MetricKind, MetricsPage

#: Start times of one process, read twice, may differ by rounding; a restart takes longer than this.
SAME_PROCESS_S = 1.0

#: Sums of what histograms observed, seconds.
_SUMS = frozenset(name for name in CANONICAL if name.endswith("_sum"))

_Values = dict[SeriesKey, float]


@dataclass(slots=True)
class _PageIncrease:
    increase: _Values = field(default_factory=dict)
    engines: set[str | None] = field(default_factory=set)
    restarts: int = 0
    incomplete: list[str] = field(default_factory=list)


def window(
    scrapes: Iterable[Scrape], arm: str, model: str, start_ns: int, end_ns: int, segment: int | None = None
) -> CounterWindow:
    """Increase of every counter of `model` on the arm's pages over [start_ns, end_ns] (see `CounterWindow`).

    With `segment`, the edges are that segment's own edge scrapes where they were usable.
    """
    found: dict[str, _PageIncrease] = {}
    unusable: list[str] = []
    for source, looks in by_page(scrapes, arm).items():
        edges = _edges(looks, model, start_ns, end_ns, segment)
        if isinstance(edges, str):
            unusable.append(f"{source}: {edges}")
        else:
            found[source] = _page_increase(edges.between, model)
            found[source].incomplete[:0] = edges.notes
    return _assemble(found, unusable, start_ns, end_ns)


def by_page(scrapes: Iterable[Scrape], arm: str) -> dict[str, list[Scrape]]:
    """The arm's scrapes by page, each page's in time order."""
    pages: dict[str, list[Scrape]] = {}
    for scrape in sorted(scrapes, key=lambda s: (s.answered_ns, s.asked_ns)):
        if scrape.arm == arm:
            pages.setdefault(scrape.source, []).append(scrape)
    return pages


def unusable(scrape: Scrape, model: str) -> str | None:
    """Why nothing can be read from this scrape about `model`; None if something can (D31)."""
    if scrape.page is None:
        return f"{scrape.status}: {scrape.reason or 'no reason given'}"
    names = scrape.page.model_names
    if names and model not in names:
        return f"shows {', '.join(names)}, not {model}"
    return None


@dataclass(frozen=True, slots=True)
class _Edges:
    between: list[Scrape]  # from the scrape that gives the first value to the one that gives the last
    notes: list[str]


def _edges(looks: Sequence[Scrape], model: str, start_ns: int, end_ns: int, segment: int | None) -> _Edges | str:
    good = [i for i, look in enumerate(looks) if unusable(look, model) is None]
    if not good:
        return f"never scraped ({unusable(looks[-1], model)})"
    notes: list[str] = []
    first = _first(looks, good, start_ns, segment, notes)
    last = _last(looks, good, end_ns, segment, notes)
    if last == good[-1] < len(looks) - 1 and looks[last].answered_ns < end_ns:
        notes.append(f"no scrape after that was usable ({unusable(looks[-1], model)})")
    if first >= last:
        return "one usable scrape only: no difference can be taken"
    return _Edges(_apart(looks[first : last + 1], model), [f"{looks[0].source}: {note}" for note in notes])


def _apart(looks: Sequence[Scrape], model: str) -> list[Scrape]:
    """Without those that overlap the first, the last or the one before. What failed has no values to be ordered."""
    first, *inner, last = looks
    kept, free_ns = [first], first.answered_ns
    for look in inner:
        if unusable(look, model) is not None:
            kept.append(look)
        elif free_ns <= look.asked_ns and look.answered_ns <= last.asked_ns:
            kept.append(look)
            free_ns = look.answered_ns
    return [*kept, last]


def _first(looks: Sequence[Scrape], good: Sequence[int], start_ns: int, segment: int | None, notes: list[str]) -> int:
    own = [i for i in good if segment is not None and looks[i].segment == segment and looks[i].edge == "start"]
    if own:
        return own[-1]
    before = [i for i in good if looks[i].answered_ns <= start_ns]
    if not before:
        late = (looks[good[0]].answered_ns - start_ns) / 1e9
        notes.append(f"not scraped before the window: counted from {late:.3f} s after its start")
        return good[0]
    if segment is not None:
        early = (start_ns - looks[before[-1]].answered_ns) / 1e9
        why = _why_no_edge(looks, segment, "start")
        notes.append(f"no scrape at the start edge{why}: counted from {early:.3f} s before it")
    return before[-1]


def _last(looks: Sequence[Scrape], good: Sequence[int], end_ns: int, segment: int | None, notes: list[str]) -> int:
    own = [i for i in good if segment is not None and looks[i].segment == segment and looks[i].edge == "end"]
    if own:
        return own[0]
    after = [i for i in good if looks[i].asked_ns >= end_ns]
    if not after:
        early = (end_ns - looks[good[-1]].asked_ns) / 1e9
        notes.append(f"not scraped after the window: counted until {early:.3f} s before its end")
        return good[-1]
    if segment is not None:
        late = (looks[after[0]].asked_ns - end_ns) / 1e9
        why = _why_no_edge(looks, segment, "end")
        notes.append(f"no scrape at the end edge{why}: counted until {late:.3f} s after it")
    return after[0]


def _why_no_edge(looks: Sequence[Scrape], segment: int, edge: Edge) -> str:
    """What became of the last try at this edge; nothing where there was none."""
    tries = [look for look in looks if look.segment == segment and look.edge == edge]
    return f" ({tries[-1].status}: {tries[-1].reason})" if tries else ""


def _page_increase(between: Sequence[Scrape], model: str) -> _PageIncrease:
    source = between[0].source
    good = [look for look in between if unusable(look, model) is None]
    pages = [look.page for look in good if look.page is not None]
    out = _PageIncrease()
    lines = _lineages(pages)
    if lines is None:
        _follow(pages, model, source, out)
    else:
        out.incomplete.append(
            f"{source}: {len(lines)} server processes answer in turn (a load balancer?): what each did "
            "before it was first seen is missing; list every replica's own metrics page"
        )
        for line in lines:
            _follow(line, model, source, out)
    failed = [look for look in between if unusable(look, model) is not None]
    if failed and (out.restarts or any(page.started_unix_s is None for page in pages)):
        out.incomplete.append(
            f"{source}: {len(failed)} of {len(between)} scrapes inside the window failed "
            f"({unusable(failed[0], model)}): a restart may have gone unseen"
        )
    return out


def _lineages(pages: Sequence[MetricsPage]) -> list[list[MetricsPage]] | None:
    """Pages by server process where several processes answer in turn; None for one process and its restarts.

    A restart never leads back to an earlier start time; a load balancer does (D3).
    """
    lines: list[tuple[float, list[MetricsPage]]] = []
    newest, back = float("-inf"), False
    for page in pages:
        started = page.started_unix_s
        if started is None:
            return None
        back = back or started < newest - SAME_PROCESS_S
        newest = max(newest, started)
        known = [line for at, line in lines if abs(at - started) <= SAME_PROCESS_S]
        if known:
            known[0].append(page)
        else:
            lines.append((started, [page]))
    return [line for _, line in lines] if back else None


def _follow(pages: Sequence[MetricsPage], model: str, source: str, out: _PageIncrease) -> None:
    """Add the increase over one process and its successors to `out`."""
    last = _counters(pages[0], model)
    out.engines |= _engines(pages[0], model)
    for earlier, page in pairwise(pages):
        values = _counters(page, model)
        out.engines |= _engines(page, model)
        fallen = {key for key, value in values.items() if value < last.get(key, 0.0)}
        another = _another_process(earlier, page)
        if another is False and all(key.name in _SUMS for key in fallen):
            fallen = set()
        elif another or (fallen and another is None):
            fallen = set(last)
        if another or fallen:
            out.restarts += 1
            out.incomplete.append(
                f"{source}: restarted: what it counted after the last scrape before the restart is lost"
            )
        for key in fallen:
            last[key] = 0.0
        for key, value in values.items():
            out.increase[key] = out.increase.get(key, 0.0) + value - last.get(key, 0.0)
        last.update(values)
    gone = sorted({key.name for key in last if key not in values and last[key] > 0.0}) if len(pages) > 1 else []
    if gone:
        out.incomplete.append(f"{source}: gone from the page by the end of the window: {', '.join(gone)}")


def _another_process(earlier: MetricsPage, later: MetricsPage) -> bool | None:
    """None: the pages do not tell, only falling counters do."""
    if earlier.started_unix_s is None or later.started_unix_s is None:
        return None
    return abs(later.started_unix_s - earlier.started_unix_s) > SAME_PROCESS_S


def _mine(page: MetricsPage, model: str) -> Iterator[tuple[SeriesKey, float]]:
    for one in page.series:
        if one.kind is MetricKind.COUNTER and one.model in (None, model):
            yield SeriesKey(one.name, one.engine, one.position, one.detail), one.value


def _counters(page: MetricsPage, model: str) -> _Values:
    """Series of the same key (labels the adapter dropped) are summed: never overwritten (D1)."""
    values: _Values = {}
    for key, value in _mine(page, model):
        values[key] = values.get(key, 0.0) + value
    return values


def _engines(page: MetricsPage, model: str) -> set[str | None]:
    """Engines on the page; series of the whole server (no engine label) are no engine beside labelled ones."""
    found = {key.engine for key, _ in _mine(page, model)}
    return found if found == {None} else found - {None}


def _assemble(found: dict[str, _PageIncrease], unusable_pages: list[str], start_ns: int, end_ns: int) -> CounterWindow:
    deltas: dict[str, float] = {}
    positions: dict[str, dict[int, float]] = {}
    details: dict[str, dict[str, float]] = {}
    for page in found.values():
        for key, value in page.increase.items():
            if key.position is not None:
                of_name = positions.setdefault(key.name, {})
                of_name[key.position] = of_name.get(key.position, 0.0) + value
            elif key.detail is not None:
                of_detail = details.setdefault(key.name, {})
                of_detail[key.detail] = of_detail.get(key.detail, 0.0) + value
            else:
                deltas[key.name] = deltas.get(key.name, 0.0) + value
    by_position, absent = _dense(positions)
    known = deltas.keys() | by_position.keys() | details.keys()
    for name in sorted(n for n, kind in CANONICAL.items() if kind is MetricKind.COUNTER and n not in known):
        absent.setdefault(name, _why_absent(found, unusable_pages))
    return CounterWindow(
        start_ns=start_ns,
        end_ns=end_ns,
        deltas=deltas,
        by_position=by_position,
        by_detail=details,
        absent=absent,
        restarts=sum(page.restarts for page in found.values()),
        incomplete=(*unusable_pages, *(note for page in found.values() for note in page.incomplete)),
        pages=len(found),
        engines=sum(len(page.engines) for page in found.values()),
    )


def _why_absent(found: dict[str, _PageIncrease], unusable_pages: list[str]) -> str:
    if not found:
        return "; ".join(unusable_pages) or "the arm has no metrics page, or it was never scraped"
    return "; ".join(["not on the pages that were read", *unusable_pages])


def _dense(positions: dict[str, dict[int, float]]) -> tuple[dict[str, tuple[float, ...]], dict[str, str]]:
    """Per-position counts as tuples from position 0; a gap would shift meanings, so it is an absence."""
    dense: dict[str, tuple[float, ...]] = {}
    absent: dict[str, str] = {}
    for name, counts in positions.items():
        missing = sorted(set(range(max(counts) + 1)) - counts.keys())
        if missing:
            absent[name] = f"positions {missing} are missing on the page"
        else:
            dense[name] = tuple(counts[i] for i in range(len(counts)))
    return dense, absent
