"""What a plan will roughly take, where it depends on the server's speed. An estimate, and it says so."""

from __future__ import annotations

from dataclasses import dataclass

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
class Estimate:
    """All arms, repeats and warm-up. `assumption` must be shown beside the numbers."""

    requests: int
    output_tokens: int
    seconds: float
    assumption: str = "if an answer begins after 0.5 s and streams at 50 tokens/s"


def estimate(plan: Plan) -> Estimate:
    """Requests, output tokens and seconds of the whole plan under the assumption."""
    parts = [_of(plan, segment) for segment in plan.segments]
    return Estimate(
        requests=round(sum(requests for requests, _, _ in parts)),
        output_tokens=round(sum(tokens for _, tokens, _ in parts)),
        seconds=sum(seconds for _, _, seconds in parts),
    )


def _of(plan: Plan, segment: Segment) -> tuple[float, float, float]:
    """(requests, output tokens, seconds) of one segment."""
    known = requests_of(segment.load)
    looked = range(min(_LOOKED_AT, known) if known else _LOOKED_AT)
    lengths = [plan.case(segment.stage_index, segment.phase, i).output_len_requested for i in looked]
    tokens = sum(lengths) / len(lengths) if lengths else 0.0
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
