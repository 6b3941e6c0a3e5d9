"""What a plan will ask for, before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from loadgen.plan.stages import StagePlan
from loadgen.plan.types import NEVER, ClosedLoop, OpenLoop, PlanTotals
from loadgen.scenario import Limits

#: No answer is taken to come faster than this, where a closed loop ends by time alone: with the slots
#: and the caps it bounds the number of requests. An assumption, not a law.
FASTEST_ANSWER_S = 0.05


@dataclass(frozen=True, slots=True)
class Drawn:
    """The cases of one pass over the stages. Sums are None where an own prompt's length is not known."""

    input_tokens: int | None
    output_tokens: int


def requests_of(load: OpenLoop | ClosedLoop) -> int | None:
    """Requests of one part of one pass; None where that depends on the server's speed."""
    if isinstance(load, OpenLoop):
        return len(load.due_ns)
    timed = _slot_seconds(load) is not None
    if load.end == "both":
        return None if timed else load.cases
    return None if timed or load.cases is None else load.cases


def total(stages: Sequence[StagePlan], drawn: Drawn, passes: int, limits: Limits) -> PlanTotals:
    """Sums over stages, arms, repeats and warm-up; `passes` = arms × repeats.

    `requests` counts every arrival of an open loop, dropped ones too. `requests_upper` is at most what the
    caps allow. `seconds` are those of the measured parts, without warm-up, drains and idle edges. Tokens
    of a plan whose number of requests is not known are None.
    """
    parts = [part for stage in stages for part in (stage.warmup, stage.load) if part is not None]
    counts = [requests_of(part) for part in parts]
    known = [count for count in counts if count is not None]
    exact = sum(known) * passes if len(known) == len(counts) else None
    upper = sum(_upper(part) for part in parts) * passes
    durations = [stage.duration_ns for stage in stages if stage.duration_ns is not None]
    timed = len(durations) == len(stages)
    rates = [stage.peak_rate_per_s for stage in stages if stage.peak_rate_per_s is not None]
    return PlanTotals(
        requests=exact,
        requests_upper=upper if limits.max_requests is None else min(upper, limits.max_requests),
        input_tokens=None if exact is None or drawn.input_tokens is None else drawn.input_tokens * passes,
        output_tokens=None if exact is None else drawn.output_tokens * passes,
        seconds=sum(durations) / 1e9 * passes if timed else None,
        peak_concurrency=max(
            part.max_in_flight if isinstance(part, OpenLoop) else len(part.start_ns) for part in parts
        ),
        peak_rate_per_s=max(rates, default=None),
    )


def _slot_seconds(load: ClosedLoop) -> float | None:
    """Time of all slots together; None where none of them ends by time."""
    end = int(load.stop_ns.max(initial=0))
    if end == 0 or end == NEVER:
        return None
    return float((load.stop_ns - load.start_ns).sum()) / 1e9


def _upper(load: OpenLoop | ClosedLoop) -> int:
    if isinstance(load, OpenLoop):
        return len(load.due_ns)
    seconds, cases = _slot_seconds(load), load.cases or 0
    by_time = 0 if seconds is None else ceil(seconds / FASTEST_ANSWER_S) + len(load.start_ns)
    if load.end == "both" or not cases:
        return max(by_time, cases)
    return cases if seconds is None else min(by_time, cases)
