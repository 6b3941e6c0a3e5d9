"""After an anomaly: does the server still answer what it answered before, and has it let go of what was left?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from loadgen.clock import now_ns
from loadgen.control import FIRST_WAIT_S, LONGEST_WAIT_S
from loadgen.errors import TargetUnusable
from loadgen.experiment.anomalies.known import Known
from loadgen.experiment.anomalies.server import Server
from loadgen.scenario import AnomalyKeys

#: Between two looks at running and waiting: doubled from the first up to the last.
_FIRST_LOOK_S, _LOOK_S = 0.0625, 0.5
#: Looks in a row that must say for sure that the server is dead.
_SURE_LOOKS = 2


@dataclass
class Aftermath:
    """What was learned in the time before: the probe's answers, and the most that ran and waited."""

    server: Server
    name: str
    prompt: str
    keys: AnomalyKeys
    wait_s: float
    note: Callable[..., None]
    answers: set[str] = field(default_factory=set)
    most_busy: float | None = None
    settled: bool = False

    async def normal(self) -> None:
        """One look and one probe of the time before."""
        busy = await self.server.busy()
        if busy is not None:
            self.most_busy = max(self.most_busy or 0.0, busy)
            self.note("busy", busy=busy)
        await self.probe(None, 0)

    async def after(self, name: str, repeat: int) -> str:
        """What the probe saw. Raises TargetUnusable where the server does not come back."""
        known, seen = await self.probe(name, repeat)
        if known.text is None and await self.until_back(name, repeat, known):
            seen = "died"
        await self._let_go(name, repeat)
        return seen

    async def probe(self, name: str | None, repeat: int) -> tuple[Known, str]:
        """The event `probe`, and its `seen`: as of a witness."""
        known = await self.server.ask(self.prompt, self.keys.probe_s)
        seen = self._seen(known)
        self.note(
            "probe", known.ended_ns, after=name, repeat=repeat, seen=seen, s=round(known.seconds, 6),
            digest=known.digest, failed=known.failed,
        )  # fmt: skip
        return known, seen

    def _seen(self, known: Known) -> str:
        if known.text is None:
            return "failed"
        if not self.settled:
            self.answers.add(known.text)
            return "learned"
        return "same" if known.text in self.answers else "new"

    async def until_back(self, name: str, repeat: int, failed: Known) -> bool:
        """Looks with growing waits until the server serves again: the event `down`, with how long it took; None: it did
        not. True: it was dead for sure meanwhile, which no healthy server is: any may fail a request."""
        wait_s, limit_ns = FIRST_WAIT_S, failed.begun_ns + round((self.keys.probe_s + self.wait_s) * 1e9)
        how, sure, died = failed.failed or "", 0, False
        while True:
            found = await self.server.look()
            if found.alive:
                break
            how = found.how
            sure = sure + 1 if found.sure else 0
            died = died or sure >= _SURE_LOOKS
            if now_ns() > limit_ns:
                self.note("down", after=name, repeat=repeat, how=how, died=True, away_s=None)
                raise TargetUnusable(
                    f"{name} ended the server of {self.name}: {how}; not back within {self.wait_s:g} s "
                    "(safety.breaker_wait_s)"
                )
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)
        away_s = (now_ns() - failed.begun_ns) / 1e9
        self.note("down", after=name, repeat=repeat, how=how, died=died, away_s=away_s)
        return died

    async def _let_go(self, name: str, repeat: int) -> None:
        """The event `let_go`: how long until no more ran and waited than at most before; None: not within
        `abandon_s`. `looks`: (when, how many)."""
        if self.most_busy is None:
            return
        begun_ns, looks, wait_s = now_ns(), [], _FIRST_LOOK_S
        while True:
            busy, at_ns = await self.server.busy(), now_ns()
            looks.append((at_ns, busy))
            gone = busy is not None and busy <= self.most_busy
            if gone or at_ns - begun_ns > self.keys.abandon_s * 1e9:
                s = (at_ns - begun_ns) / 1e9 if gone else None
                self.note("let_go", after=name, repeat=repeat, s=s, busy=busy, looks=looks)
                return
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LOOK_S)
