"""Canaries whose monitors write into the service's folder of runs: its own, and `specload canary --out FOLDER`.

Everything here is as it is true now: `active` is false of a canary whose monitor has died (its `ended` is None).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from threading import Lock

from loadgen.errors import StorageError
from loadgen.experiment import CanaryResult, read_canary, true_now
from loadgen.service.runner.retention import erase

#: Newest ones that lists of pages and rollout routes look at.
MOST = 200
Signature = tuple[int, int, int]


class Canaries:
    """Thread-safe; reads the disk. What cannot be read is left out: it is not a canary's, or is being written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()
        #: what was read of a file stays true of it; canary.json is replaced as a whole
        self._read: dict[str, tuple[Signature, CanaryResult]] = {}
        #: when those ended that are known to have ended, ISO 8601
        self._ended: dict[str, str] = {}

    def ids(self, before: str | None = None) -> list[str]:
        """Newest first; `before`: only older ones than this."""
        found = sorted((path.parent.name for path in self._folder.glob("*-canary-*/canary.json")), reverse=True)
        return found if before is None else [one for one in found if one < before]

    def of_id(self, canary_id: str) -> CanaryResult | None:
        """`canary_id` is one path part, as the route's pattern has it."""
        path = self._folder / canary_id
        try:
            return true_now(path, read_canary(path))
        except StorageError:
            return None

    def page(self, before: str | None, most: int) -> tuple[list[CanaryResult], str | None]:
        """The newest first; and what the next page is `before`, if there is one."""
        ids, found = self.ids(before), list[CanaryResult]()
        for place, canary_id in enumerate(ids, 1):
            if (one := self.of_id(canary_id)) is not None:
                found.append(one)
            if len(found) == most:
                return found, canary_id if place < len(ids) else None
        return found, None

    def newest(self, scenario: str) -> CanaryResult | None:
        return next((one for one in self.glances() if one.scenario == scenario), None)

    def glances(self) -> Iterator[CanaryResult]:
        """The newest ones, newest first, without their alerts and calls; read again only where they have changed."""
        ids = self.ids()[:MOST]
        with self._lock:
            self._read = {one: self._read[one] for one in ids if one in self._read}
        for canary_id in ids:
            if (one := self._glance(canary_id)) is not None:
                yield one

    def _glance(self, canary_id: str) -> CanaryResult | None:
        path = self._folder / canary_id
        try:
            there = (path / "canary.json").stat()
            now = there.st_mtime_ns, there.st_ino, there.st_size
            with self._lock:
                known = self._read.get(canary_id)
            if known is None or known[0] != now:
                known = now, read_canary(path).model_copy(update={"alerts": [], "calls": []})
                with self._lock:
                    self._read[canary_id] = known
            return true_now(path, known[1]).model_copy(update={"alerts": [], "calls": []})
        except (OSError, StorageError):
            return None

    def too_old(self, days: float | None, most: int | None, now_s: float) -> list[str]:
        """Ids of those that have ended and are not kept."""
        if days is None and most is None:
            return []
        over = {one: at for one in self.ids() if (at := self._ended_at(one)) is not None}
        doomed = set() if most is None else set(itertools.islice(over, most, None))
        if days is not None:
            doomed |= {one for one, at in over.items() if now_s - datetime.fromisoformat(at).timestamp() > 86400 * days}
        return [one for one in over if one in doomed]

    def _ended_at(self, canary_id: str) -> str | None:
        """None: it goes on, or cannot be read. Of one that died, when it was last known to live."""
        with self._lock:
            known = self._ended.get(canary_id)
        if known is None and (one := self.of_id(canary_id)) is not None and not one.active:
            known = one.ended or one.window_ended or one.started
            with self._lock:
                self._ended[canary_id] = known
        return known

    def erase(self, canary_id: str) -> str | None:
        """Delete one that has ended. Why not, where it stays."""
        problem = erase(self._folder.absolute() / canary_id, self._folder.absolute(), canary_id)
        with self._lock:
            self._ended.pop(canary_id, None)
        return problem
