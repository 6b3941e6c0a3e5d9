"""What watchers of a run are told, as it happens: kept for a while, so that a lost connection can be taken up again.

An event's id is `BOOT.NUMBER`: numbers rise by one within a run; `BOOT` is another after a restart of the service.
Kinds: `snapshot` (all there is to know, first of all), `state` (the run's row), `segment`, `said` (a sentence), `look`
(numbers of the last seconds, once a second), `ended` (the run's row, the last one).
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

#: Events of one run that are kept.
KEPT = 1000
#: Looks of one run that a snapshot has at most: a longer run's are thinned.
MOST_LOOKS = 1200
MOST_SAID = 300
#: Events that wait for one watcher: one that takes none for so long is cut off, and may come again.
WAITING = 200


@dataclass(frozen=True, slots=True)
class Event:
    number: int
    kind: str
    data: bytes

    def frame(self, boot: str) -> bytes:
        """As server-sent event."""
        return b"id: %s.%d\nevent: %s\ndata: %s\n\n" % (boot.encode(), self.number, self.kind.encode(), self.data)


class TooSlow(Exception):
    """The watcher does not take what it is told."""


class Watcher:
    """One stream. `take` waits for the next event; None: there will be no more. Raises TooSlow."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._lost = False

    def tell(self, event: Event | None, *, first: bool = False) -> None:
        """`first`: of what it missed, however much that is."""
        if not first and self._queue.qsize() >= KEPT + WAITING:
            self._lost = True
        if not self._lost:
            self._queue.put_nowait(event)

    async def take(self) -> Event | None:
        if self._lost:
            raise TooSlow
        return await self._queue.get()


class RunEvents:
    """Of one run. On the service's loop only."""

    def __init__(self, boot: str) -> None:
        self.boot = boot
        self._number = 0
        self._kept: deque[Event] = deque(maxlen=KEPT)
        self._watchers: set[Watcher] = set()
        self._said: deque[dict[str, Any]] = deque(maxlen=MOST_SAID)
        self._looks: list[dict[str, Any]] = []
        self._every = 1
        self._skipped = 0
        self._segment: dict[str, Any] | None = None
        self._over = self._closed = False

    def publish(self, kind: str, data: Mapping[str, Any]) -> None:
        told = dict(data)
        if kind == "said":
            self._said.append(told)
        elif kind == "look":
            self._look(told)
        elif kind == "segment":
            self._segment = told
        self._number += 1
        event = Event(self._number, kind, orjson.dumps(told))
        self._kept.append(event)
        self._over = self._over or kind == "ended"
        for watcher in self._watchers:
            watcher.tell(event)
            if self._over:
                watcher.tell(None)

    def _look(self, look: dict[str, Any]) -> None:
        self._skipped += 1
        if self._skipped < self._every:
            return
        self._skipped = 0
        self._looks.append(look)
        if len(self._looks) > MOST_LOOKS:
            self._looks = self._looks[::2]
            self._every *= 2

    def snapshot(self, run: Mapping[str, Any]) -> dict[str, Any]:
        """`run`: its row by now."""
        return {"run": dict(run), "segment": self._segment, "said": list(self._said), "looks": list(self._looks)}

    @property
    def number(self) -> int:
        """Of the newest event."""
        return self._number

    def watch(self, last_id: str | None, run: Mapping[str, Any]) -> Watcher:
        """What comes after the event of this id; else, or where that is not kept any more, a snapshot (`run`: its row
        by now) and what comes after it."""
        watcher = Watcher()
        missed = self._since(last_id)
        if missed is None:
            watcher.tell(Event(self._number, "snapshot", orjson.dumps(self.snapshot(run))), first=True)
        for event in missed or ():
            watcher.tell(event, first=True)
        if self._over or self._closed:
            watcher.tell(None, first=True)
        else:
            self._watchers.add(watcher)
        return watcher

    def _since(self, last_id: str | None) -> list[Event] | None:
        """None: it cannot be told."""
        boot, _, text = (last_id or "").partition(".")
        if boot != self.boot or not (text.isascii() and text.isdecimal() and len(text) < 12):
            return None
        last = int(text)
        oldest = self._number - len(self._kept)
        return [e for e in self._kept if e.number > last] if oldest <= last <= self._number else None

    def leave(self, watcher: Watcher) -> None:
        self._watchers.discard(watcher)

    def close(self) -> None:
        """The service ends: watchers are let go, and may come again to the next one. No more are taken."""
        self._closed = True
        for watcher in self._watchers:
            watcher.tell(None)
        self._watchers.clear()

    @property
    def watchers(self) -> int:
        return len(self._watchers)


def new_boot() -> str:
    return secrets.token_hex(4)
