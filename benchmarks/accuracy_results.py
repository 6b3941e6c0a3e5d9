"""What each load generator says in its own result file, in one shape. Pure: decoded JSON in, numbers out.

All times are milliseconds; `None` is what a tool does not report. The definitions are the tools' own:

* `ttft`: time to first token of a request.
* `tpot`: time per output token of a request after the first: specload divides by the tokens after the first
  chunk, vllm bench, AIPerf (`inter_token_latency`) and GuideLLM (`inter_token_latency_ms`) by tokens − 1.
* `gap`: time between two chunks that follow each other: specload `chunk_gap_s`, vllm bench `itl`, AIPerf
  `inter_chunk_latency`; GuideLLM reports means per request only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Reading:
    """`requests`: all that the tool says it ended, with `errors` among them."""

    ttft_p50_ms: float | None
    ttft_p99_ms: float | None
    tpot_p50_ms: float | None
    tpot_p99_ms: float | None
    gap_p50_ms: float | None
    gap_p99_ms: float | None
    requests: int | None
    errors: int | None
    note: str = ""

    def json(self) -> dict[str, Any]:
        return asdict(self)


def _reading(times: list[float | None], requests: int | None, errors: int | None, note: str = "") -> Reading:
    """`times`: the six of a Reading, in its order."""
    ttft_p50, ttft_p99, tpot_p50, tpot_p99, gap_p50, gap_p99 = times
    return Reading(ttft_p50, ttft_p99, tpot_p50, tpot_p99, gap_p50, gap_p99, requests, errors, note)


def read_specload(summary: Json) -> Reading:
    """summary.json of a run with one arm. ValueError where there are several."""
    (arm,) = summary["arms"].values()
    whole = arm["overall"]
    outcomes = whole["requests"]["outcomes"]
    values: list[float | None] = []
    for d in (whole["stream"]["ttft_s"], whole["tpot_s"], whole["chunk_gap_s"]):
        values += [None if d[p] is None else d[p] * 1e3 for p in ("p50", "p99")]
    coalesced = summary["validity"]["client"]["coalesced_share"]["value"]
    notes = [] if summary["validity"]["state"] in (None, "valid") else [f"run {summary['validity']['state']}"]
    if coalesced is not None:
        notes.append(f"{coalesced:.2%} coalesced")
    total = sum(outcomes.values())
    return _reading(values, total, total - outcomes["ok"], ", ".join(notes))


def read_vllm(result: Json) -> Reading:
    """The file of `vllm bench serve --save-result` with percentiles 50 and 99 of ttft, tpot and itl."""
    values = [result.get(f"{p}_{name}_ms") for name in ("ttft", "tpot", "itl") for p in ("p50", "p99")]
    done, failed = int(result["completed"]), int(result["failed"])
    return _reading(values, done + failed, failed)


def read_aiperf(result: Json) -> Reading:
    """profile_export_aiperf.json. A run without failures has no `error_request_count`, but an error rate of 0."""
    values: list[float | None] = []
    for name in ("time_to_first_token", "inter_token_latency", "inter_chunk_latency"):
        metric = result.get(name) or {}
        values += [metric.get("p50"), metric.get("p99")]
    done = int((result.get("request_count") or {"avg": 0})["avg"])
    errors: int | None = None
    if (counted := result.get("error_request_count")) is not None:
        errors = int(counted["avg"])
    elif (rate := result.get("request_error_rate")) is not None and rate["avg"] == 0:
        errors = 0
    return _reading(values, None if errors is None else done + errors, errors)


def read_guidellm(result: Json) -> Reading:
    """The JSON output of a run with one benchmark. ValueError where there are several."""
    (benchmark,) = result["benchmarks"]
    metrics = benchmark["metrics"]
    values: list[float | None] = []
    for name in ("time_to_first_token_ms", "inter_token_latency_ms"):
        spread = metrics[name]["successful"]
        known = bool(spread and spread["count"])
        values += [spread["percentiles"][p] if known else None for p in ("p50", "p99")]
    totals = metrics["request_totals"]
    return _reading([*values, None, None], totals["total"] - totals["incomplete"], totals["errored"])


def read_truth(stats: Json) -> Reading:
    """/stats of the truth server: what it sent and when, in the same shape."""
    values: list[float | None] = []
    for name in ("ttft", "tpot", "itl"):
        known = stats[name]["n"] > 0
        values += [stats[name][f"{p}_us"] / 1e3 if known else None for p in ("p50", "p99")]
    return _reading(values, stats["done"], stats["errors"])


READERS: Mapping[str, Callable[[Json], Reading]] = {
    "specload": read_specload,
    "vllm": read_vllm,
    "aiperf": read_aiperf,
    "guidellm": read_guidellm,
}
