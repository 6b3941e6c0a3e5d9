"""Paired probes of a canary: the same cases to two arms, one shortly after the other, at a low rate for ever."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from loadgen.plan.schedule import Plan, run_plan
from loadgen.plan.streams import unit, words
from loadgen.plan.types import OpenLoop, Segment
from loadgen.scenario import ArrivalStage, Comparison, LoadedScenario, Warmup

_STAGE = "probe"


def probe_plan(loaded: LoadedScenario) -> Plan:
    """A plan whose cases probes ask, without end, and whose segments are not driven: the scenario's workload, sampling
    and seed; its load does not matter."""
    stage = ArrivalStage(kind="arrival_rate", name=_STAGE, rate_per_s=1.0, duration_s=60.0)
    update = {
        "load": [stage], "repeats": 1, "warmup": Warmup(warmup_requests=0), "thresholds": [], "sweep": None,
        "comparison": Comparison(),
    }  # fmt: skip
    return run_plan(replace(loaded, scenario=loaded.scenario.model_copy(update=update)))


def probe_segments(
    plan: Plan, arms: tuple[str, str], number: int, first: int, pairs: int, pairs_per_s: float, max_in_flight: int
) -> tuple[Segment, Segment]:
    """One segment for each arm, to be driven at once: cases `first` … of `plan`. Each pair has a slot of time; within
    its first half one arm is asked at a random moment, half a slot later the other. Which is first is drawn for each
    pair: whatever drifts is the same for both. Numbers are `number` and `number` + 1."""
    index = np.arange(first, first + pairs, dtype=np.int64)
    drawn = words(2 * pairs, plan.seed, "probe", number).reshape(2, pairs)
    slot_ns = 1e9 / pairs_per_s
    begin_ns = (np.arange(pairs) + unit(drawn[0]) / 2) * slot_ns
    later = (unit(drawn[1]) < 0.5).astype(np.float64)
    template = plan.segments[0]
    found = []
    for i, arm in enumerate(arms):
        wait = later if i == 0 else 1 - later
        load = OpenLoop((begin_ns + wait * slot_ns / 2).astype(np.int64), index, max_in_flight, "drop")
        about = {"arm": arm, "group": number, "rate_per_s": pairs_per_s, "duration_ns": round(pairs * slot_ns)}
        found.append(replace(template, number=number + i, stage=_STAGE, load=load, **about))  # type: ignore[arg-type]
    return found[0], found[1]
