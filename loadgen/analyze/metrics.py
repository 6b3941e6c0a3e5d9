"""The numbers a threshold or a comparison may name: a closed list (docs/method.md, "Metrics of thresholds")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from loadgen.analyze.columns import Bools, Floats
from loadgen.analyze.frames import Frame

Kind = Literal["request", "sample", "share", "rate", "count_ratio", "relative"]


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """`kind`: one value a request; one a chunk or token (`sample`); share of the requests sent; per second of the
    windows; a ratio of counts; or a number that exists only beside the baseline. `lower_is_better` None: neither.
    """

    unit: str
    kind: Kind
    lower_is_better: bool | None
    says: str


METRICS: Mapping[str, MetricSpec] = {
    "ttft_s": MetricSpec("s", "request", True, "time to first token, streaming"),
    "ttft_answer_s": MetricSpec("s", "request", True, "time to the first token of the answer, after reasoning"),
    "ttft_from_due_s": MetricSpec("s", "request", True, "time to first token from the due time"),
    "tpot_s": MetricSpec("s", "request", True, "time per output token after the first, streaming"),
    "total_time_s": MetricSpec("s", "request", True, "sent to last token, streaming"),
    "total_time_from_due_s": MetricSpec("s", "request", True, "due to last token, streaming"),
    "non_stream_total_time_s": MetricSpec("s", "request", True, "sent to end of body, not streamed"),
    "generation_speed": MetricSpec("tokens/s", "request", False, "output tokens ÷ total time; a failed request has 0"),
    "output_len": MetricSpec("tokens", "request", None, "output tokens of ok requests"),
    "input_len": MetricSpec("tokens", "request", None, "prompt tokens of ok requests"),
    "server_queue_s": MetricSpec("s", "request", True, "time in the queue, as the server tells it"),
    "server_prefill_s": MetricSpec("s", "request", True, "prefill, as the server tells it"),
    "server_decode_s": MetricSpec("s", "request", True, "decode, as the server tells it"),
    "draft_time_s": MetricSpec("s", "request", True, "time spent drafting, where the server tells it"),
    "verify_time_s": MetricSpec("s", "request", True, "time spent verifying, where the server tells it"),
    "chunk_gap_s": MetricSpec("s", "sample", True, "time between arrivals of a request, ok streams"),
    "token_latency_s": MetricSpec("s", "sample", True, "gap ÷ tokens of the arrival, each token once, ok streams"),
    "error_share": MetricSpec("1", "share", True, "failed requests ÷ sent, without those our own drain or stop cut"),
    "goodput_share": MetricSpec("1", "share", False, "requests within every SLO ÷ sent"),
    "net_tokens_per_s": MetricSpec("tokens/s", "rate", False, "net throughput of the steady windows"),
    "requests_per_s": MetricSpec("1/s", "rate", False, "ok requests that ended in the steady windows, per second"),
    "goodput_requests_per_s": MetricSpec("1/s", "rate", False, "requests within every SLO, per second"),
    "goodput_tokens_per_s": MetricSpec("tokens/s", "rate", False, "tokens of requests within every SLO, per second"),
    "acceptance_rate": MetricSpec("1", "count_ratio", False, "accepted ÷ drafted tokens"),
    "rollback_rate": MetricSpec("1", "count_ratio", True, "rounds with a rejection ÷ rounds"),
    "e_decode": MetricSpec("tokens/step", "count_ratio", False, "output tokens after the first chunk ÷ decode steps"),
    "speedup": MetricSpec("1", "relative", False, "as the comparison defines it for the load"),
    "speedup_net": MetricSpec("1", "relative", False, "net throughput, candidate ÷ baseline"),
    "speedup_decode": MetricSpec("1", "relative", False, "mean time per output token, baseline ÷ candidate: E ÷ c"),
    "speedup_total_time": MetricSpec("1", "relative", False, "mean total time, baseline ÷ candidate"),
    "e_ratio": MetricSpec("1", "relative", False, "tokens per decode step, candidate ÷ baseline: E of the comparison"),
    "c": MetricSpec("1", "relative", True, "mean time of a decode step, candidate ÷ baseline"),
}  # fmt: skip

#: Streams, whole answers, or either
_POPULATION: Mapping[str, Literal["stream", "whole", "all"]] = {
    "ttft_s": "stream",
    "ttft_answer_s": "stream",
    "ttft_from_due_s": "stream",
    "tpot_s": "stream",
    "total_time_s": "stream",
    "total_time_from_due_s": "stream",
    "non_stream_total_time_s": "whole",
}
_COLUMN: Mapping[str, Callable[[Frame], Floats]] = {
    "non_stream_total_time_s": lambda frame: frame.total_time_s,
    "generation_speed": lambda frame: frame.speed,
    "server_queue_s": lambda frame: frame.queue_s,
    "server_prefill_s": lambda frame: frame.prefill_s,
    "draft_time_s": lambda frame: frame.draft_s,
    "verify_time_s": lambda frame: frame.verify_s,
}
#: What the servers' counters call it: sums and counts of a histogram
COUNTED: Mapping[str, str] = {
    "server_queue_s": "queue",
    "server_prefill_s": "prefill",
    "server_decode_s": "decode",
    "draft_time_s": "draft",
    "verify_time_s": "verify",
}
#: Numbers of a request that failed requests have too (0), or that are of ok requests only (NaN)
_FAILED: Mapping[str, float] = {"generation_speed": 0.0, "output_len": np.nan, "input_len": np.nan}


def column(frame: Frame, name: str) -> Floats:
    """One value a row, NaN where there is none, whatever became of the request."""
    make = _COLUMN.get(name)
    found: Floats = getattr(frame, name) if make is None else make(frame)
    return found


def population(frame: Frame, name: str) -> Bools:
    """The rows a number of requests is about."""
    kind = _POPULATION.get(name, "all")
    if kind == "all":
        return np.ones(frame.n, dtype=np.bool_)
    return frame.stream if kind == "stream" else ~frame.stream


def all_sent(frame: Frame, name: str) -> Floats:
    """Failed and drain-cut requests count as +∞ (speed: 0); NaN: not in it."""
    values = column(frame, name)
    failed = np.nan if name in COUNTED else _FAILED.get(name, np.inf)
    return np.where(population(frame, name), np.where(frame.ok, values, failed), np.nan)


def quantile_of(aggregate: str) -> float | None:
    """ "p99.9" → 0.999; None for what is no percentile."""
    if not aggregate.startswith("p"):
        return None
    try:
        percent = float(aggregate[1:])
    except ValueError:
        return None
    return percent / 100 if 0 < percent < 100 else None
