"""What is driven for the pictures, all on rehearsal engines: a comparison, a sweep over k, and a watched canary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TASKS = [
    {"task_type": "short_qa", "input_len": [32, 128], "output_len": [16, 32]},
    {"task_type": "long_form", "input_len": [48, 160], "output_len": [32, 64]},
    {"task_type": "structured", "input_len": [96, 300], "output_len": [16, 40]},
    {"task_type": "code", "input_len": [64, 256], "output_len": [24, 48]},
]
#: Arm to the engine's --spec.
AB_ENGINES = {"baseline": "off", "candidate": "draft:k=4"}
SWEEP_ENGINES = {"baseline": "off", "k2": "draft:k=2", "k4": "draft:k=4", "k8": "draft:k=8"}
CANARY_ENGINES = {"baseline": "off", "candidate": "draft:k=4"}


def scenario(name: str, urls: Mapping[str, str], load: list[dict[str, Any]], blocks: int) -> dict[str, Any]:
    """A scenario file's content. `urls`: by arm; the arm baseline is the one without speculation."""
    return {
        "version": 1,
        "name": name,
        "objective": "throughput",
        "environment": "disposable",
        "seed": 7,
        "repeats": 1,
        "arms": {arm: {"url": url, "speculation": "off" if arm == "baseline" else "on"} for arm, url in urls.items()},
        "comparison": {"blocks": blocks},
        "workload": {"endpoint": "chat", "stream_fraction": 0.9, "tasks": [_task(task) for task in TASKS]},
        "sampling": {"temperature": 0.7, "top_p": 1.0, "seed": 11},
        "load": load,
        "warmup": {"warmup_requests": 8},
        "slos": {"ttft_s": 0.5, "tpot_s": 0.05},
        "thresholds": ["speedup: value>=1.1", "error_share: rate<0.01"],
        "scrape": {"interval_s": 1},
    }


def comparison(urls: Mapping[str, str]) -> dict[str, Any]:
    load: list[dict[str, Any]] = [
        {"kind": "concurrency", "concurrency": users, "cases": cases} for users, cases in ((1, 40), (4, 160), (8, 320))
    ]
    load.append({"kind": "arrival_rate", "rate_per_s": 3, "duration_s": 60, "max_in_flight": 64})
    return scenario("checkout-assistant", urls, load, blocks=20)


def sweep(urls: Mapping[str, str]) -> dict[str, Any]:
    load: list[dict[str, Any]] = [
        {"kind": "concurrency", "concurrency": users, "cases": cases} for users, cases in ((1, 20), (4, 40), (8, 80))
    ]
    return scenario("k-sweep", urls, load, blocks=5)


def _task(task: Mapping[str, Any]) -> dict[str, Any]:
    lengths = {
        key: {"kind": "uniform", "low": task[key][0], "high": task[key][1]} for key in ("input_len", "output_len")
    }
    return {"task_type": task["task_type"], **lengths}
