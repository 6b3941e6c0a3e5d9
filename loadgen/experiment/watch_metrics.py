"""What `specload watch` has counted, as metrics: the names of docs/metrics.md, with `source="server_window"`.

Counters go on where a server begins again at 0, so that one page tells more than the server's own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from loadgen.errors import ScenarioError
from loadgen.observe import CounterWindow, Scrape

#: name after specload_ -> canonical counter of the page, help
_COUNTED = {
    "verify_rounds": ("drafts", "verification rounds with a draft"),
    "draft_tokens": ("draft_tokens", "draft tokens proposed"),
    "accepted_tokens": ("accepted_tokens", "draft tokens accepted"),
    "output_tokens": ("generation_tokens", "output tokens, whoever asked for them"),
}
_OF_SPECULATION = ("verify_rounds", "draft_tokens", "accepted_tokens")
_LOOKS = {
    "server_scrapes": "looks at the server's metrics page",
    "server_scrape_errors": "looks that gave no usable page",
    "server_resets": "counters that went back: a restart",
}
_GAUGES = {"running": "server_running_requests", "waiting": "server_waiting_requests"}
_SOURCE = "server_window"


class WatchMetrics(Collector):
    """Series of an arm appear at 0 with its first look; those of speculation only where its page has them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], float] = {}
        self._accepted_at: dict[tuple[str, int], float] = {}
        self._gauges: dict[tuple[str, str], float] = {}

    def serve(self, host: str, port: int) -> int:
        """Answer on `port` (0: a free one) from a thread; the port. Raises ScenarioError where it cannot be had."""
        registry = CollectorRegistry()
        registry.register(self)
        try:
            server, _ = start_http_server(port, host, registry)
        except OSError as error:
            raise ScenarioError([f"--metrics-port {port}: {error.strerror}"]) from None
        return int(server.server_port)

    def begin(self, first: Scrape, model: str) -> None:
        with self._lock:
            self._counts |= {(name, first.arm): 0.0 for name in _LOOKS}
            for one in first.page.series if first.page is not None else ():
                if one.model not in (None, model):
                    continue
                if one.name == "accepted_at" and one.position is not None:
                    self._accepted_at[first.arm, one.position] = 0.0
                for name, (canonical, _) in _COUNTED.items():
                    if one.name == canonical:
                        self._counts[name, first.arm] = 0.0
            self._look(first)

    def seen(self, look: Scrape, since: CounterWindow | None) -> None:
        """`since`: what the counters did since the last usable look; None where that cannot be told."""
        with self._lock:
            self._look(look)
            if since is None:
                return
            self._add("server_resets", look.arm, since.restarts)
            for name, (canonical, _) in _COUNTED.items():
                if canonical in since.deltas:
                    self._add(name, look.arm, since.deltas[canonical])
            for position, n in enumerate(since.by_position.get("accepted_at", ())):
                key = look.arm, position
                self._accepted_at[key] = self._accepted_at.get(key, 0.0) + n

    def _look(self, look: Scrape) -> None:
        self._add("server_scrapes", look.arm, 1)
        self._add("server_scrape_errors", look.arm, look.page is None)
        self._gauges["server_scrape_duration_seconds", look.arm] = (look.answered_ns - look.asked_ns) / 1e9
        for canonical, name in _GAUGES.items():
            values = [s.value for s in look.page.series if s.name == canonical] if look.page is not None else []
            if values:
                self._gauges[name, look.arm] = sum(values)
            else:
                self._gauges.pop((name, look.arm), None)

    def _add(self, name: str, arm: str, n: float) -> None:
        self._counts[name, arm] = self._counts.get((name, arm), 0.0) + n

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            counts, at, gauges = dict(self._counts), dict(self._accepted_at), dict(self._gauges)
        for name, (_, text) in _COUNTED.items():
            source = {"source": _SOURCE} if name in _OF_SPECULATION else {}
            labels = {"task_type": "all", **source}
            family = CounterMetricFamily(f"specload_{name}", text, labels=["arm", *labels])
            for (counted, arm), value in counts.items():
                if counted == name:
                    family.add_metric([arm, *labels.values()], value)
            yield family
        positions = CounterMetricFamily(
            "specload_accepted_position",
            "rounds that accepted this position, from 0",
            labels=["arm", "position", "source"],
        )
        for (arm, position), value in at.items():
            positions.add_metric([arm, str(position), _SOURCE], value)
        yield positions
        for name, text in _LOOKS.items():
            family = CounterMetricFamily(f"specload_{name}", text, labels=["arm"])
            for (counted, arm), value in counts.items():
                if counted == name:
                    family.add_metric([arm], value)
            yield family
        for name in ("server_scrape_duration_seconds", *_GAUGES.values()):
            shown = GaugeMetricFamily(f"specload_{name}", "at the newest look", labels=["arm"])
            for (told, arm), value in gauges.items():
                if told == name:
                    shown.add_metric([arm], value)
            yield shown
