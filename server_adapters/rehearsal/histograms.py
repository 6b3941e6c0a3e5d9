"""What the server counts beside the engine's counters: vLLM's histograms and the HTTP instrumentation."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from server_adapters.rehearsal.types import EngineRequest, RequestOutput

_LATENCY = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
            960.0, 1920.0, 7680.0)  # fmt: skip
_GAP = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
_TTFT = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
         160.0, 640.0, 2560.0)  # fmt: skip
_ITERATION = (1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0)
_HIGHR = (0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 7.5, 10.0, 30.0,
          60.0)  # fmt: skip


def one_two_five(limit: int) -> tuple[float, ...]:
    """1, 2, 5, 10, … up to the limit: vLLM's buckets of token counts."""
    return tuple(float(m * 10**e) for e in range(8) for m in (1, 2, 5) if m * 10**e <= limit)


class Histogram:
    """Cumulative buckets in Prometheus's sense; a value equal to an edge is in its bucket."""

    __slots__ = ("_counts", "edges", "total")

    def __init__(self, edges: Sequence[float]) -> None:
        self.edges = tuple(edges)
        self._counts = [0] * (len(self.edges) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self.edges, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        """How many values."""
        return sum(self._counts)

    def cumulative(self) -> list[int]:
        """Counts up to each edge, then up to infinity."""
        return list(accumulate(self._counts))


class EngineHistograms:
    """vLLM's request and step histograms, keyed by family without `vllm:`. Seconds and tokens."""

    def __init__(self, max_model_len: int) -> None:
        tokens = one_two_five(max_model_len)
        edges: dict[str, Sequence[float]] = {
            "request_prompt_tokens": tokens,
            "request_generation_tokens": tokens,
            "iteration_tokens_total": _ITERATION,
            "request_max_num_generation_tokens": tokens,
            "request_params_n": (1.0, 2.0, 5.0, 10.0, 20.0),
            "request_params_max_tokens": tokens,
            "time_to_first_token_seconds": _TTFT,
            "inter_token_latency_seconds": _GAP,
            "request_time_per_output_token_seconds": _GAP,
            "e2e_request_latency_seconds": _LATENCY,
            "request_queue_time_seconds": _LATENCY,
            "request_inference_time_seconds": _LATENCY,
            "request_prefill_time_seconds": _LATENCY,
            "request_decode_time_seconds": _LATENCY,
            "request_num_preemptions": (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0),
            "request_prefill_kv_computed_tokens": tokens,
        }
        self.families = {name: Histogram(e) for name, e in edges.items()}
        self._gap = self.families["inter_token_latency_seconds"]

    def observe_gap(self, seconds: float) -> None:
        """One decode output of one request: a verify round, not a token."""
        self._gap.observe(seconds)

    def observe_step(self, tokens: int) -> None:
        """One step with outputs: prompt tokens of requests with their first token, and new tokens."""
        self.families["iteration_tokens_total"].observe(tokens)

    def observe_first(self, output: RequestOutput) -> None:
        """The first token of a request."""
        times = output.times
        if times.first_token_s is not None:
            self.families["time_to_first_token_seconds"].observe(times.first_token_s - times.arrival_s)

    def observe_finished(self, output: RequestOutput, request: EngineRequest) -> None:
        """A request that ended by itself."""
        times, tokens = output.times, output.num_output_tokens
        scheduled, first, last = times.first_scheduled_s, times.first_token_s, times.last_token_s
        if scheduled is None or first is None or last is None:
            return
        values = {
            "request_prompt_tokens": output.num_prompt_tokens,
            "request_generation_tokens": tokens,
            "request_max_num_generation_tokens": tokens,
            "request_params_n": 1,
            "request_params_max_tokens": request.sampling.max_tokens,
            "request_time_per_output_token_seconds": (last - first) / (tokens - 1) if tokens > 1 else 0.0,
            "e2e_request_latency_seconds": last - times.arrival_s,
            "request_queue_time_seconds": scheduled - times.arrival_s,
            "request_inference_time_seconds": last - scheduled,
            "request_prefill_time_seconds": first - scheduled,
            "request_decode_time_seconds": last - first,
            "request_num_preemptions": output.num_preemptions,
            "request_prefill_kv_computed_tokens": output.num_prompt_tokens - output.num_cached_tokens,
        }
        for name, value in values.items():
            self.families[name].observe(value)


class HttpCounts:
    """What prometheus-fastapi-instrumentator counts: requests, sizes (by Content-Length), durations."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str, str], int] = {}
        self.request_sizes: dict[str, tuple[int, int]] = {}
        self.response_sizes: dict[str, tuple[int, int]] = {}
        self.durations: dict[tuple[str, str], Histogram] = {}
        self.highr = Histogram(_HIGHR)

    def observe(self, handler: str, method: str, status: int, sizes: tuple[int, int], seconds: float) -> None:
        """One answered request; `sizes`: bytes of request and response, 0 where unknown."""
        key = (handler, method, f"{status // 100}xx")
        self.requests[key] = self.requests.get(key, 0) + 1
        for table, size in zip((self.request_sizes, self.response_sizes), sizes, strict=True):
            count, total = table.get(handler, (0, 0))
            table[handler] = (count + 1, total + size)
        self.highr.observe(seconds)
        self.durations.setdefault((handler, method), Histogram((0.1, 0.5, 1.0))).observe(seconds)
