"""A rough answer to "how long will this take", exact where nothing depends on the server."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from loadgen.plan import AnswerTime, build_plan, estimate
from loadgen.scenario import load_scenario


def planned(folder: Path, load: list[dict[str, Any]], **keys: Any) -> Any:
    content = {
        "version": 1,
        "name": "e",
        "environment": "disposable",
        "arms": {"baseline": {"url": "http://127.0.0.1:1"}, "candidate": {"url": "http://127.0.0.1:2"}},
        "workload": {
            "tasks": [
                {
                    "task_type": "code",
                    "input_len": {"kind": "fixed", "value": 64},
                    "output_len": {"kind": "fixed", "value": 100},
                }
            ]
        },
        "load": load,
        "warmup": {"warmup_requests": 0},
        "repeats": 1,
        "comparison": {"blocks": 1},
    }
    content |= keys
    file = folder / "s.yaml"
    file.write_text(yaml.safe_dump(content))
    return build_plan(load_scenario(file))


def test_by_cases(tmp_path: Path) -> None:
    """40 answers of 0.5 s + 100 × 20 ms on 4 slots, two arms, and a second of edges each."""
    found = estimate(planned(tmp_path, [{"kind": "concurrency", "concurrency": 4, "cases": 40}]))
    assert (found.requests, found.output_tokens) == (80, 8000)
    assert found.seconds == pytest.approx(2 * (40 * 2.5 / 4 + 1))


def test_by_time(tmp_path: Path) -> None:
    load = [{"kind": "concurrency", "concurrency": 1, "duration_s": 50}]
    found = estimate(planned(tmp_path, load, comparison={"unpaired": ["c1"]}))
    assert found.requests == pytest.approx(2 * 50 / 2.5, rel=0.05)
    assert found.seconds == pytest.approx(2 * 51, rel=0.05)


def test_open_loop_is_what_the_schedule_says(tmp_path: Path) -> None:
    load = {"kind": "arrival_rate", "rate_per_s": 4, "arrivals": "uniform", "duration_s": 10}
    found = estimate(planned(tmp_path, [load]))
    assert (found.requests, found.output_tokens) == (80, 8000)
    assert found.seconds == pytest.approx(2 * (10 + 2.5 + 1))


def test_the_peak_of_a_closed_loop(tmp_path: Path) -> None:
    """C22: 40 slots, answers of 2.5 s with 100 chunks: 16 requests/s, 1,600 chunks/s; arms take turns."""
    peak = estimate(planned(tmp_path, [{"kind": "concurrency", "concurrency": 40, "cases": 80}])).peak
    assert (peak.streams, peak.requests_per_s, peak.chunks_per_s) == (40, 16.0, 1600.0)


def test_the_peak_of_an_open_loop(tmp_path: Path) -> None:
    """4 requests/s, each 2.5 s long: 10 at once, unless max_in_flight is less."""
    load = {"kind": "arrival_rate", "rate_per_s": 4, "arrivals": "uniform", "duration_s": 10}
    peak = estimate(planned(tmp_path, [load])).peak
    assert (peak.streams, peak.requests_per_s, peak.chunks_per_s) == (10, 4.0, 400.0)
    assert estimate(planned(tmp_path, [{**load, "max_in_flight": 3}])).peak.streams == 3


def test_arms_at_once_share_the_time_and_add_up(tmp_path: Path) -> None:
    load = [{"kind": "concurrency", "concurrency": 4, "cases": 40}]
    found = estimate(planned(tmp_path, load, comparison={"blocks": 1, "design": "parallel"}))
    assert (found.requests, found.output_tokens, found.peak.streams) == (80, 8000, 8)
    assert found.seconds == pytest.approx(40 * 2.5 / 4 + 1)


def test_a_measured_answer_takes_the_assumptions_place(tmp_path: Path) -> None:
    plan = planned(tmp_path, [{"kind": "concurrency", "concurrency": 4, "cases": 40}])
    found = estimate(plan, AnswerTime(0.1, 0.004, "as measured"))
    assert found.seconds == pytest.approx(2 * (40 * 0.5 / 4 + 1))
    assert found.assumption == "as measured"
