"""/metrics in the text format, with the names, labels and order of vLLM 0.32, and our own under `rehearsal:`.

Families of speculation are there only where speculation is configured, then with every position from the start."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, generate_latest

from server_adapters.rehearsal.histograms import Histogram, HttpCounts
from server_adapters.rehearsal.info import cache_config
from server_adapters.rehearsal.runner import Runner

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"
Labels = Mapping[str, str]
Values = Sequence[tuple[Labels, float]]


class Counts(NamedTuple):
    """A family of counters. `values`: labels beside engine and model, and the count."""

    name: str
    help: str
    values: Values


_NO_LABELS: Labels = {}
_HELP = {
    "request_prompt_tokens": "Number of prefill tokens processed.",
    "request_generation_tokens": "Number of generation tokens processed.",
    "iteration_tokens_total": "Histogram of number of tokens per engine_step.",
    "request_max_num_generation_tokens": "Histogram of maximum number of requested generation tokens.",
    "request_params_n": "Histogram of the n request parameter.",
    "request_params_max_tokens": "Histogram of the max_tokens request parameter.",
    "time_to_first_token_seconds": "Histogram of time to first token in seconds.",
    "inter_token_latency_seconds": "Histogram of inter-token latency in seconds.",
    "request_time_per_output_token_seconds": "Histogram of time_per_output_token_seconds per request.",
    "e2e_request_latency_seconds": "Histogram of e2e request latency in seconds.",
    "request_queue_time_seconds": "Histogram of time spent in WAITING phase for request.",
    "request_inference_time_seconds": "Histogram of time spent in RUNNING phase for request.",
    "request_prefill_time_seconds": "Histogram of time spent in PREFILL phase for request.",
    "request_decode_time_seconds": "Histogram of time spent in DECODE phase for request.",
    "request_num_preemptions": "Histogram of the number of times a request was preempted.",
    "request_prefill_kv_computed_tokens": "Histogram of new KV tokens computed during prefill (excluding cached "
    "tokens).",
}


class MetricsPage:
    """Renders one page. `engines`: labels under which the same numbers appear (one, but for a fault)."""

    def __init__(self, runner: Runner, http: HttpCounts, model_name: str, engines: Sequence[str] = ("0",)) -> None:
        self._runner, self._http, self._model, self._engines = runner, http, model_name, engines
        self._lines: list[str] = []

    def render(self) -> str:
        """The whole page."""
        self._process()
        for family in self._spec_counters() if self._runner.engine.config.speculation else ():
            self._counter(family)
        self._gauges()
        for family in self._counters():
            self._counter(family)
        self._rejections()
        for name, histogram in self._runner.histograms.families.items():
            self._header(f"vllm:{name}", _HELP[name], "histogram")
            for labels in self._labels(_NO_LABELS):
                self._buckets(f"vllm:{name}", labels, histogram)
            self._created(f"vllm:{name}", _HELP[name], (_NO_LABELS,))
        self._cache_info()
        self._http_families()
        self._own()
        return _python_families() + "\n".join(self._lines) + "\n"

    def _spec_counters(self) -> Iterator[Counts]:
        c = self._runner.counters
        at = [({"position": str(i)}, float(n)) for i, n in enumerate(c.num_accepted_tokens_per_pos)]
        yield Counts("spec_decode_num_drafts", "Number of spec decoding drafts.", _one(c.num_drafts))
        yield Counts("spec_decode_num_draft_tokens", "Number of draft tokens.", _one(c.num_draft_tokens))
        yield Counts("spec_decode_num_accepted_tokens", "Number of accepted tokens.", _one(c.num_accepted_tokens))
        yield Counts("spec_decode_num_accepted_tokens_per_pos", "Accepted tokens per draft position.", at)

    def _counters(self) -> Iterator[Counts]:
        c = self._runner.counters
        by_source = _labelled(
            "source",
            local_compute=c.prompt_tokens - c.prompt_tokens_cached,
            local_cache_hit=c.prompt_tokens_cached,
            external_kv_transfer=0,
        )
        # vLLM 0.32 forgets a request whose client has gone before its end can be counted: its "abort" stays at 0
        finished = _labelled("finished_reason", **{**c.request_success, "abort": 0}, repetition=0)
        yield Counts("prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens.",
                     _one(c.prefix_cache_queries))  # fmt: skip
        yield Counts("prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.",
                     _one(c.prefix_cache_hits))  # fmt: skip
        yield Counts("num_preemptions", "Cumulative number of preemption from the engine.", _one(c.num_preemptions))
        yield Counts("prompt_tokens", "Number of prefill tokens processed.", _one(c.prompt_tokens))
        yield Counts("prompt_tokens_by_source", "Number of prompt tokens by source.", by_source)
        yield Counts("prompt_tokens_cached", "Number of cached prompt tokens (local + external).",
                     _one(c.prompt_tokens_cached))  # fmt: skip
        yield Counts("generation_tokens", "Number of generation tokens processed.", _one(c.generation_tokens))
        yield Counts("request_success", "Count of successfully processed requests.", finished)

    def _gauges(self) -> None:
        state = self._runner.engine.gauges()
        waiting = float(state.num_requests_waiting)
        self._gauge("num_requests_running", "Number of requests in model execution batches.",
                    _one(state.num_requests_running))  # fmt: skip
        self._gauge("num_requests_waiting", "Number of requests waiting to be processed.", _one(waiting))
        self._gauge("num_requests_waiting_by_reason", "Number of waiting requests by reason.",
                    _labelled("reason", capacity=waiting, deferred=0))  # fmt: skip
        self._gauge("engine_sleep_state", "Engine sleep state.",
                    _labelled("sleep_state", awake=1, weights_offloaded=0, discard_all=0))  # fmt: skip
        self._gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", _one(state.kv_cache_usage))

    def _rejections(self) -> None:
        """The front-end's family: no engine label."""
        name, text = "vllm:admission_rejections", "Number of admission attempts rejected by a queue limit, by reason."
        rejected = self._runner.counters.admission_rejections
        self._header(f"{name}_total", text, "counter")
        for reason, count in rejected.items():
            self._line(f"{name}_total", {"model_name": self._model, "reason": reason}, count)
        self._header(f"{name}_created", text, "gauge")
        for reason in rejected:
            self._line(f"{name}_created", {"model_name": self._model, "reason": reason}, self._runner.created_s)

    def _cache_info(self) -> None:
        self._header("vllm:cache_config_info", "Information of the LLMEngine CacheConfig", "gauge")
        for engine in self._engines:
            labels = {key: str(value) for key, value in cache_config(self._runner.engine).items()}
            self._line("vllm:cache_config_info", labels | {"engine": engine}, 1)

    def _http_families(self) -> None:
        http = self._http
        self._header("http_requests_total", "Total number of requests by method, status and handler.", "counter")
        for (handler, method, status), count in http.requests.items():
            self._line("http_requests_total", {"handler": handler, "method": method, "status": status}, count)
        for name, sizes, what in (
            ("http_request_size_bytes", http.request_sizes, "incoming requests"),
            ("http_response_size_bytes", http.response_sizes, "outgoing responses"),
        ):
            self._header(name, f"Content length of {what} by handler.", "summary")
            for handler, (count, total) in sizes.items():
                self._line(f"{name}_count", {"handler": handler}, count)
                self._line(f"{name}_sum", {"handler": handler}, total)
        name = "http_request_duration_highr_seconds"
        self._header(name, "Latency with many buckets but no API specific labels.", "histogram")
        self._buckets(name, _NO_LABELS, http.highr)
        name = "http_request_duration_seconds"
        self._header(name, "Latency with only few buckets by handler.", "histogram")
        for (handler, method), histogram in http.durations.items():
            self._buckets(name, {"handler": handler, "method": method}, histogram)

    def _own(self) -> None:
        """What a real server cannot tell: the true draft and target times, and how late this process is."""
        runner, lag, c = self._runner, self._runner.lag, self._runner.counters
        rows = (
            ("draft_time_seconds_total", "counter", "Engine time spent drafting.", c.draft_time_s),
            ("verify_time_seconds_total", "counter", "Engine time spent in the target model.", c.verify_time_s),
            ("busy_time_seconds_total", "counter", "Engine time of all steps.", c.busy_time_s),
            ("lag_seconds_total", "counter", "Lateness of all outputs, summed.", lag.total_s),
            ("lagged_outputs_total", "counter", "Outputs written.", float(lag.count)),
            ("lag_max_seconds", "gauge", "Greatest lateness of an output.", lag.max_s),
            ("forgone_seconds_total", "counter", "Time by which the engine's clock was moved.", lag.forgone_s),
            ("saturated", "gauge", "1 while this process cannot keep real time.", lag.saturated(time.monotonic())),
            ("speculation_enabled", "gauge", "0 while the switch is off.", float(runner.speculation_enabled)),
        )
        for name, kind, text, value in rows:
            self._header(f"rehearsal:{name}", text, kind)
            self._line(f"rehearsal:{name}", _NO_LABELS, value)

    def _process(self) -> None:
        """A counter reset stands for a restart, so the process seems to begin with its counters."""
        process = psutil.Process()
        memory, cpu = process.memory_info(), process.cpu_times()
        rows = (
            ("virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", memory.vms),
            ("resident_memory_bytes", "gauge", "Resident memory size in bytes.", memory.rss),
            ("start_time_seconds", "gauge", "Start time of the process since unix epoch in seconds.",
             self._runner.created_s),
            ("cpu_seconds_total", "counter", "Total user and system CPU time spent in seconds.", cpu.user + cpu.system),
        )  # fmt: skip
        for name, kind, text, value in rows:
            self._header(f"process_{name}", text, kind)
            self._line(f"process_{name}", _NO_LABELS, value)
        if os.path.isdir("/proc/self/fd"):
            self._header("process_open_fds", "Number of open file descriptors.", "gauge")
            self._line("process_open_fds", _NO_LABELS, sum(1 for _ in Path("/proc/self/fd").iterdir()))

    def _counter(self, family: Counts) -> None:
        name = f"vllm:{family.name}_total"
        self._header(name, family.help, "counter")
        for own, value in family.values:
            for labels in self._labels(own):
                self._line(name, labels, value)
        self._created(f"vllm:{family.name}", family.help, [own for own, _ in family.values])

    def _gauge(self, name: str, text: str, values: Values) -> None:
        self._header(f"vllm:{name}", text, "gauge")
        for own, value in values:
            for labels in self._labels(own):
                self._line(f"vllm:{name}", labels, value)

    def _created(self, name: str, text: str, each: Sequence[Labels]) -> None:
        self._header(f"{name}_created", text, "gauge")
        for own in each:
            for labels in self._labels(own):
                self._line(f"{name}_created", labels, self._runner.created_s)

    def _buckets(self, name: str, labels: Labels, histogram: Histogram) -> None:
        edges = [*map(str, histogram.edges), "+Inf"]
        for edge, count in zip(edges, histogram.cumulative(), strict=True):
            self._line(f"{name}_bucket", {**labels, "le": edge}, count)
        self._line(f"{name}_count", labels, histogram.count)
        self._line(f"{name}_sum", labels, histogram.total)

    def _labels(self, own: Labels) -> Iterator[Labels]:
        for engine in self._engines:
            yield {"engine": engine, "model_name": self._model, **own}

    def _header(self, name: str, text: str, kind: str) -> None:
        self._lines += (f"# HELP {name} {text}", f"# TYPE {name} {kind}")

    def _line(self, name: str, labels: Labels, value: float) -> None:
        inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in sorted(labels.items()))
        self._lines.append(f"{name}{{{inner}}} {float(value)!r}" if inner else f"{name} {float(value)!r}")


_PYTHON = CollectorRegistry()
GCCollector(registry=_PYTHON)
PlatformCollector(registry=_PYTHON)


def _python_families() -> str:
    return generate_latest(_PYTHON).decode()


def _one(value: float) -> Values:
    return [(_NO_LABELS, float(value))]


def _labelled(label: str, **values: float) -> Values:
    return [({label: key}, float(value)) for key, value in values.items()]


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
