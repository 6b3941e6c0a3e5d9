"""What of a scenario concerns the driver: how prompts are asked, and how long anything may take."""

from __future__ import annotations

from dataclasses import dataclass

from loadgen.drive.types import Deadlines
from loadgen.scenario import DeadlineKeys, SamplingKeys, Scenario
from server_adapters.base import Sampling


@dataclass(frozen=True, slots=True)
class Asking:
    """How the scenario wants prompts asked.

    `sampling` by task index, without the case's seed. `cold`: no request may hit the prefix cache; where
    a `shared_prefix` is in use the unit that stays cold is the segment, so that the prefix can hit.
    """

    sampling: tuple[Sampling, ...]
    cold: bool
    shared_prefix: bool
    keep_text: bool = False


@dataclass(frozen=True, slots=True)
class DriveLimits:
    """Deadlines of each request, and how long a segment's last requests may take after its load has ended."""

    deadlines: Deadlines
    drain_ns: int


def asking_of(scenario: Scenario) -> Asking:
    """A task's own sampling takes the place of the scenario's, whole."""
    workload, shared = scenario.workload, scenario.workload.shared_prefix
    return Asking(
        sampling=tuple(_sampling(task.sampling or scenario.sampling) for task in workload.tasks),
        cold=workload.cache == "cold",
        shared_prefix=shared.fraction > 0 and shared.tokens > 0,
        keep_text=workload.keep_text,
    )


def drive_limits_of(keys: DeadlineKeys) -> DriveLimits:
    deadlines = Deadlines(
        connect_ns=_ns(keys.connect_s),
        byte_idle_ns=None if keys.byte_idle_s is None else _ns(keys.byte_idle_s),
        token_idle_ns=None if keys.token_idle_s is None else _ns(keys.token_idle_s),
        total_ns=None if keys.total_s is None else _ns(keys.total_s),
    )
    return DriveLimits(deadlines, _ns(keys.drain_s))


def _sampling(keys: SamplingKeys) -> Sampling:
    return Sampling(
        temperature=keys.temperature,
        top_p=keys.top_p,
        top_k=keys.top_k,
        seed=keys.seed,
        stop=tuple(keys.stop),
        ignore_eos=keys.ignore_eos,
        min_tokens=keys.min_tokens,
        extra=keys.extra,
    )


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
