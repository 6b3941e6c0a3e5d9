"""The numbers that watchers see, from hand-made metrics."""

from __future__ import annotations

from typing import Any

from loadgen.export import MetricsTold
from loadgen.service.looks import look, state_of

EDGES = [0.1, 0.2, 0.4]


def state(at_s: float, numbers: list[Any], histograms: list[Any] | None = None) -> Any:
    told = MetricsTold()
    told.take({"numbers": numbers, "histograms": histograms or []})
    return state_of(told, at_s)


def numbers(sent: float, ok: float, failed: float, tokens: float) -> list[Any]:
    group = ["a", "code", "c2"]
    return [
        ["inflight_requests", ["a"], 2.0], ["target_concurrency", ["a"], 2.0], ["sent_requests_total", ["a"], sent],
        ["scheduled_requests_total", ["a"], sent], ["requests_total", [*group, "ok"], ok],
        ["requests_total", [*group, "timeout"], failed], ["requests_total", [*group, "aborted"], 1.0],
        ["output_tokens_total", group, tokens], ["dropped_requests_total", ["a", "stopped"], 1.0],
    ]  # fmt: skip


def test_rates_are_of_the_window_and_counts_of_the_run() -> None:
    before = state(10.0, numbers(10, 8, 0, 100))
    now = state(15.0, numbers(20, 16, 1, 350))
    found = look(before, now)
    assert found["window_s"] == 5.0
    arm = found["arms"]["a"]
    assert (arm["sent"], arm["scheduled"], arm["dropped"], arm["in_flight"]) == (20, 20, 1, 2.0)
    assert arm["outcomes"] == {"ok": 16, "timeout": 1, "aborted": 1}
    assert (arm["sent_per_s"], arm["ok_per_s"], arm["failed_per_s"]) == (2.0, 1.6, 0.2)
    assert arm["output_tokens_per_s"] == 50.0
    assert (arm["target_concurrency"], arm["target_rate_per_s"], arm["server_waiting"]) == (2.0, None, None)


def test_quantiles_are_of_what_came_in_the_window() -> None:
    def times(*counts: list[int]) -> list[Any]:
        return [["ttft_seconds", ["a", f"t{i}", "c2", "true"], EDGES, c, 1.0, []] for i, c in enumerate(counts)]

    here = [["inflight_requests", ["a"], 0.0]]
    before = state(0.0, here, times([10, 0, 0, 0]))
    now = state(1.0, here, times([10, 4, 0, 0], [0, 0, 4, 0]))
    found = look(before, now)["arms"]["a"]["ttft_s"]
    assert found == {"n": 8, "p50": 0.2, "p95": 0.38, "p99": 0.396}
    assert look(before, now)["arms"]["a"]["tpot_s"] == {"n": 0, "p50": None, "p95": None, "p99": None}


def spec(
    source: str, task: str, drafted: float | None, accepted: float, rounds: float, rolled: float | None
) -> list[Any]:
    values = {"draft_tokens_total": drafted, "accepted_tokens_total": accepted, "verify_rounds_total": rounds,
              "rollback_rounds_total": rolled}  # fmt: skip
    return [[name, ["a", task, source], value] for name, value in values.items() if value is not None]


def test_speculation_is_of_the_best_source_by_task() -> None:
    here = [["inflight_requests", ["a"], 0.0]]
    before = state(0.0, [*here, *spec("per_request", "code", 40, 20, 10, 4)])
    now = state(
        1.0,
        [
            *here, *spec("per_request", "code", 80, 50, 20, 9), *spec("server_window", "all", 90, 60, 30, 9),
            *spec("client_chunk", "prose", None, 6, 4, None),
        ],
    )  # fmt: skip
    found = look(before, now)["arms"]["a"]["speculation"]
    assert found == {
        "code": {
            "source": "per_request", "rounds": 10, "drafted": 40, "accepted": 30, "acceptance_rate": 0.75,
            "tokens_per_round": 4.0, "rollback_low": 0.5,
        },
        "prose": {
            "source": "client_chunk", "rounds": 4, "drafted": None, "accepted": 6, "acceptance_rate": None,
            "tokens_per_round": 2.5, "rollback_low": None,
        },
    }  # fmt: skip
    idle = look(now, now)["arms"]["a"]
    assert idle["speculation"] == {}
    assert idle["sent_per_s"] is None


def test_the_servers_window_counts_where_nothing_else_does() -> None:
    here = [["inflight_requests", ["a"], 0.0]]
    found = look(state(0, here), state(1, [*here, *spec("server_window", "all", 8, 4, 2, 1)]))
    assert found["arms"]["a"]["speculation"]["all"]["acceptance_rate"] == 0.5
