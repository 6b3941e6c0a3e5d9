"""After an anomaly: does the server still answer what it answered before, and has it let go of what was left?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

from loadgen.clock import now_ns
from loadgen.control import FIRST_WAIT_S, LONGEST_WAIT_S
from loadgen.errors import TargetUnusable
from loadgen.experiment.anomalies.known import Asker, Known
from loadgen.experiment.health import look
from loadgen.experiment.preflight import ReadyArm
from loadgen.scenario import AnomalyKeys
from server_adapters.base import CollectionError, Endpoint, Target, TargetError
from server_adapters.probing import ask_server

#: Between two looks at running and waiting.
_LOOK_S = 0.5


@dataclass
class Aftermath:
    """What was learned in the time before: the probe's answers, and the most that ran and waited."""

    client: httpx.AsyncClient
    arm: ReadyArm
    target: Target
    endpoint: Endpoint
    asker: Asker
    prompt: str
    keys: AnomalyKeys
    wait_s: float
    note: Callable[..., None]
    answers: set[str] = field(default_factory=set)
    most_busy: float | None = None
    settled: bool = False

    async def normal(self) -> None:
        """One look and one probe of the time before."""
        busy = await self.busy()
        if busy is not None:
            self.most_busy = max(self.most_busy or 0.0, busy)
        await self.probe(None, 0)

    async def after(self, name: str, repeat: int) -> None:
        """Raises TargetUnusable where the server does not come back."""
        known = await self.probe(name, repeat)
        if known.text is None:
            await self._until_back(name, repeat, known)
        await self._let_go(name, repeat)

    async def probe(self, name: str | None, repeat: int) -> Known:
        """The event `probe`: `seen` as of a witness; asked twice where the first answer is a new one."""
        known = await self.asker.ask(self.prompt, self.keys.probe_s)
        seen = self._seen(known)
        if seen == "new":
            again = await self.asker.ask(self.prompt, self.keys.probe_s)
            known, seen = (again, "same") if self._seen(again) == "same" else (known, seen)
        self.note(
            "probe", known.ended_ns, after=name, repeat=repeat, seen=seen, s=round(known.seconds, 6),
            digest=known.digest, failed=known.failed,
        )  # fmt: skip
        return known

    def _seen(self, known: Known) -> str:
        if known.text is None:
            return "failed"
        if not self.settled:
            self.answers.add(known.text)
            return "learned"
        return "same" if known.text in self.answers else "new"

    async def _until_back(self, name: str, repeat: int, failed: Known) -> None:
        """Looks with growing waits until the server serves again: the event `down`, with how long it took; None: it did
        not."""
        wait_s, limit_ns = FIRST_WAIT_S, failed.begun_ns + round((self.keys.probe_s + self.wait_s) * 1e9)
        how, died = failed.failed or "", False
        while True:
            found = await look(self.arm, self.endpoint, trial=True)
            if found.alive:
                break
            how, died = found.how, True
            if now_ns() > limit_ns:
                self.note("down", after=name, repeat=repeat, how=how, died=True, away_s=None)
                raise TargetUnusable(
                    f"{name} ended the server of {self.arm.name}: {how}; not back within {self.wait_s:g} s "
                    "(safety.breaker_wait_s)"
                )
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)
        away_s = (now_ns() - failed.begun_ns) / 1e9
        self.note("down", after=name, repeat=repeat, how=how, died=died, away_s=away_s)

    async def _let_go(self, name: str, repeat: int) -> None:
        """The event `let_go`: how long until no more ran and waited than before; None: not within `abandon_s`."""
        if self.most_busy is None:
            return
        begun_ns = now_ns()
        while True:
            busy = await self.busy()
            waited_s = (now_ns() - begun_ns) / 1e9
            gone = busy is not None and busy <= self.most_busy
            if gone or waited_s > self.keys.abandon_s:
                self.note("let_go", after=name, repeat=repeat, s=waited_s if gone else None, busy=busy)
                return
            await asyncio.sleep(_LOOK_S)

    async def busy(self) -> float | None:
        """Requests that run and wait, over the arm's metrics pages; None where they do not tell."""
        total, told = 0.0, False
        for url in self.target.metrics_urls:
            try:
                page = self.arm.adapter.parse_metrics((await ask_server(self.client, self.target, "GET", url)).text)
            except (TargetError, CollectionError):
                return None
            values = [s.value for s in page.series if s.name in ("running", "waiting")]
            total, told = total + sum(values), told or bool(values)
        return total if told else None
