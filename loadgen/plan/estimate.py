"""What a plan will roughly take, where it depends on the server's speed. An estimate, and it says so."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from loadgen.plan.schedule import Plan
from loadgen.plan.totals import requests_of
from loadgen.plan.types import NEVER, ClosedLoop, Segment

#: An answer is taken to begin after half a second and to stream at 50 tokens/s.
FIRST_TOKEN_S = 0.5
TOKEN_S = 0.02
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
    """All arms, repeats and warm-up. `assumption` must be shown beside the numbers."""

    requests: int
    output_tokens: int
    seconds: float
    peak: Peak
    assumption: str = "if an answer begins after 0.5 s and streams at 50 tokens/s"


def estimate(plan: Plan) -> Estimate:
    """Requests, output tokens and seconds of the whole plan under the assumption."""
    parts = [_of(plan, segment) for segment in plan.segments]
    return Estimate(
        requests=round(sum(requests for requests, _, _ in parts)),
        output_tokens=round(sum(tokens for _, tokens, _ in parts)),
        seconds=sum(seconds for _, _, seconds in parts),
        peak=_peak(plan),
    )


def _peak(plan: Plan) -> Peak:
    groups: dict[int, list[Peak]] = defaultdict(list)
    for segment in plan.segments:
        groups[segment.group].append(_peak_of(plan, segment))
    return Peak(
        max(sum(p.streams for p in group) for group in groups.values()),
        max(sum(p.requests_per_s for p in group) for group in groups.values()),
        max(sum(p.chunks_per_s for p in group) for group in groups.values()),
    )


def _peak_of(plan: Plan, segment: Segment) -> Peak:
    load, tokens = segment.load, _tokens(plan, segment)
    answer_s = FIRST_TOKEN_S + tokens * TOKEN_S
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


def _tokens(plan: Plan, segment: Segment) -> float:
    """Mean output length asked for, of the first cases."""
    known = requests_of(segment.load)
    looked = range(min(_LOOKED_AT, known) if known else _LOOKED_AT)
    lengths = [plan.case(segment.stage_index, segment.phase, i).output_len_requested for i in looked]
    return sum(lengths) / len(lengths) if lengths else 0.0


def _of(plan: Plan, segment: Segment) -> tuple[float, float, float]:
    """(requests, output tokens, seconds) of one segment."""
    known, tokens = requests_of(segment.load), _tokens(plan, segment)
    answer_s = FIRST_TOKEN_S + tokens * TOKEN_S
    load = segment.load
    if not isinstance(load, ClosedLoop):
        seconds = (segment.duration_ns or 0) / 1e9 + answer_s
        return float(known or 0), (known or 0) * tokens, seconds + EDGE_S
    slots = max(1, len(load.start_ns))
    timed = load.stop_ns[load.stop_ns != NEVER]
    slot_s = float((timed - load.start_ns[load.stop_ns != NEVER]).sum()) / 1e9
    by_time = slot_s / answer_s
    by_cases = float(load.cases) if load.cases is not None else None
    if by_cases is None or not timed.size:
        requests = by_time if by_cases is None else by_cases
    else:
        requests = max(by_time, by_cases) if load.end == "both" else min(by_time, by_cases)
    return requests, requests * tokens, requests * answer_s / slots + EDGE_S
