"""What a threshold may be about: the closed list of metrics, their aggregates and selectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

#: distribution: one value a request (chunk, token). share: 0–1. number: one value of a group of requests.
Kind = Literal["distribution", "share", "number"]


@dataclass(frozen=True, slots=True)
class Metric:
    """`lower_is_better` None: neither. `versus_baseline`: it compares with the baseline by itself, so a limit on it
    cannot be relative. `live`: it is known while the run goes on, so `abort_on_fail` can watch it."""

    unit: str
    kind: Kind
    lower_is_better: bool | None
    meaning: str
    versus_baseline: bool = False
    live: bool = False


#: Defined in docs/method.md; listed for users in docs/verdict.md.
METRICS: Mapping[str, Metric] = {
    "ttft_s": Metric("s", "distribution", True, "sent to first token", live=True),
    "ttft_from_due_s": Metric("s", "distribution", True, "due to first token", live=True),
    "tpot_s": Metric("s", "distribution", True, "time per output token after the first", live=True),
    "total_time_s": Metric("s", "distribution", True, "sent to last token", live=True),
    "total_time_from_due_s": Metric("s", "distribution", True, "due to last token", live=True),
    "chunk_gap_s": Metric("s", "distribution", True, "time between two chunks of a stream"),
    "token_latency_s": Metric(
        "s", "distribution", True, "time a token was waited for, chunks spread over their tokens"
    ),
    "server_queue_s": Metric("s", "distribution", True, "waited in the server's queue, as the server tells it"),
    "server_prefill_s": Metric("s", "distribution", True, "prefill, as the server tells it"),
    "server_decode_s": Metric("s", "distribution", True, "decoding, as the server tells it"),
    "generation_speed": Metric("tokens/s", "distribution", False, "tokens per second of one request after its first"),
    "output_len": Metric("tokens", "distribution", None, "output tokens of a request"),
    "error_share": Metric("", "share", True, "requests that did not succeed, of those sent", live=True),
    "acceptance_rate": Metric("", "share", False, "accepted of drafted tokens"),
    "rollback_rate": Metric("", "share", True, "rounds with a rejected draft token, of all rounds"),
    "cache_hit_share": Metric("", "share", None, "prompt tokens found in the prefix cache"),
    "net_tokens_per_s": Metric("tokens/s", "number", False, "output tokens of successful requests per second"),
    "goodput_requests_per_s": Metric("1/s", "number", False, "requests within the scenario's slos per second"),
    "e_decode": Metric("tokens", "number", False, "tokens per decoding step"),
    "speedup": Metric("×", "number", False, "candidate against baseline; which kind, the result says", True),
    "speedup_decode": Metric("×", "number", False, "E / c: decoding against the baseline's", True),
    "c": Metric("×", "number", True, "cost of a step against the baseline's", True),
}
#: Besides p(N) of distributions. `med` is p(50).
AGGREGATES: Mapping[Kind, tuple[str, ...]] = {
    "distribution": ("avg", "med", "max"),
    "share": ("rate",),
    "number": ("value",),
}
SELECTORS = ("arm", "task_type", "stage", "concurrency", "input_segment", "output_segment")
#: What is known of a request at once when it ends.
LIVE_SELECTORS = ("arm", "task_type", "stage", "concurrency")
