"""What watchers are told, run by run: of those that are driven, and of the last ones that were."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container

from loadgen.service.events import RunEvents
from loadgen.service.registry import RunRow

#: Runs that are over and whose events are still there to be taken up.
KEPT_EVENTS = 50


class Telling:
    """On the service's loop only. `boot`: see `events`. `active`: ids of runs that are driven."""

    def __init__(self, boot: str, active: Callable[[], Container[str]]) -> None:
        self._boot = boot
        self._active = active
        self._events: OrderedDict[str, RunEvents] = OrderedDict()
        self._closed = False

    def of(self, row: RunRow) -> RunEvents:
        """What watchers of the run are told, and were. `row`: as it is by now."""
        found = self._events.get(row.id)
        if found is None:
            found = self._events[row.id] = RunEvents(self._boot)
            if row.state.over:
                found.publish("ended", row.shown())
            if self._closed:
                found.close()
            driven = self._active()
            idle = [k for k, e in self._events.items() if not e.watchers and k not in driven and k != row.id]
            for name in idle[: max(0, len(self._events) - KEPT_EVENTS)]:
                del self._events[name]
        return found

    def ended(self, row: RunRow) -> None:
        """Once, whoever has asked before."""
        known = row.id in self._events
        events = self.of(row)
        if known:
            events.publish("ended", row.shown())

    def forget(self, run_id: str) -> None:
        """Its records are gone. Whoever watches it stays until it goes itself."""
        found = self._events.pop(run_id, None)
        if found is not None:
            found.close()

    def close(self) -> None:
        """The service ends: who watches is let go, and who comes now is told what there is, and let go as well."""
        self._closed = True
        for events in self._events.values():
            events.close()
