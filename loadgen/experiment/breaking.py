"""When an arm seems dead: its load is held, its health is looked at, and the run goes on or ends (J2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from loadgen.clock import now_ns
from loadgen.control import Breaker, Closed, Dead, Look
from loadgen.drive import Tripped, Workers
from loadgen.experiment.health import Health, look
from loadgen.experiment.preflight import Preflight
from loadgen.record import Event, RunWriter
from loadgen.scenario import Limits, Scenario


class Breakers:
    """One breaker for each arm whose load a worker has held. Every step is an event: `breaker_open`, `breaker_closed`
    (the engine had been alive), `engine_dead`, `engine_back`, `engine_gone`."""

    def __init__(
        self,
        scenario: Scenario,
        limits: Limits,
        ready: Preflight,
        writer: RunWriter,
        workers: Callable[[], Workers],
        say: Callable[[str], None],
        stop: Callable[[str], None],
    ) -> None:
        self._endpoint = scenario.workload.endpoint
        self._wait_s = limits.breaker_wait_s
        self._ready, self._writer, self._workers = ready, writer, workers
        self._say, self._stop = say, stop
        self._open: dict[str, asyncio.Task[None]] = {}

    def tripped(self, told: Tripped) -> None:
        """From a worker; of several that see the same, the first counts."""
        if told.arm not in self._open:
            task = asyncio.get_running_loop().create_task(self._work(told))
            self._open[told.arm] = task
            task.add_done_callback(lambda _: self._open.pop(told.arm, None))

    async def closed(self) -> None:
        """Wait until no arm is held. Raises what looking at one raised."""
        for ended in await asyncio.gather(*self._open.values(), return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    def give_up(self) -> None:
        """The run is being stopped: look no more."""
        for task in self._open.values():
            task.cancel()

    async def end(self) -> None:
        """The same, and wait for it."""
        self.give_up()
        await asyncio.gather(*self._open.values(), return_exceptions=True)

    async def _work(self, told: Tripped) -> None:
        workers, breaker = self._workers(), Breaker(told.first_ns / 1e9, self._wait_s)
        workers.hold(told.arm)
        self._note("breaker_open", told.arm, failures=told.failures, first_ns=told.first_ns)
        failed = told.failures - workers.counts.failed
        step: Look | Closed | Dead = breaker.begin()
        while isinstance(step, Look):
            await asyncio.sleep(step.wait_s)
            found = await look(self._ready.arms[told.arm], self._endpoint, trial=step.trial)
            known = breaker.detected_s is not None
            step = breaker.seen(found.alive, now_ns() / 1e9)
            if not known and breaker.detected_s is not None:
                self._dead(told, breaker.detected_s, found)
        if isinstance(step, Dead):
            self._note("engine_gone", told.arm, away_s=step.away_s)
            self._stop(
                f"engine of {told.arm} dead: detected after {breaker.detected_s:.2g} s, "
                f"{failed + workers.counts.failed} requests failed meanwhile; not back within {self._wait_s:g} s "
                "(safety.breaker_wait_s)"
            )
            return
        if step.away_s is None:
            self._note("breaker_closed", told.arm, how=found.how)
        else:
            self._note("engine_back", told.arm, away_s=step.away_s)
            self._say(f"the engine of {told.arm} is back after {step.away_s:.3g} s")
        workers.release(told.arm, was_alive=step.away_s is None)

    def _dead(self, told: Tripped, detected_s: float, found: Health) -> None:
        self._note("engine_dead", told.arm, detected_s=detected_s, how=found.how, sure=found.sure)
        self._say(
            f"the engine of {told.arm} is dead ({found.how}): detected {detected_s:.2g} s after the first failure; its "
            f"load is held, for {self._wait_s:g} s at most"
        )
        self._writer.anomaly(f"the engine of {told.arm} is dead: {found.how}")

    def _note(self, name: str, arm: str, **data: object) -> None:
        self._writer.event(Event(now_ns(), name, {"arm": arm, **data}))
