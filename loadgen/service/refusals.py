"""Refused logins in the audit log: each with its row, up to so many a minute, and the rest as a number."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from threading import Lock

from loadgen.service.limits import source_of
from loadgen.service.registry import Audit

#: Rows of their own in a minute, of all addresses: the log of a service that is being guessed at stays readable.
OWN_ROWS = 20
MINUTE_S = 60.0
#: Addresses that are told apart in a minute; more are told as "at least".
MOST_SOURCES = 1000


class Refusals:
    """Thread-safe. What is counted is written by `tell`: once a minute, and before the service ends."""

    def __init__(self, audit: Audit, now: Callable[[], float] = time.monotonic) -> None:
        self._audit = audit
        self._now = now
        self._lock = Lock()
        self._since = now()
        self._rows = 0
        self._more = 0
        self._sources: set[str] = set()

    def add(self, address: str | None, route: str | None) -> None:
        """A token that nobody has was shown."""
        self.tell()
        with self._lock:
            own = self._rows < OWN_ROWS
            self._rows += own
        if own:
            self._audit.add("unknown", "login.refused", address=address, subject=route, status=401)
        else:
            self.more(address)

    def more(self, address: str | None) -> None:
        """One that gets no row of its own: there were too many, or it was not even compared. Writes nothing."""
        with self._lock:
            self._more += 1
            if len(self._sources) < MOST_SOURCES:
                self._sources.add(source_of(address))

    def tell(self, *, ending: bool = False) -> None:
        """Write down what was counted in the minute that is over (`ending`: until now)."""
        with self._lock:
            passed_s = self._now() - self._since
            if passed_s < MINUTE_S and not ending:
                return
            more, sources = self._more, sorted(self._sources)
            self._since, self._rows, self._more, self._sources = self._now(), 0, 0, set()
        if more:
            least = "at least " if len(sources) >= MOST_SOURCES else ""
            named = sources[0] if len(sources) == 1 else f"{least}{len(sources)} addresses"
            try:
                self._audit.add(
                    "unknown", "login.refused", status=401, address=sources[0] if len(sources) == 1 else None,
                    detail=f"{more} more refused within {passed_s:.0f} s, from {named}",
                )  # fmt: skip
            except sqlite3.Error:
                with self._lock:  # told the next time
                    self._more += more
                    self._sources.update(sources)
                raise
