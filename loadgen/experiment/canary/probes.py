"""Low-rate paired requests of our own, for as long as the canary is watched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from loadgen.analyze import Probe
from loadgen.clock import now_ns
from loadgen.drive import (
    Attempt,
    Budget,
    DriveArm,
    Driver,
    LoopHealth,
    Outcome,
    RateCap,
    Tally,
    asking_of,
    drive_limits_of,
)
from loadgen.experiment.driving import DEFAULT_TRANSPORT, wire_of
from loadgen.experiment.preflight import Preflight, ReadyArm
from loadgen.export import ArmHow, ended_of, rollback_bounds
from loadgen.plan import LengthModel, probe_plan, probe_segments
from loadgen.scenario import LoadedScenario, ProbeKeys, Safety, limits_of

#: A round is so long, or a quarter of a window where that is shorter: between rounds caps and queues are looked at.
ROUND_S = 15.0
LEAD_NS = 50_000_000
#: Probes in flight at once of each arm, where the environment sets no cap.
IN_FLIGHT = 64
_OWN = (Outcome.ABORTED, Outcome.CLIENT_FAULT)


@dataclass(frozen=True)
class ProbeEnded:
    """`arm` and `outcome` for counting; `probe` for the window."""

    arm: str
    outcome: str
    probe: Probe


class Prober:
    """Asks the two arms until it is stopped, or a total of `safety` that the scenario sets itself is used up; then
    `ended` says which. Does not raise for what the servers do."""

    def __init__(
        self,
        loaded: LoadedScenario,
        keys: ProbeKeys,
        window_s: float,
        arms: tuple[str, str],
        ready: Preflight,
        lengths: LengthModel,
        block_at: Callable[[int], int],
        waiting: Callable[[str], int | None],
        on_ended: Callable[[ProbeEnded], None],
        say: Callable[[str], None],
    ) -> None:
        scenario = loaded.scenario
        self._arms, self._safety, self._limits = arms, scenario.safety, limits_of(scenario)
        self._pairs_per_s = keys.requests_per_s / 2
        self._round_s = min(ROUND_S, window_s / 4)
        self._block_at, self._waiting, self._on_ended, self._say = block_at, waiting, on_ended, say
        self._plan = probe_plan(loaded)
        self._structured = tuple(task.json_schema for task in scenario.workload.tasks)
        self._how = {
            n: ArmHow(a.facts.chunk_unit, a.facts.k, a.capabilities.counts_artefact) for n, a in ready.arms.items()
        }
        most = self._safety.max_requests
        self._budget = None if most is None else Budget.of(most)
        self._tally = Tally(self._budget)
        rate = self._limits.max_requests_per_second
        cap = None if rate is None else RateCap(rate)
        self._drivers = [self._driver(loaded, ready.arms[name], ready, lengths, cap) for name in arms]
        self._stopped = asyncio.Event()
        self.ended: str | None = None

    def _driver(
        self, loaded: LoadedScenario, arm: ReadyArm, ready: Preflight, lengths: LengthModel, cap: RateCap | None
    ) -> Driver:
        scenario = loaded.scenario
        return Driver(
            DriveArm(arm.name, arm.adapter, arm.targets, arm.model, arm.capabilities, scenario.workload.endpoint),
            self._plan,
            lengths,
            self,
            drive_limits_of(scenario.deadlines),
            asking_of(scenario),
            ready.redact,
            cap=cap,
            tally=self._tally,
            transport=partial(wire_of, arm.reach, DEFAULT_TRANSPORT),
        )

    async def run(self) -> None:
        """Rounds one after the other, until stopped."""
        pair, number, paused = 0, 0, False
        try:
            while not self._stopped.is_set():
                self.ended = self._used_up()
                if self.ended is not None:
                    return self._say(f"probes have ended: {self.ended}")
                queued = self._queued()
                if queued is not None:
                    if not paused:
                        self._say(f"probes pause: {queued}")
                    paused = True
                    await self._pause()
                    continue
                if paused:
                    self._say("probes go on")
                paused = False
                pairs = max(1, round(self._round_s * self._pairs_per_s))
                await self._round(number, pair, pairs)
                pair, number = pair + pairs, number + 2
        finally:
            if self._budget is not None:
                self._budget.close()

    @property
    def stopping(self) -> bool:
        return self._stopped.is_set()

    def stop(self) -> None:
        """First call: nothing new is sent; second: what is in flight is cut."""
        self._stopped.set()
        for driver in self._drivers:
            driver.stop("user_stop")

    async def _round(self, number: int, pair: int, pairs: int) -> None:
        most = min(IN_FLIGHT, self._limits.max_concurrency or IN_FLIGHT)
        segments = probe_segments(self._plan, self._arms, number, pair, pairs, self._pairs_per_s, most)
        for driver, segment in zip(self._drivers, segments, strict=True):
            await driver.prepare(segment)
        begin_ns = now_ns() + LEAD_NS
        await asyncio.gather(*(d.run(s, begin_ns) for d, s in zip(self._drivers, segments, strict=True)))

    async def _pause(self) -> None:
        try:
            await asyncio.wait_for(self._stopped.wait(), self._round_s)
        except TimeoutError:
            return

    def _used_up(self) -> str | None:
        """Totals that the scenario sets itself; those of the environment are for runs, which end by themselves."""
        counts, safety = self._tally.counts(), self._safety
        if safety.max_requests is not None and counts.sent >= safety.max_requests:
            return f"safety.max_requests ({safety.max_requests:,}) is used up"
        if safety.max_output_tokens is not None and counts.output_tokens >= safety.max_output_tokens:
            return f"safety.max_output_tokens ({safety.max_output_tokens:,}) is used up"
        if safety.max_cost is not None and _cost(safety, counts.output_tokens) >= safety.max_cost:
            return f"safety.max_cost ({safety.max_cost:g}) is used up"
        return None

    def _queued(self) -> str | None:
        most = self._limits.abort_waiting
        for arm in self._arms:
            n = self._waiting(arm)
            if most is not None and n is not None and n > most:
                return f"{n} requests wait at {arm}, more than safety.abort_waiting ({most})"
        return None

    def attempt(self, attempt: Attempt) -> None:
        """A `drive.Sink`: what has ended."""
        how, case = self._how[attempt.arm], attempt.case
        ended = ended_of(attempt, how, self._structured[case.task_index])
        ok, own, spec = attempt.outcome is Outcome.OK, attempt.outcome in _OWN, attempt.spec
        due_ns = attempt.due_ns if attempt.due_ns is not None else attempt.end_ns
        bounds = None if spec is None or not ok else rollback_bounds(spec, how, self._structured[case.task_index])
        probe = Probe(
            pair=attempt.seq,
            block=self._block_at(due_ns),
            failed=None if own else not ok,
            ttft_s=ended.ttft_s if ok else None,
            tpot_s=ended.tpot_s if ok else None,
            accepted=spec.accepted if ok and spec is not None else None,
            drafted=spec.drafted if ok and spec is not None else None,
            rounds=spec.rounds if ok and spec is not None else None,
            rolled_back=bounds,
        )
        self._on_ended(ProbeEnded(attempt.arm, attempt.outcome.value, probe))

    def health(self, health: LoopHealth) -> None:
        """Nothing is said of the monitor's own loop: stamps are the kernel's."""


def _cost(safety: Safety, output_tokens: int) -> float:
    return output_tokens * (safety.price_per_million_output_tokens or 0.0) / 1e6
