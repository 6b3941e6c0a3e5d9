"""The `metrics` object of vLLM's answers: one request's speculation and times.

`metrics.speculative_decoding` since 0.29 with --per-request-spec-decode-metrics, the times since 0.25.1 with
--enable-per-request-metrics; in streams it rides on the final usage payload only (A24).
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import gt
from typing import Any

from server_adapters.base import ServerTimings, SpecStats

_MAX_COUNT = 2**31 - 1


def read_spec(metrics: Mapping[str, Any]) -> SpecStats | None:
    """None where the object is absent or does not hold together: numbers that cannot be true are not passed on.

    A request that never drafted has rounds 0 (D8: the server's own rates of it, 1.0 and 0.0, mean nothing).
    """
    told = metrics.get("speculative_decoding")
    if not isinstance(told, dict):
        return None
    try:
        return _spec(told)
    except ValueError:
        return None


def _spec(told: Mapping[str, Any]) -> SpecStats:
    rounds, k = _count(told.get("num_spec_steps")), _count(told.get("num_spec_tokens"))
    histogram = _counts(told.get("acceptance_histogram"))
    accepted_by, drafted_by = _counts(told.get("per_step_accepted")), _counts(told.get("per_step_drafted"))
    if histogram is not None and len(histogram) != k + 1:
        raise ValueError("histogram of another length than k + 1")
    if {len(by) for by in (accepted_by, drafted_by) if by is not None} - {rounds}:
        raise ValueError("per-step arrays of another length than rounds")
    if (accepted_by is None) != (drafted_by is None):
        raise ValueError("one per-step array without the other")
    if any(map(gt, accepted_by or (), drafted_by or ())):
        raise ValueError("more accepted than drafted in one step")
    accepted, drafted = _count(told.get("num_accepted_draft_tokens")), _count(told.get("num_draft_tokens"))
    return SpecStats(rounds, accepted, drafted, k, histogram, accepted_by, drafted_by)


def read_timings(metrics: Mapping[str, Any]) -> ServerTimings | None:
    """None where the server tells no time. `time_to_first_token_ms` counts from when the request was scheduled: it
    is the prefill, without the queue."""
    queue = _seconds(metrics.get("queue_time_ms"))
    prefill = _seconds(metrics.get("time_to_first_token_ms"))
    decode = _seconds(metrics.get("generation_time_ms"))
    if queue is None and prefill is None and decode is None:
        return None
    return ServerTimings(queue_s=queue, prefill_s=prefill, decode_s=decode)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _MAX_COUNT:
        raise ValueError(f"not a count: {str(value)[:40]}")
    return value


def _counts(value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise ValueError("not a list of counts")
    if set(map(type, value)) - {int} or (value and not 0 <= min(value) <= max(value) <= _MAX_COUNT):
        raise ValueError("not counts")
    return tuple(value)


def _seconds(milliseconds: Any) -> float | None:
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        return None
    return milliseconds / 1000 if 0 <= milliseconds < 1e12 else None
