"""What a plan will ask for, before it starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from loadgen.plan.stages import StagePlan
from loadgen.plan.types import NEVER, ClosedLoop, OpenLoop, PhaseName, PlanTotals, Segment
from loadgen.scenario import Limits

#: No answer is taken to come faster than this, where a closed loop ends by time alone: with the slots
#: and the caps it bounds the number of requests. An assumption, not a law.
FASTEST_ANSWER_S = 0.05


Part = tuple[int, PhaseName]  # stage index, phase


@dataclass(frozen=True, slots=True)
class Drawn:
    """The cases of one pass over a part. None where an own prompt's length is not known."""

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


def total(
    stages: Sequence[StagePlan], segments: Sequence[Segment], drawn: Mapping[Part, Drawn], limits: Limits
) -> PlanTotals:
    """Sums over all segments.

    `requests` counts every arrival of an open loop, dropped ones too. `requests_upper` is at most what the
    caps allow. `seconds` are those of the measured parts, without warm-up, drains and idle edges. Tokens
    of a plan whose number of requests is not known are None. Peaks are of all arms that are driven at once.
    """
    counts = [requests_of(segment.load) for segment in segments]
    known = [count for count in counts if count is not None]
    exact = sum(known) if len(known) == len(counts) else None
    upper = sum(_upper(segment.load) for segment in segments)
    input_tokens, output_tokens = _tokens(stages, segments, drawn)
    together = max(Counter(segment.group for segment in segments).values())
    rates = [stage.peak_rate_per_s * together for stage in stages if stage.peak_rate_per_s is not None]
    return PlanTotals(
        requests=exact,
        requests_upper=upper if limits.max_requests is None else min(upper, limits.max_requests),
        input_tokens=None if exact is None else input_tokens,
        output_tokens=None if exact is None else output_tokens,
        seconds=_seconds(segments),
        peak_concurrency=max(_together(segments).values()),
        peak_rate_per_s=max(rates, default=None),
    )


def _tokens(
    stages: Sequence[StagePlan], segments: Sequence[Segment], drawn: Mapping[Part, Drawn]
) -> tuple[int | None, int]:
    """Every arm and repeat asks a measured part once; every window of warm-up asks the whole of it."""
    measured = len({(s.arm, s.repeat_idx) for s in segments if s.phase == "measure"})
    windows = Counter(s.stage_index for s in segments if s.phase == "warmup")
    times = {part: measured if part[1] == "measure" else windows[part[0]] for part in drawn}
    inputs = [(d.input_tokens, times[part]) for part, d in drawn.items()]
    return (
        None if any(tokens is None for tokens, _ in inputs) else sum((tokens or 0) * n for tokens, n in inputs),
        sum(d.output_tokens * times[part] for part, d in drawn.items()),
    )


def _seconds(segments: Sequence[Segment]) -> float | None:
    """None where a measured part ends by its requests."""
    longest: dict[int, int] = {}
    for segment in segments:
        if segment.phase == "measure":
            if segment.duration_ns is None:
                return None
            longest[segment.group] = max(longest.get(segment.group, 0), segment.duration_ns)
    return sum(longest.values()) / 1e9


def _together(segments: Sequence[Segment]) -> Counter[int]:
    """Most requests in flight of each group: arms that are driven at once add up."""
    streams: Counter[int] = Counter()
    for segment in segments:
        load = segment.load
        streams[segment.group] += load.max_in_flight if isinstance(load, OpenLoop) else len(load.start_ns)
    return streams


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
