"""From the scenario to drivers: how its keys become what `drive` needs."""

from __future__ import annotations

from loadgen.drive import Asking, Deadlines, DriveArm, DriveLimits, Driver, RateCap, Sink, Tally
from loadgen.experiment.preflight import Preflight
from loadgen.plan import LengthModel, Plan
from loadgen.scenario import DeadlineKeys, Limits, SamplingKeys, Scenario
from server_adapters.base import Sampling


def make_drivers(
    scenario: Scenario, plan: Plan, lengths: LengthModel, ready: Preflight, limits: Limits, sink: Sink, tally: Tally
) -> dict[str, Driver]:
    """One driver an arm. The safety cap counts the requests of all arms together: they may share hardware."""
    cap = RateCap(limits.max_requests_per_second) if limits.max_requests_per_second else None
    asking = asking_of(scenario)
    return {
        name: Driver(
            DriveArm(name, arm.adapter, arm.targets, arm.model, arm.capabilities, scenario.workload.endpoint),
            plan,
            lengths,
            sink,
            limits_of_requests(scenario.deadlines),
            asking,
            ready.redact,
            cap=cap,
            tally=tally,
        )
        for name, arm in ready.arms.items()
    }


def asking_of(scenario: Scenario) -> Asking:
    workload = scenario.workload
    return Asking(
        sampling=tuple(_sampling(task.sampling or scenario.sampling) for task in workload.tasks),
        cold=workload.cache == "cold",
        shared_prefix=workload.shared_prefix.fraction > 0,
        keep_text=workload.keep_text,
    )


def limits_of_requests(keys: DeadlineKeys) -> DriveLimits:
    deadlines = Deadlines(
        connect_ns=round(keys.connect_s * 1e9),
        byte_idle_ns=_ns(keys.byte_idle_s),
        token_idle_ns=_ns(keys.token_idle_s),
        total_ns=_ns(keys.total_s),
    )
    return DriveLimits(deadlines, round(keys.drain_s * 1e9))


def _ns(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1e9)


def _sampling(keys: SamplingKeys) -> Sampling:
    """`seed` is left to the case."""
    return Sampling(
        temperature=keys.temperature,
        top_p=keys.top_p,
        top_k=keys.top_k,
        seed=None,
        stop=tuple(keys.stop),
        ignore_eos=keys.ignore_eos,
        min_tokens=keys.min_tokens,
        extra=dict(keys.extra),
    )
