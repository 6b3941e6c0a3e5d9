"""What a plan will roughly take, where it depends on the server's speed. An estimate, and it says so."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from loadgen.plan.answer import ASSUMED, AnswerTime
from loadgen.plan.schedule import Plan
from loadgen.plan.totals import Part, requests_of
from loadgen.plan.types import NEVER, ClosedLoop, OpenLoop, Segment

#: Idle edges and set-up of one segment.
EDGE_S = 1.0
_LOOKED_AT = 256


@dataclass(frozen=True, slots=True)
class Peak:
    """The most that is asked of the client at once, arms that are driven together added up. `chunks_per_s`: one token
    a chunk, as without speculation."""

    streams: int
    requests_per_s: float
    chunks_per_s: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """All arms, repeats and windows of warm-up. `assumption` must be shown beside the numbers."""

    requests: int
    output_tokens: int
    seconds: float
    peak: Peak
    assumption: str


def estimate(plan: Plan, answer: AnswerTime = ASSUMED) -> Estimate:
    """Requests, output tokens and seconds of the whole plan, if answers take `answer`."""
    means = _means(plan)
    seconds: dict[int, float] = {}
    requests = tokens = 0.0
    for segment in plan.segments:
        mean = means[segment.stage_index, segment.phase]
        asked, takes_s = _of(segment, mean, answer)
        requests, tokens = requests + asked, tokens + asked * mean
        seconds[segment.group] = max(seconds.get(segment.group, 0.0), takes_s)
    return Estimate(round(requests), round(tokens), sum(seconds.values()), _peak(plan, means, answer), answer.source)


def _means(plan: Plan) -> dict[Part, float]:
    """Mean output length asked for, of the first cases of every stage and phase."""
    means: dict[Part, float] = {}
    for stage, phase in dict.fromkeys((s.stage_index, s.phase) for s in plan.segments):
        count = plan.requests(stage, phase)
        looked = range(_LOOKED_AT if count is None else min(_LOOKED_AT, count))
        lengths = [plan.case(stage, phase, i).output_len_requested for i in looked]
        means[stage, phase] = sum(lengths) / len(lengths) if lengths else 0.0
    return means


def _peak(plan: Plan, means: Mapping[Part, float], answer: AnswerTime) -> Peak:
    groups: dict[int, list[Peak]] = defaultdict(list)
    for segment in plan.segments:
        tokens = means[segment.stage_index, segment.phase]
        groups[segment.group].append(_peak_of(segment.load, tokens, answer.seconds(tokens)))
    return Peak(
        max(sum(p.streams for p in group) for group in groups.values()),
        max(sum(p.requests_per_s for p in group) for group in groups.values()),
        max(sum(p.chunks_per_s for p in group) for group in groups.values()),
    )


def _peak_of(load: OpenLoop | ClosedLoop, tokens: float, answer_s: float) -> Peak:
    if isinstance(load, ClosedLoop):
        streams, rate = len(load.start_ns), len(load.start_ns) / answer_s
    else:
        rate = _busiest_second(load.due_ns)
        streams = min(load.max_in_flight, ceil(rate * answer_s))
    return Peak(streams, rate, streams * tokens / answer_s)


def _busiest_second(due_ns: NDArray[np.int64]) -> float:
    """Most arrivals within one second from any arrival on."""
    within = np.searchsorted(due_ns, due_ns + 1_000_000_000, side="left") - np.arange(len(due_ns))
    return float(within.max(initial=0))


def _of(segment: Segment, tokens: float, answer: AnswerTime) -> tuple[float, float]:
    """(requests, seconds) of one segment."""
    known, answer_s, load = requests_of(segment.load), answer.seconds(tokens), segment.load
    if not isinstance(load, ClosedLoop):
        return float(known or 0), (segment.duration_ns or 0) / 1e9 + answer_s + EDGE_S
    slots = max(1, len(load.start_ns))
    timed = load.stop_ns[load.stop_ns != NEVER]
    slot_s = float((timed - load.start_ns[load.stop_ns != NEVER]).sum()) / 1e9
    by_time = slot_s / answer_s
    by_cases = float(load.cases) if load.cases is not None else None
    if by_cases is None or not timed.size:
        requests = by_time if by_cases is None else by_cases
    else:
        requests = max(by_time, by_cases) if load.end == "both" else min(by_time, by_cases)
    return requests, requests * answer_s / slots + EDGE_S
