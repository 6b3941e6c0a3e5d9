"""Work after the load of a run, while its servers still stand: what an experiment asks when it has seen the answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from loadgen.clock import now_ns
from loadgen.experiment.places import Standing
from loadgen.experiment.preflight import Preflight
from loadgen.plan import LengthModel, Plan
from loadgen.record import Event, RunWriter


@dataclass(frozen=True)
class Done:
    """All segments were driven and their requests are on the disk, where `open_run` reads them. `lengths`: what the
    prompts were made with. `stopped`: whether the run is being interrupted; what is under way should then end."""

    ready: Preflight
    plan: Plan
    lengths: LengthModel
    writer: RunWriter
    standing: Standing
    say: Callable[[str], None]
    stopped: Callable[[], bool]

    def event(self, name: str, **data: object) -> None:
        """Into the run's events.jsonl; secrets are masked there."""
        self.writer.event(Event(now_ns(), name, data))

    async def stands(self, arm: str) -> None:
        """Have the arm's server stand where it is asked. TargetUnusable where it cannot be brought there."""
        segment = next(s for s in self.plan.segments if s.arm == arm)
        if not self.standing.fits(segment):
            await self.standing.move(segment)


Afterwards = Callable[[Done], Awaitable[None]]
