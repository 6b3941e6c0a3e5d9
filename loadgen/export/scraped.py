"""The servers' metrics pages as live metrics: gauges of the newest look, counters while measured segments run."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from loadgen.export.store import Metrics
from loadgen.observe import CounterWindow, Scrape, window
from server_adapters.base import MetricsPage
from server_adapters.rounds import from_positions

_GAUGES = {
    "running": "server_running_requests",
    "waiting": "server_waiting_requests",
    "kv_usage": "server_kv_usage_ratio",
}
_DRAFTS = ("drafts", "draft_tokens", "accepted_tokens")


class Pages:
    """Increases are taken between neighbouring usable looks at one page, from a measured segment's start edge to its
    end edge, by the restart-safe rule of `observe.window`; series of other models are left out.

    `task`: what the counters' task_type is called; servers tell none.
    """

    def __init__(
        self,
        metrics: Metrics,
        models: Mapping[str, str],
        artefacts: Mapping[str, bool | None],
        task: str,
        measured: Collection[int],
    ) -> None:
        self._metrics = metrics
        self._models = models
        self._artefacts = artefacts
        self._task = task
        self._measured = measured
        self._counting: set[tuple[str, str]] = set()
        self._before: dict[tuple[str, str], Scrape] = {}
        self._newest: dict[str, dict[str, MetricsPage | None]] = {}

    def scraped(self, scrape: Scrape) -> None:
        told, arm, key = self._metrics, scrape.arm, (scrape.arm, scrape.source)
        told.inc("server_scrapes_total", arm=arm)
        told.set("server_scrape_duration_seconds", (scrape.answered_ns - scrape.asked_ns) / 1e9, arm=arm)
        usable = self._usable(scrape)
        if not usable:
            told.inc("server_scrape_errors_total", arm=arm)
        self._newest.setdefault(arm, {})[scrape.source] = scrape.page if usable else None
        self._gauges(arm)
        if scrape.edge == "start" and scrape.segment in self._measured:
            self._counting.add(key)
            self._before.pop(key, None)
        if key in self._counting and usable:
            self._increase(key, scrape)
        if scrape.edge == "end" and usable:
            self._counting.discard(key)

    def _usable(self, scrape: Scrape) -> bool:
        """A page about another model is no page of the arm."""
        names = scrape.page.model_names if scrape.page is not None else ()
        return scrape.page is not None and (not names or self._models[scrape.arm] in names)

    def _gauges(self, arm: str) -> None:
        """A page that does not tell takes the number away: the sum of the others would read as a smaller load."""
        pages, model = self._newest[arm], self._models[arm]
        for name, family in _GAUGES.items():
            values = [None if page is None else _gauge(page, name, model) for page in pages.values()]
            known = [v for v in values if v is not None]
            total = sum(known) / (len(known) if name == "kv_usage" else 1) if known else None
            self._metrics.set(family, total if len(known) == len(values) else None, arm=arm)
        there = [page for page in pages.values() if page is not None]
        drafts = any(series.name == "drafts" for page in there for series in page.series)
        self._metrics.set("server_spec_counters", float(drafts) if there else None, arm=arm)

    def _increase(self, key: tuple[str, str], scrape: Scrape) -> None:
        before = self._before.get(key)
        if before is not None and scrape.edge is None and scrape.asked_ns < before.answered_ns:
            return  # looks that overlap have no order
        self._before[key] = scrape
        if before is None:
            return
        arm = scrape.arm
        found = window((before, scrape), arm, self._models[arm], before.answered_ns, scrape.asked_ns)
        self._metrics.inc("server_resets_total", found.restarts, arm=arm)
        if any(name not in found.deltas for name in _DRAFTS):
            return
        labels = {"arm": arm, "task_type": self._task, "source": "server_window"}
        drafts, drafted, accepted = (found.deltas[name] for name in _DRAFTS)
        self._metrics.inc("verify_rounds_total", drafts, **labels)
        self._metrics.inc("draft_tokens_total", drafted, **labels)
        self._metrics.inc("accepted_tokens_total", accepted, **labels)
        self._metrics.inc("rollback_rounds_total", self._rolled_back(arm, found), **labels)
        for position, n in enumerate(found.by_position.get("accepted_at", ())[:16]):
            self._metrics.inc("accepted_position_total", n, arm=arm, position=str(position), source="server_window")

    def _rolled_back(self, arm: str, found: CounterWindow) -> int:
        """The lower bound, as of per-request statistics; counters read in the middle of a round may contradict
        each other, and show nothing."""
        drafts, drafted, _ = (round(found.deltas[name]) for name in _DRAFTS)
        at = [round(n) for n in found.by_position.get("accepted_at", ())]
        artefact = self._artefacts[arm]
        if artefact or (artefact is None and drafted == len(at) * drafts):
            return 0
        try:
            return from_positions(drafts, drafted, at, zero_length_rounds=True).low if at else 0
        except ValueError:
            return 0


def _gauge(page: MetricsPage, name: str, model: str) -> float | None:
    values = [s.value for s in page.series if s.name == name and s.model in (None, model)]
    if not values:
        return None
    return sum(values) / len(values) if name == "kv_usage" else sum(values)
