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
    "ttft_s": Metric("s", "distribution", True, "sent to first token, streaming", live=True),
    "ttft_answer_s": Metric("s", "distribution", True, "sent to the first token of the answer, after reasoning"),
    "ttft_from_due_s": Metric("s", "distribution", True, "due to first token, streaming", live=True),
    "tpot_s": Metric("s", "distribution", True, "time per output token after the first, streaming", live=True),
    "total_time_s": Metric("s", "distribution", True, "sent to last token, streaming", live=True),
    "total_time_from_due_s": Metric("s", "distribution", True, "due to last token, streaming", live=True),
    "non_stream_total_time_s": Metric("s", "distribution", True, "sent to end of body, not streamed", live=True),
    "chunk_gap_s": Metric("s", "distribution", True, "time between two arrivals of a stream"),
    "token_latency_s": Metric("s", "distribution", True, "gap of an arrival over its tokens, each token once"),
    "server_queue_s": Metric("s", "distribution", True, "waited in the server's queue, as the server tells it"),
    "server_prefill_s": Metric("s", "distribution", True, "prefill, as the server tells it"),
    "server_decode_s": Metric("s", "distribution", True, "decoding, as the server tells it"),
    "draft_time_s": Metric("s", "distribution", True, "time spent drafting, where the server tells it"),
    "verify_time_s": Metric("s", "distribution", True, "time spent verifying, where the server tells it"),
    "generation_speed": Metric("tokens/s", "distribution", False, "output tokens ÷ total time of a request"),
    "output_len": Metric("tokens", "distribution", None, "output tokens of a request"),
    "input_len": Metric("tokens", "distribution", None, "prompt tokens of a request"),
    "error_share": Metric(
        "", "share", True, "failed requests ÷ sent, without those our own drain or stop cut", live=True
    ),
    "goodput_share": Metric("", "share", False, "requests within every limit of slos ÷ sent"),
    "acceptance_rate": Metric("", "share", False, "accepted ÷ drafted tokens"),
    "rollback_rate": Metric("", "share", True, "rounds with a rejected draft token ÷ rounds"),
    "net_tokens_per_s": Metric("tokens/s", "number", False, "net throughput of the steady windows"),
    "requests_per_s": Metric("1/s", "number", False, "ok requests that ended in the steady windows, per second"),
    "goodput_requests_per_s": Metric("1/s", "number", False, "requests within every limit of slos, per second"),
    "goodput_tokens_per_s": Metric("tokens/s", "number", False, "tokens of requests within slos, per second"),
    "e_decode": Metric("tokens/step", "number", False, "tokens per decoding step"),
    "speedup": Metric("×", "number", False, "candidate against baseline; of what, the load decides", True),
    "speedup_net": Metric("×", "number", False, "net throughput, candidate ÷ baseline", True),
    "speedup_decode": Metric("×", "number", False, "mean time per output token, baseline ÷ candidate: E ÷ c", True),
    "speedup_total_time": Metric("×", "number", False, "mean total time, baseline ÷ candidate", True),
    "e_ratio": Metric("×", "number", False, "tokens per decoding step, candidate ÷ baseline", True),
    "c": Metric("×", "number", True, "mean time of a decoding step, candidate ÷ baseline", True),
}
#: Besides p(N) of distributions. `med` is p(50).
AGGREGATES: Mapping[Kind, tuple[str, ...]] = {
    "distribution": ("avg", "med", "max"),
    "share": ("rate",),
    "number": ("value",),
}
SELECTORS = ("arm", "task_type", "stage", "concurrency", "rate_per_s", "input_segment", "output_segment")
#: What is known of a request at once when it ends.
LIVE_SELECTORS = ("arm", "task_type", "stage", "concurrency", "rate_per_s")
