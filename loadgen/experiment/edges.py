"""The idle edges of a segment: no request in flight, and the counters as they stand then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from loadgen.clock import now_ns
from loadgen.experiment.places import Standing
from loadgen.observe import Edge, Idle
from loadgen.plan import Segment

#: A wait for an idle server longer than this is said.
SAY_AFTER_S = 1.5
#: An arm's server that was idle so shortly before is not looked at again for it.
STILL_IDLE_NS = 1_000_000_000
#: How long a server is waited for that was busy all through idle_wait_s before.
BUSY_WAIT_S = 2.0


class Edges:
    """Waits for idle servers, at most `idle_wait_s` each, and has them scraped. Once `interrupted` is set, one look is
    all it takes."""

    def __init__(
        self, standing: Standing, idle_wait_s: float, interrupted: asyncio.Event, say: Callable[[str], None]
    ) -> None:
        self._standing = standing
        self._idle_wait_s = idle_wait_s
        self._interrupted = interrupted
        self._say = say
        self._idle_since: dict[str, int] = {}
        self._never_idle: set[str] = set()

    def moved(self) -> None:
        """The servers are others now."""
        self._idle_since.clear()

    async def scraped(self, segment: Segment, edge: Edge) -> Idle:
        """Wait for an idle server, then scrape. Where the arm's last part has just ended so, only the scrape is left:
        what others asked in between is then counted in neither."""
        idle_ns = self._idle_since.pop(segment.arm, None)
        if edge == "start" and idle_ns is not None and now_ns() - idle_ns < STILL_IDLE_NS:
            idle = Idle(True, None, 0.0)
        else:
            idle = await self._until_idle(segment.arm)
        await self._standing.scraper.edge(segment.arm, segment.number, edge)
        if edge == "end" and idle.reached:
            self._idle_since[segment.arm] = now_ns()
        return idle

    async def _until_idle(self, arm: str) -> Idle:
        """A server that did not become idle in the whole of idle_wait_s is busy with others' work: later waits are
        short."""
        limit = self._idle_wait_s
        if arm in self._never_idle:
            limit = min(limit, BUSY_WAIT_S)
        idle = await self._wait(arm, limit)
        if idle.reached:
            self._never_idle.discard(arm)
        elif idle.reached is False:
            self._never_idle.add(arm)
        return idle

    async def _wait(self, arm: str, limit: float) -> Idle:
        """One look is all that an interrupted run takes, also when the interrupt comes while it waits."""
        scraper = self._standing.scraper
        waiting = asyncio.create_task(scraper.wait_idle(arm, limit))
        interrupted = asyncio.create_task(self._interrupted.wait())
        both = (waiting, interrupted)
        done, _ = await asyncio.wait(both, timeout=SAY_AFTER_S, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            self._say(f"waiting for the server of {arm} to become idle, at most {limit:g} s …")
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        interrupted.cancel()
        if waiting.done():
            return waiting.result()
        waiting.cancel()
        return await scraper.wait_idle(arm, 0.0)
