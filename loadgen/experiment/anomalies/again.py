"""What was seen with an anomaly is tried again, with it and without it in random order (docs/anomalies.md, "Tried
again")."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from loadgen.clock import now_ns
from loadgen.control import SENDS, Trial, controls_for
from loadgen.experiment.anomalies.aftermath import Aftermath
from loadgen.experiment.anomalies.pulse import Pulse
from server_adapters.anomalies import Anomaly

#: What was seen: `answer`: one that does not fit, and that any request may get when the server fails it by chance;
#: `failed`, `new`: the known-good request after it failed, or was answered otherwise; `all_failed`: all requests that
#: ended meanwhile failed; `stall`: none ended.
Symptom = Literal["answer", "failed", "new", "all_failed", "stall"]

#: `repeat` of events that are not about a repeat of the catalogue.
AGAIN = -1
#: What ends so long after an anomaly still went on beside it.
AFTER_NS = 1_000_000_000
#: Fewer requests than that are not all.
_FEWEST_ALL = 2
#: Until what has ended is told (`Beside.ended`, `Pulse`).
_LAG_S = 0.5


@dataclass(frozen=True, slots=True)
class Tried:
    """An anomaly that was sent once. `chance`: its answer does not fit, as by chance. `seen`: of the probe after it."""

    anomaly: Anomaly
    repeat: int
    begun_ns: int
    ended_ns: int
    chance: bool
    seen: str


@dataclass(frozen=True, slots=True)
class Suspect:
    tried: Tried
    symptom: Symptom


@dataclass
class Again:
    """`send`: sends an anomaly, and says whether its answer fits. `stall_s`: nothing ending for so long is a stall.
    `arms`: of the run, which share its chance of a false alarm."""

    aftermath: Aftermath
    pulse: Pulse
    send: Callable[[Anomaly], Awaitable[bool]]
    note: Callable[..., None]
    seed: int
    stall_s: float
    arms: int = 1

    def suspects(self, tried: Sequence[Tried]) -> list[Suspect]:
        """One for each symptom of each. A server that died is no suspicion."""
        return [Suspect(one, symptom) for one in tried if one.seen != "died" for symptom in self._symptoms(one)]

    def _symptoms(self, one: Tried) -> Iterator[Symptom]:
        span = (one.begun_ns, one.ended_ns + AFTER_NS)
        if one.chance:
            yield "answer"
        if one.seen == "failed":
            yield "failed"
        elif one.seen == "new":
            yield "new"
        if self._all_failed(*span):
            yield "all_failed"
        if self._stalled(*span):
            yield "stall"

    async def work(self, suspects: Sequence[Suspect]) -> None:
        """Events `suspects` and `again`. Raises TargetUnusable where the server does not come back."""
        controls = controls_for(len(suspects) * self.arms)
        self.note(
            "suspects", sends=SENDS, controls=controls, stall_s=self.stall_s,
            suspects=[(s.tried.anomaly.name, s.tried.repeat, s.symptom) for s in suspects],
        )  # fmt: skip
        for number, suspect in enumerate(suspects):
            trial = Trial.drawn(controls, self.seed, number)
            while (sent := trial.next) is not None:
                shown = await self._try(suspect, sent)
                trial.note(shown)
                self.note(
                    "again", name=suspect.tried.anomaly.name, repeat=suspect.tried.repeat, symptom=suspect.symptom,
                    sent=sent, shown=shown, over=trial.next is None,
                )  # fmt: skip

    async def _try(self, suspect: Suspect, sent: bool) -> bool:
        """With the anomaly or without it, as long and with the same looks. Only an answer needs something in its place:
        the known-good request."""
        begun_ns = now_ns()
        if suspect.symptom == "answer":
            shown = await self._wrong(suspect, sent)
            return shown or await self._seen(suspect, sent) == "died"
        if sent:
            await self.send(suspect.tried.anomaly)
        until_ns = begun_ns + suspect.tried.ended_ns - suspect.tried.begun_ns
        await _until(until_ns)
        if suspect.symptom in ("failed", "new"):
            return await self._seen(suspect, sent) in (suspect.symptom, "died")
        await _until(until_ns + AFTER_NS + round(_LAG_S * 1e9))
        judge = self._all_failed if suspect.symptom == "all_failed" else self._stalled
        shown = judge(begun_ns, until_ns + AFTER_NS)
        await self._seen(suspect, sent)
        return shown

    async def _wrong(self, suspect: Suspect, sent: bool) -> bool:
        if sent:
            return not await self.send(suspect.tried.anomaly)
        return (await self.aftermath.probe(suspect.tried.anomaly.name, AGAIN))[0].text is None

    async def _seen(self, suspect: Suspect, sent: bool) -> str:
        """By the known-good request after a try, as of the first time."""
        name = suspect.tried.anomaly.name
        known, seen = await self.aftermath.probe(name, AGAIN)
        if known.text is None and await self.aftermath.until_back(name, suspect.tried.repeat if sent else AGAIN, known):
            return "died"
        return seen

    def _all_failed(self, begin_ns: int, end_ns: int) -> bool:
        failed, ended = self.pulse.failed(begin_ns, end_ns)
        return failed == ended >= _FEWEST_ALL

    def _stalled(self, begin_ns: int, end_ns: int) -> bool:
        return self.pulse.longest_s(begin_ns, end_ns) > self.stall_s


async def _until(at_ns: int) -> None:
    await asyncio.sleep(max(at_ns - now_ns(), 0) / 1e9)
