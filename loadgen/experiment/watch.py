"""Running servers' draft and accept counters, live, without a request of our own."""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from loadgen.errors import ScenarioError, TargetUnusable
from loadgen.experiment.watch_metrics import WatchMetrics
from loadgen.observe import CounterWindow, Scrape, ScrapeArm, Scraped, Scraper, window
from loadgen.processes import SIGNALS


@dataclass(frozen=True, slots=True)
class Reading:
    """One arm over the last window of `seconds`. A number that cannot be told is None, and `notes` says why.

    `tokens_per_round`: 1 + accepted ÷ rounds, of rounds with a draft. `running`, `waiting`: at the newest look.
    """

    arm: str
    seconds: float
    acceptance: float | None
    tokens_per_round: float | None
    rounds_per_s: float | None
    tokens_per_s: float | None
    running: float | None
    waiting: float | None
    notes: tuple[str, ...] = ()


async def watch(
    arms: Sequence[ScrapeArm],
    interval_s: float,
    window_s: float,
    show: Callable[[list[Reading]], None],
    metrics: WatchMetrics | None = None,
) -> None:
    """Look every `interval_s` and show every arm's last `window_s`, until cancelled; SIGINT and SIGTERM cancel, also
    where they were held (`signals_held`) until now.

    An arm whose `model` is empty is of the only model that its page shows. Raises TargetUnusable if a page cannot be
    read at the start; later that is a note.
    """
    watcher = _Watcher(window_s + interval_s, metrics)
    scraper = Scraper(arms, interval_s, max(1.0, interval_s), watcher.seen)
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for name in SIGNALS:
        loop.add_signal_handler(name, task.cancel)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    try:
        await scraper.start()
        for arm in arms:
            watcher.begin(arm, (await scraper.edge(arm.name, 0, "start"))[0])
        while True:
            await asyncio.sleep(interval_s)
            show([watcher.reading(arm.name) for arm in arms])
    finally:
        for name in SIGNALS:  # the end is under way: another signal must not leave the scraper behind
            loop.add_signal_handler(name, lambda: None)
        await scraper.stop()
        for name in SIGNALS:
            loop.remove_signal_handler(name)


class _Watcher:
    """What was seen of each arm: kept for `keep_s`, and counted from the first usable look on."""

    def __init__(self, keep_s: float, metrics: WatchMetrics | None) -> None:
        self._keep_ns = int(keep_s * 1e9)
        self._metrics = metrics
        self._looks: dict[str, deque[Scrape]] = {}
        self._models: dict[str, str] = {}

    def begin(self, arm: ScrapeArm, first: Scrape) -> None:
        if first.page is None:
            raise TargetUnusable(f"{arm.name}: {first.source}: {first.reason or first.status}")
        names = first.page.model_names
        if not arm.model and len(names) > 1:
            raise ScenarioError([f"{first.source} serves {', '.join(names)}: choose one with --model"])
        if arm.model and names and arm.model not in names:
            raise TargetUnusable(f"{first.source} serves {', '.join(names)}, not {arm.model}")
        self._models[arm.name] = arm.model or (names[0] if names else "")
        self._looks[arm.name] = deque([first])
        if self._metrics is not None:
            self._metrics.begin(first, self._models[arm.name])

    def seen(self, look: Scrape) -> None:
        """Looks before an arm has begun are its own start's business."""
        looks = self._looks.get(look.arm)
        if looks is None:
            return
        if self._metrics is not None:
            last = next((one for one in reversed(looks) if one.page is not None), None)
            self._metrics.seen(look, self._since(last, look))
        looks.append(look)
        while len(looks) > 2 and look.answered_ns - looks[1].answered_ns >= self._keep_ns:
            looks.popleft()

    def reading(self, arm: str) -> Reading:
        looks = self._looks[arm]
        usable = [look for look in looks if look.status is Scraped.OK and look.page is not None]
        newest = looks[-1]
        if len(usable) < 2:
            why = newest.reason or newest.status if newest.page is None else "one look so far"
            return Reading(arm, 0.0, None, None, None, None, None, None, (str(why),))
        first, last = usable[0], usable[-1]
        found = window(looks, arm, self._models[arm], first.answered_ns, last.asked_ns)
        notes = [*found.incomplete] if newest.page is not None else [f"now: {newest.reason or newest.status}"]
        return _reading(arm, found, (last.answered_ns - first.answered_ns) / 1e9, newest, notes)

    def _since(self, last: Scrape | None, look: Scrape) -> CounterWindow | None:
        if last is None or look.page is None:
            return None
        return window([last, look], look.arm, self._models[look.arm], last.answered_ns, look.asked_ns)


def _reading(arm: str, found: CounterWindow, seconds: float, newest: Scrape, notes: list[str]) -> Reading:
    rounds, drafted, accepted, tokens = (
        found.deltas.get(name) for name in ("drafts", "draft_tokens", "accepted_tokens", "generation_tokens")
    )
    if rounds is None:
        notes.append("no speculation: the page has no draft counters")
    elif not rounds:
        notes.append("no draft in this window")
    return Reading(
        arm=arm,
        seconds=seconds,
        acceptance=accepted / drafted if accepted is not None and drafted else None,
        tokens_per_round=1 + accepted / rounds if accepted is not None and rounds else None,
        rounds_per_s=None if rounds is None else rounds / seconds,
        tokens_per_s=None if tokens is None else tokens / seconds,
        running=gauge(newest, "running"),
        waiting=gauge(newest, "waiting"),
        notes=tuple(notes),
    )


def gauge(look: Scrape, name: str) -> float | None:
    """Sum over engines and models at one look."""
    values = [s.value for s in look.page.series if s.name == name] if look.page is not None else []
    return sum(values) if values else None
