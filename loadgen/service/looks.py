"""The last seconds of a run as numbers, from two looks at its live metrics. Pure: for watchers, never for a verdict.

The keys of a look are a contract of the service (docs/service.md, "Looks").
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loadgen.export import FAMILIES, Counted, MetricsTold, quantile

#: Quantiles and rates are of so many seconds.
WINDOW_S = 10.0
#: Which counts of speculation are shown where several count the same work, best first.
SOURCES = ("per_request", "server_window", "client_chunk")
Values = tuple[str, ...]
#: By family, then by the values of its labels in their order.
Numbers = Mapping[str, Mapping[Values, float]]


@dataclass(frozen=True)
class State:
    """Everything told by a moment. `at_s`: monotonic."""

    at_s: float
    numbers: Numbers
    histograms: Mapping[str, Mapping[Values, Counted]]


def state_of(told: MetricsTold, at_s: float) -> State:
    numbers: dict[str, dict[Values, float]] = defaultdict(dict)
    histograms: dict[str, dict[Values, Counted]] = defaultdict(dict)
    for (name, values), number in told.numbers.items():
        numbers[name][values] = number
    for (name, values), counted in told.histograms.items():
        histograms[name][values] = counted
    return State(at_s, numbers, histograms)


def look(before: State, now: State) -> dict[str, Any]:
    """One object an arm. Rates are a second, over the time between the two; what cannot be told is null."""
    arms = sorted(arm for (arm,) in now.numbers.get("inflight_requests", {}))
    return {"window_s": round(now.at_s - before.at_s, 3), "arms": {arm: _arm(before, now, arm) for arm in arms}}


def _arm(before: State, now: State, arm: str) -> dict[str, Any]:
    passed_s = now.at_s - before.at_s
    ended = _grouped(now.numbers, "requests_total", "outcome", arm=arm)
    had = _grouped(before.numbers, "requests_total", "outcome", arm=arm)
    new = {k: n - had.get(k, 0.0) for k, n in ended.items()}

    def rate(name: str) -> float | None:
        grown = _sum(now.numbers, name, arm=arm) - _sum(before.numbers, name, arm=arm)
        return round(grown / passed_s, 3) if passed_s > 0 else None

    return {
        "target_concurrency": _gauge(now.numbers, "target_concurrency", arm),
        "target_rate_per_s": _gauge(now.numbers, "target_rate_per_second", arm),
        "in_flight": _gauge(now.numbers, "inflight_requests", arm),
        "server_running": _gauge(now.numbers, "server_running_requests", arm),
        "server_waiting": _gauge(now.numbers, "server_waiting_requests", arm),
        "scheduled": int(_sum(now.numbers, "scheduled_requests_total", arm=arm)),
        "sent": int(_sum(now.numbers, "sent_requests_total", arm=arm)),
        "dropped": int(_sum(now.numbers, "dropped_requests_total", arm=arm)),
        "late": int(_sum(now.numbers, "late_requests_total", arm=arm)),
        "outcomes": {k: int(n) for k, n in ended.items() if n},
        "asked_per_s": rate("scheduled_requests_total"),
        "sent_per_s": rate("sent_requests_total"),
        "ok_per_s": round(new.get("ok", 0.0) / passed_s, 3) if passed_s > 0 else None,
        "failed_per_s": round(sum(n for k, n in new.items() if k not in ("ok", "aborted")) / passed_s, 3)
        if passed_s > 0
        else None,
        "output_tokens_per_s": rate("output_tokens_total"),
        "ttft_s": _quantiles(before, now, "ttft_seconds", arm),
        "tpot_s": _quantiles(before, now, "tpot_seconds", arm),
        "chunk_gap_s": _quantiles(before, now, "chunk_gap_seconds", arm),
        "total_time_s": _quantiles(before, now, "total_time_seconds", arm),
        "send_lag_s": _quantiles(before, now, "send_lag_seconds", arm),
        "speculation": _speculation(before.numbers, now.numbers, arm),
    }


def _picked(name: str, labels: Mapping[str, str]) -> list[tuple[int, str]]:
    """Where the labels stand among the family's, and what they must be."""
    order = FAMILIES[name].labels
    return [(order.index(key), value) for key, value in labels.items()]


def _sum(numbers: Numbers, name: str, **labels: str) -> float:
    picked = _picked(name, labels)
    found = numbers.get(name, {})
    return sum(n for values, n in found.items() if all(values[i] == v for i, v in picked))


def _grouped(numbers: Numbers, name: str, by: str, **labels: str) -> dict[str, float]:
    picked, at = _picked(name, labels), FAMILIES[name].labels.index(by)
    found: dict[str, float] = defaultdict(float)
    for values, n in numbers.get(name, {}).items():
        if all(values[i] == v for i, v in picked):
            found[values[at]] += n
    return dict(found)


def _gauge(numbers: Numbers, name: str, arm: str) -> float | None:
    return numbers.get(name, {}).get((arm,))


def _quantiles(before: State, now: State, name: str, arm: str) -> dict[str, Any]:
    """Of what was observed between the two, over all groups; linear within buckets (docs/metrics.md)."""
    edges: tuple[float, ...] = ()
    counts: list[int] = []
    for values, counted in now.histograms.get(name, {}).items():
        if values[0] != arm:
            continue
        old = before.histograms.get(name, {}).get(values)
        base = old.counts if old is not None and old.edges == counted.edges else [0] * len(counted.counts)
        edges, counts = counted.edges, counts or [0] * len(counted.counts)
        counts = [c + n - b for c, n, b in zip(counts, counted.counts, base, strict=True)]
    cumulative = Counted(edges, counts).cumulative() if edges else []
    shown = {f"p{round(100 * q)}": quantile(edges, cumulative, q) for q in (0.5, 0.95, 0.99)}
    return {"n": sum(counts), **{k: None if v is None else round(v, 6) for k, v in shown.items()}}


_SPECULATED = ("draft_tokens_total", "accepted_tokens_total", "verify_rounds_total", "rollback_rounds_total")


def _speculation(before: Numbers, now: Numbers, arm: str) -> dict[str, Any]:
    """By task: what was drafted and accepted in the window, from the best source that says anything of it."""
    found: dict[str, Any] = {}
    for source in SOURCES:
        drafted, accepted, rounds, rolled_back = (_grown(before, now, name, arm, source) for name in _SPECULATED)
        for task, n in rounds.items():
            if n <= 0 or task in found or (found and task == "all"):
                continue
            found[task] = {
                "source": source,
                "rounds": int(n),
                "drafted": int(drafted[task]) if task in drafted else None,
                "accepted": int(accepted.get(task, 0.0)),
                "acceptance_rate": round(accepted.get(task, 0.0) / drafted[task], 4) if drafted.get(task) else None,
                "tokens_per_round": round(1 + accepted.get(task, 0.0) / n, 4),
                "rollback_low": round(rolled_back[task] / n, 4) if task in rolled_back else None,
            }
    return found


def _grown(before: Numbers, now: Numbers, name: str, arm: str, source: str) -> dict[str, float]:
    """By task, since `before`."""
    old = _grouped(before, name, "task_type", arm=arm, source=source)
    return {k: n - old.get(k, 0.0) for k, n in _grouped(now, name, "task_type", arm=arm, source=source).items()}
