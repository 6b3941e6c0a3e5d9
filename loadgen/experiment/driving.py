"""One driver an arm, sharing what counts for the whole run."""

from __future__ import annotations

from loadgen.drive import DriveArm, Driver, RateCap, Sink, Tally, asking_of, drive_limits_of
from loadgen.experiment.preflight import Preflight
from loadgen.plan import LengthModel, Plan
from loadgen.scenario import Limits, Scenario


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
            drive_limits_of(scenario.deadlines),
            asking,
            ready.redact,
            cap=cap,
            tally=tally,
        )
        for name, arm in ready.arms.items()
    }
