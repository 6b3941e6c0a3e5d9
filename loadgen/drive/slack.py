"""What can wait, waits for what is due: reading, recording and preparing give way to the next send."""

from __future__ import annotations

import asyncio

from loadgen.clock import now_ns

#: A piece of other work takes some tenths of a millisecond: none begins so shortly before a request is due.
MARGIN_NS = 200_000
#: A load that is never ahead of its schedule is late anyhow, and says so; other work goes on at this pace.
PATIENCE_NS = 5_000_000


class Slack:
    """When the next request of each segment in progress is due; one object for all drivers of an event loop."""

    def __init__(self) -> None:
        self._due_ns: dict[object, int] = {}

    def expect(self, who: object, due_ns: int) -> None:
        """`who`'s next request is due then (CLOCK_MONOTONIC), until it expects another."""
        self._due_ns[who] = due_ns

    def forget(self, who: object) -> None:
        self._due_ns.pop(who, None)

    def soon(self) -> bool:
        """A request is due, or about to be."""
        return any(due_ns - now_ns() < MARGIN_NS for due_ns in self._due_ns.values())

    async def spare(self) -> None:
        """Give the loop to others at least once, and until nothing is due soon, within `PATIENCE_NS`."""
        until_ns = now_ns() + PATIENCE_NS
        while True:
            await asyncio.sleep(0)
            if not self._due_ns or not self.soon() or now_ns() > until_ns:
                return
