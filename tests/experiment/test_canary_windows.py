"""A canary's windows from hand-made looks and probes: restarts, grace, failed looks, bounded memory."""

from __future__ import annotations

from typing import Any

import pytest

from loadgen.analyze import Probe
from loadgen.control import Canary, CanaryWindow, CheckId, CheckReading
from loadgen.experiment.canary.checks import Checks
from loadgen.experiment.canary.windows import AWAITED, CanaryWindows, WindowData
from loadgen.observe import Scrape, Scraped
from loadgen.scenario import CanaryKeys
from server_adapters.base import MetricKind, MetricsPage, Series

ACCEPTANCE, RESTARTS, ERRORS = (CheckId(n, "counters") for n in ("acceptance", "restarts", "error_share"))
ARMS = ("candidate", "baseline")
WINDOW_S, LOOKS = 240.0, 48


class Server:
    """Counters that go on with every look: rounds by 10, drafts by 40, accepted by 40 × `acceptance`."""

    def __init__(self, arm: str, acceptance: float) -> None:
        self.arm, self.acceptance = arm, acceptance
        self.started, self.model = 1000.0, "m"
        self.counts = dict.fromkeys(("drafts", "draft_tokens", "accepted_tokens"), 0.0)
        self.ends = {"stop": 0.0, "error": 0.0}

    def restart(self) -> None:
        self.started += 100
        self.counts, self.ends = dict.fromkeys(self.counts, 0.0), dict.fromkeys(self.ends, 0.0)

    def look(self, at_s: float, *, traffic: float = 1.0) -> Scrape:
        for name, by in (("drafts", 10), ("draft_tokens", 40), ("accepted_tokens", 40 * self.acceptance)):
            self.counts[name] += by * traffic
        self.ends["stop"] += 5 * traffic
        series = [Series(n, MetricKind.COUNTER, v, model=self.model) for n, v in self.counts.items()]
        series += [
            Series("requests_finished", MetricKind.COUNTER, v, detail=end, model=self.model)
            for end, v in self.ends.items()
        ]
        page = MetricsPage(tuple(series), (self.model,), (), self.started)
        at_ns = round(at_s * 1e9)
        return Scrape(self.arm, f"http://{self.arm}/metrics", at_ns, at_ns + 1000, Scraped.OK, None, page)


class Watched:
    """Two servers, their windows and the canary's state. `window()` lets one go by."""

    def __init__(self, acceptance: float = 0.7, **keys: Any) -> None:
        limits = {"acceptance": 0.4, "restarts": 0, "error_share": 0.05}
        self.keys = CanaryKeys.model_validate({"window_s": WINDOW_S, "grace_windows": 0, "limits": limits, **keys})
        checks = Checks((ACCEPTANCE, RESTARTS, ERRORS))
        self.windows = CanaryWindows(self.keys, checks, *ARMS, dict.fromkeys(ARMS), dict.fromkeys(ARMS, "m"), 0)
        self.canary = Canary(checks.ids)
        self.servers = Server("candidate", acceptance), Server("baseline", 0.7)
        self.at_s = -1.0

    def window(self, *, traffic: float = 1.0, broken: bool = False, restart_at: int | None = None,
               restarting: str = "candidate") -> str:  # fmt: skip
        for i in range(LOOKS):
            self.at_s += WINDOW_S / LOOKS
            for server in self.servers:
                if i == restart_at and server.arm == restarting:
                    server.restart()
                look = server.look(self.at_s, traffic=traffic)
                if broken and server.arm == "candidate":
                    look = Scrape(
                        look.arm, look.source, look.asked_ns, look.answered_ns, Scraped.UNREACHABLE, "no", None
                    )
                self.windows.look(look, self.at_s)
        self.last = self.windows.judge(self.windows.cut(), self.at_s - WINDOW_S, self.at_s)
        self.standing = self.canary.take(self.last)
        return self.standing.state

    def reading(self, check: CheckId, of: CanaryWindow | None = None) -> CheckReading:
        return next(r for r in (of or self.last).readings if r.check == check)


def test_counters_of_a_good_canary() -> None:
    watched = Watched()
    assert [watched.window() for _ in range(3)] == ["ok"] * 3
    acceptance = watched.reading(ACCEPTANCE)
    assert (acceptance.value, acceptance.n) == (pytest.approx(0.7), 24)
    assert watched.last.share == pytest.approx(0.5)
    assert watched.standing.verdict == "pass"
    pooled = next(r for r in watched.last.pooled if r.check == ACCEPTANCE)
    assert pooled.n == 3 * 24


def test_a_fall_fails_on_the_third_window_and_recovers_after_three() -> None:
    watched = Watched()
    watched.window()
    watched.servers[0].acceptance = 0.1
    assert [watched.window() for _ in range(4)] == ["doubtful", "doubtful", "fail", "fail"]
    assert watched.standing.verdict == "fail"
    watched.servers[0].acceptance = 0.7
    assert [watched.window() for _ in range(3)] == ["fail", "fail", "ok"]


def test_an_idle_canary_has_no_data() -> None:
    """G15, G14: no traffic is neither a pass nor a fail, however long it lasts."""
    watched = Watched(acceptance=0.1)
    assert [watched.window(traffic=0.0) for _ in range(4)] == ["no_data"] * 4
    assert watched.standing.verdict == "inconclusive"
    assert watched.reading(ACCEPTANCE).reason == "0 drafted tokens; at least 500 are needed"
    assert watched.last.share_reason == "not known (0 requests; at least 20 are needed)"


def test_failed_looks_are_no_data_and_say_why() -> None:
    """G23: what the page did meanwhile is told by the first look after."""
    watched = Watched()
    watched.window()
    assert watched.window(broken=True) == "no_data"
    assert watched.reading(ACCEPTANCE).reason == "http://candidate/metrics: no"
    assert watched.window() == "ok"
    # the increase over the gap is one block's: nothing is lost
    assert watched.reading(ACCEPTANCE).value == pytest.approx(0.7)


def test_another_model_on_the_page_is_no_page_of_the_arm() -> None:
    """D31: somebody else's server behind the same address."""
    watched = Watched()
    watched.window()
    watched.servers[0].model = "other"
    assert watched.window() == "no_data"
    assert watched.reading(ACCEPTANCE).reason == "http://candidate/metrics: shows other, not m"


def test_a_restart_is_no_loss_and_its_window_is_not_judged() -> None:
    """D4: counters that begin anew; the window after a start is of a cold server."""
    watched = Watched(grace_windows=1)
    assert watched.window() == "no_data"  # the first one is not judged, and so is not known
    assert watched.window() == "ok"
    watched.servers[0].acceptance = 0.1
    assert watched.window(restart_at=10) == "doubtful"  # restarts are judged always
    acceptance = watched.reading(ACCEPTANCE)
    assert acceptance.skipped
    assert acceptance.reason == "not judged: candidate restarted"
    assert acceptance.value == pytest.approx(0.1)
    assert watched.reading(RESTARTS).value == 1
    assert watched.window() == "doubtful"
    assert not watched.reading(ACCEPTANCE).skipped
    assert watched.standing.checks[0].failing == 1


def test_a_canary_that_restarts_all_the_time_fails() -> None:
    """Grace must not hide a crash loop."""
    watched = Watched(grace_windows=1)
    watched.window()
    assert [watched.window(restart_at=10) for _ in range(3)] == ["doubtful", "doubtful", "fail"]
    assert "restarts (counters) failed in 3 windows in a row" in watched.standing.reasons[0]


def test_a_baseline_that_restarts_all_the_time_lets_no_pass_stay() -> None:
    """No window is judged any more: what was shown before goes as time goes on, and nothing new is shown."""
    watched = Watched(grace_windows=1, pooled_windows=3)
    assert [watched.window() for _ in range(4)] == ["no_data", "ok", "ok", "ok"]
    assert watched.standing.verdict == "pass"
    verdicts = []
    for _ in range(3):
        watched.window(restart_at=10, restarting="baseline")
        verdicts.append(watched.standing.verdict)
    assert verdicts == ["pass", "pass", "inconclusive"]
    pooled = next(r for r in watched.last.pooled if r.check == ACCEPTANCE)
    assert (pooled.value, pooled.result, pooled.reason) == (None, "no_data", "not judged: baseline restarted")
    assert [watched.window() for _ in range(2)] == ["ok", "ok"]
    assert watched.standing.verdict == "pass"


def test_windows_that_were_not_judged_are_not_pooled() -> None:
    watched = Watched(grace_windows=2, pooled_windows=3)
    counts = []
    for _ in range(6):
        watched.window()
        counts.append(next(r for r in watched.last.pooled if r.check == ACCEPTANCE).n)
    assert counts == [0, 0, 24, 48, 72, 72]


def probe(pair: int, at_s: float, windows: CanaryWindows) -> Probe:
    return Probe(pair, windows.block_at(at_s), False, 0.1, 0.02)


def test_pairs_count_where_their_second_half_ended() -> None:
    windows = Watched().windows
    windows.probe("candidate", probe(1, 10.0, windows))
    first = windows.cut()
    windows.probe("baseline", probe(1, 12.0, windows))
    second = windows.cut()
    assert (first.probes, first.sent) == ({}, {"candidate": 1})
    assert {name: [p.pair for p in some] for name, some in second.probes.items()} == {"candidate": [1], "baseline": [1]}


def test_memory_does_not_grow() -> None:
    """Days of windows, and of pairs whose other half never ended."""
    watched = Watched(pooled_windows=2)
    for _ in range(4):
        watched.window()
    for pair in range(AWAITED + 500):
        watched.windows.probe("candidate", probe(pair, 1.0, watched.windows))
    kept = watched.windows._kept
    assert len(kept) == 2
    assert all(isinstance(data, WindowData) for data in kept)
    assert len(watched.windows._awaited["candidate"]) == AWAITED
