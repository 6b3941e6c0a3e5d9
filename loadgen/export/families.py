"""Every metric: name, type, labels, unit, meaning. docs/metrics.md is made from this table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from loadgen.drive import Outcome

Kind = Literal["counter", "gauge", "histogram"]
PREFIX = "specload_"
#: Label that the service adds to series of runs: which of those at once it is.
LANE = "lane"


@dataclass(frozen=True, slots=True)
class Family:
    """`labels` in their order. A family with `run_id` is about one run, and goes a grace time after its end."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    unit: str
    meaning: str

    @property
    def full_name(self) -> str:
        return PREFIX + self.name

    @property
    def of_run(self) -> bool:
        return "run_id" in self.labels


_GROUP = ("arm", "task_type", "stage")
_STREAM = (*_GROUP, "stream")
_SPEC = ("arm", "task_type", "source")
_STAGE = ("run_id", "arm", "stage")
_OUTCOMES = ", ".join(Outcome)

REQUESTS: tuple[Family, ...] = (
    Family("requests_total", "counter", (*_GROUP, "outcome"), "requests", f"measured requests that ended: {_OUTCOMES}"),
    Family(
        "good_requests_total", "counter", _GROUP, "requests",
        "measured requests that were ok and within every limit of the scenario's slos; only where it sets any",
    ),
    Family("warmup_requests_total", "counter", ("arm", "outcome"), "requests", "requests of warm-up that ended"),
    Family(
        "scheduled_requests_total", "counter", ("arm",), "requests", "measured requests that were due, sent or not"
    ),
    Family("sent_requests_total", "counter", ("arm",), "requests", "measured requests that were sent"),
    Family(
        "dropped_requests_total", "counter", ("arm", "reason"), "requests",
        "measured requests never sent: max_in_flight (given up at the limit), stopped (the segment ended first)",
    ),
    Family("late_requests_total", "counter", ("arm",), "requests", "measured requests sent more than 10 ms after due"),
    Family("inflight_requests", "gauge", ("arm",), "requests", "sent and not ended, warm-up too"),
    Family("target_concurrency", "gauge", ("arm",), "requests", "plateau of the closed loop now; 0 = none now"),
    Family("target_rate_per_second", "gauge", ("arm",), "1/s", "rate of the open loop now; 0 = none now"),
    Family(
        "send_lag_seconds", "histogram", ("arm",), "s",
        "due to sent (closed loop: since the slot became free): what coordinated omission would hide",
    ),
    Family("ttft_seconds", "histogram", _STREAM, "s", "sent to first token, ok streams"),
    Family(
        "total_time_seconds", "histogram", _STREAM, "s", "sent to last token; not streamed: to end of body; ok requests"
    ),
    Family("tpot_seconds", "histogram", _GROUP, "s", "time per output token after the first chunk, ok streams"),
    Family("chunk_gap_seconds", "histogram", _GROUP, "s", "time between two arrivals of an ok stream"),
    Family("tokens_per_chunk", "histogram", _GROUP, "tokens", "tokens of a chunk of an ok stream, where it tells"),
    Family("prompt_tokens_total", "counter", _GROUP, "tokens", "prompt tokens of measured requests, by usage"),
    Family("output_tokens_total", "counter", _GROUP, "tokens", "output tokens of measured requests, where counted"),
)  # fmt: skip

SPECULATION: tuple[Family, ...] = (
    Family(
        "draft_tokens_total", "counter", _SPEC, "tokens",
        "draft tokens. source is per_request (statistics in the answers), server_window (the servers' counters "
        "while measured segments run; task_type is all where the plan has several) or client_chunk (from the chunks' "
        "tokens, which tell no drafts). Never sum over source: it is the same work seen three times",
    ),
    Family("accepted_tokens_total", "counter", _SPEC, "tokens", "draft tokens accepted"),
    Family(
        "verify_rounds_total", "counter", _SPEC, "rounds",
        "verification rounds; of client_chunk: decode steps after the first chunk",
    ),
    Family(
        "rollback_rounds_total", "counter", _SPEC, "rounds",
        "rounds that certainly had a rejected draft token: ÷ verify_rounds_total a lower bound of the rollback rate, "
        "and exact where every request's counts determine it",
    ),
    Family(
        "accepted_position_total", "counter", ("arm", "position", "source"), "rounds",
        "rounds that accepted the draft token at this position, from 0",
    ),
)  # fmt: skip

SERVER: tuple[Family, ...] = (
    Family("server_scrapes_total", "counter", ("arm",), "scrapes", "looks at the arm's metrics pages"),
    Family("server_scrape_errors_total", "counter", ("arm",), "scrapes", "looks that gave no usable page"),
    Family("server_scrape_duration_seconds", "gauge", ("arm",), "s", "the newest look, asked to answered"),
    Family("server_resets_total", "counter", ("arm",), "resets", "counters that went back: a restart"),
    Family("server_running_requests", "gauge", ("arm",), "requests", "running, all pages; gone where not told"),
    Family("server_waiting_requests", "gauge", ("arm",), "requests", "waiting, all pages; gone where not told"),
    Family("server_kv_usage_ratio", "gauge", ("arm",), "ratio", "KV cache used, mean of engines; gone where not told"),
    Family(
        "server_spec_counters", "gauge", ("arm",), "0 or 1",
        "1: the newest page has draft counters; 0: it has none, which is not the same as no draft",
    ),
)  # fmt: skip

HARDWARE: tuple[Family, ...] = (
    Family(
        "gpu_memory_used_bytes", "gauge", ("arm", "source"), "bytes",
        "GPU memory in use at the newest sample, all GPUs of the arm that the source tells of; source is nvml, an "
        "exporter's page or process; gone where not told",
    ),
    Family(
        "gpu_utilization_ratio", "gauge", ("arm", "source"), "ratio",
        "share of time in which a kernel ran, mean of GPUs"
    ),
    Family("gpu_dram_active_ratio", "gauge", ("arm", "source"), "ratio", "memory bandwidth in use, mean of GPUs"),
    Family("gpu_power_watts", "gauge", ("arm", "source"), "W", "power draw, all GPUs of the arm"),
    Family(
        "server_resident_memory_bytes", "gauge", ("arm", "source"), "bytes", "resident memory of the server's processes"
    ),
    Family("telemetry_up", "gauge", ("arm", "source"), "0 or 1", "1: the newest sample of the source told something"),
)  # fmt: skip

CLIENT: tuple[Family, ...] = (
    Family("event_loop_lag_seconds", "gauge", ("worker",), "s", "largest lag of the worker's event loop, last second"),
    Family("worker_cpu_ratio", "gauge", ("worker",), "ratio", "CPU of the worker process, of one core"),
    Family("worker_resident_memory_bytes", "gauge", ("worker",), "bytes", "resident memory of the worker process"),
    Family("run_active", "gauge", (), "0 or 1", "1 while a run drives load"),
)

RUN: tuple[Family, ...] = (
    Family(
        "run_info", "gauge",
        ("run_id", "arm", "scenario", "scenario_sha", "engine", "engine_version", "k", "method"), "1",
        "one for each arm of the run; empty labels are not known",
    ),
    Family(
        "run_phase_timestamp_seconds", "gauge", ("run_id", "phase"), "Unix s",
        "when the phase first began: warmup, measure, drain (of the newest segment), end",
    ),
    Family("run_stage_timestamp_seconds", "gauge", ("run_id", "stage"), "Unix s", "when the stage was first measured"),
    Family("run_verdict", "gauge", ("run_id",), "code", "0 fail, 1 pass, -1 inconclusive; at the end"),
    Family("run_validity", "gauge", ("run_id",), "code", "0 invalid, 1 valid, -1 doubtful; at the end"),
    Family("threshold_value", "gauge", ("run_id", "arm", "threshold"), "of the threshold", "value judged; at the end"),
    Family("threshold_limit", "gauge", ("run_id", "arm", "threshold"), "of the threshold", "its limit; at the end"),
    Family(
        "run_speedup_ratio", "gauge", (*_STAGE, "kind"), "ratio",
        "speedup against the baseline, from the records; at the end",
    ),
    Family("run_speedup_low_ratio", "gauge", (*_STAGE, "kind"), "ratio", "lower end of its 95 % interval"),
    Family("run_speedup_high_ratio", "gauge", (*_STAGE, "kind"), "ratio", "upper end of its 95 % interval"),
    Family("run_step_cost_ratio", "gauge", _STAGE, "ratio", "c: time of a decode step, ÷ the baseline's; at the end"),
    Family("run_tokens_per_step", "gauge", _STAGE, "tokens", "E: tokens per decode step; at the end"),
    Family("run_acceptance_ratio", "gauge", _STAGE, "ratio", "accepted ÷ drafted tokens; at the end"),
    Family("run_net_tokens_per_second", "gauge", _STAGE, "tokens/s", "net throughput, steady windows; at the end"),
    Family("run_goodput_requests_per_second", "gauge", _STAGE, "1/s", "requests within every SLO; at the end"),
    Family("run_gpu_memory_peak_bytes", "gauge", _STAGE, "bytes", "most GPU memory in use, steady windows; at the end"),
    Family("run_gpu_utilization_ratio", "gauge", _STAGE, "ratio", "share of time in which a kernel ran; at the end"),
    Family("run_gpu_dram_active_ratio", "gauge", _STAGE, "ratio", "memory bandwidth in use; at the end"),
    Family("run_gpu_power_watts", "gauge", _STAGE, "W", "mean power of all GPUs of the arm; at the end"),
    Family("run_joules_per_output_token", "gauge", _STAGE, "J", "energy ÷ output tokens, steady windows; at the end"),
    Family("run_kv_capacity_tokens", "gauge", _STAGE, "tokens", "what the KV caches of the arm hold; at the end"),
    Family(
        "run_cost_per_million_output_tokens", "gauge", _STAGE, "currency of the price",
        "GPUs × price ÷ net throughput; at the end",
    ),
    Family("run_cost_per_request", "gauge", _STAGE, "currency of the price", "of an ok request; at the end"),
)  # fmt: skip

_LEVEL = ("sweep_id", "axis", "level", "where", "arm")
_SHAPE = ("sweep_id", "axis", "where", "arm")

SWEEP: tuple[Family, ...] = (
    Family(
        "sweep_visits", "gauge", ("sweep_id", "state"), "visits",
        "visits of the sweep by state: done, failed, skipped, interrupted, pending; while it runs",
    ),
    Family("sweep_elapsed_seconds", "gauge", ("sweep_id",), "s", "time that the sweep has taken, all sessions"),
    Family(
        "sweep_net_tokens_per_second", "gauge", _LEVEL, "tokens/s",
        "net throughput at a level of an axis, over its visits; where: the other axes; at the end",
    ),
    Family("sweep_tpot_p95_seconds", "gauge", _LEVEL, "s", "95th percentile of time per token at a level"),
    Family("sweep_ttft_p95_seconds", "gauge", _LEVEL, "s", "95th percentile of time to first token at a level"),
    Family("sweep_acceptance_ratio", "gauge", _LEVEL, "ratio", "accepted ÷ drafted tokens at a level"),
    Family("sweep_tokens_per_step", "gauge", _LEVEL, "tokens", "E: tokens per decode step at a level"),
    Family("sweep_speedup_ratio", "gauge", _LEVEL, "ratio", "speedup over the baseline at a level"),
    Family("sweep_knee", "gauge", _SHAPE, "of the axis", "level at which throughput stops growing with load"),
    Family("sweep_stops_paying", "gauge", _SHAPE, "of the axis", "level at which the speedup falls to 1"),
    Family("sweep_best_k", "gauge", ("sweep_id", "where"), "tokens", "k of the best net throughput; 0 = off"),
    Family(
        "sweep_max_rate_per_second", "gauge", ("sweep_id", "where", "arm"), "1/s",
        "highest arrival rate at which every SLO of sweep.max_rate held",
    ),
    Family(
        "sweep_drift_ratio", "gauge", ("sweep_id", "arm", "metric"), "ratio",
        "baseline point, last visit ÷ first, from the line through its visits",
    ),
)  # fmt: skip

_CANARY = ("canary",)
_CHECK = ("canary", "check", "source")

CANARY: tuple[Family, ...] = (
    Family(
        "canary_info", "gauge", ("canary", "canary_id", "arm", "baseline"), "1",
        "one for each canary that is watched; canary is the scenario's name",
    ),
    Family("canary_active", "gauge", _CANARY, "0 or 1", "1 while the canary is watched"),
    Family("canary_start_timestamp_seconds", "gauge", _CANARY, "Unix s", "when watching began"),
    Family("canary_end_timestamp_seconds", "gauge", _CANARY, "Unix s", "when it ended; not there before"),
    Family("canary_window_seconds", "gauge", _CANARY, "s", "length of a window"),
    Family("canary_window_end_timestamp_seconds", "gauge", _CANARY, "Unix s", "end of the newest judged window"),
    Family(
        "canary_state", "gauge", ("canary", "state"), "0 or 1",
        "1 for the state that the canary is in: ok, doubtful, fail, no_data",
    ),
    Family("canary_verdict", "gauge", _CANARY, "code", "0 fail, 1 pass, -1 inconclusive: of the last windows together"),
    Family("canary_windows_total", "counter", ("canary", "state"), "windows", "judged windows by the state after them"),
    Family("canary_transitions_total", "counter", ("canary", "to"), "changes", "changes of the state"),
    Family("canary_check_value", "gauge", _CHECK, "of the check", "number of the newest window; gone where not known"),
    Family("canary_check_low", "gauge", _CHECK, "of the check", "lower end of its 95 % interval"),
    Family("canary_check_high", "gauge", _CHECK, "of the check", "upper end of its 95 % interval"),
    Family("canary_check_limit", "gauge", _CHECK, "of the check", "what it must keep"),
    Family("canary_check_result", "gauge", _CHECK, "code", "newest window: 0 fail, 1 pass, -1 unclear or no data"),
    Family("canary_check_failing_windows", "gauge", _CHECK, "windows", "failing windows in a row; 3 are a fail"),
    Family(
        "canary_traffic_ratio", "gauge", _CANARY, "ratio",
        "the canary's part of the requests of both arms in the newest window, probes left out; gone where not known",
    ),
    Family(
        "canary_probes_total", "counter", ("canary", "arm", "outcome"), "requests",
        "requests of our own that ended, by outcome",
    ),
    Family(
        "canary_hook_calls_total", "counter", ("canary", "hook", "result"), "calls",
        "webhooks and pulls of the kill switch, by result: delivered, failed, dropped, dry_run",
    ),
)  # fmt: skip

SERVICE: tuple[Family, ...] = (
    Family("service_runs", "gauge", ("state",), "runs", "runs that the service knows, by state"),
    Family("service_watchers", "gauge", (), "streams", "live streams that are open"),
    Family(
        "service_requests_total", "counter", ("route", "status"), "requests",
        "requests answered, by route and status class (2xx, 4xx, …)",
    ),
    Family(
        "service_refused_total", "counter", ("reason",), "requests",
        "requests refused: unknown (no token, or a wrong one), role, csrf, rate, host, body; and connections: "
        "connections (too many), slow (given up)",
    ),
)  # fmt: skip

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (*REQUESTS, *SPECULATION, *SERVER, *HARDWARE, *CLIENT, *RUN, *SWEEP, *CANARY, *SERVICE)
}  # fmt: skip
