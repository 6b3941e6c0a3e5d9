"""The parts of the wire's benchmarks that judge, on hand-made exchanges and runs."""

from __future__ import annotations

import random
from array import array
from pathlib import Path

import numpy as np
import pytest
from fuzz_answer import mutated, reads_of, run_case, whole_answer
from specload_runs import role, scenario
from truth_client import chunk_errors
from two_workers import one_gap_each, sentence
from wire_arrival import Found, found_in, judge, state_of

from loadgen.drive import Exchange
from loadgen.scenario import Scenario

US = 1000


def exchange(chunks: list[tuple[int, int]], complete: bool = True) -> Exchange:
    """Chunks of (send time, stamp) in us; equal stamps are one read."""
    made = Exchange(complete=complete, timestamp_source="kernel")
    for sent, stamp in chunks:
        made.body += b'data: {"sm":"%019d"}\n\n' % (sent * US)
        if made.piece_ns and made.piece_ns[-1] == stamp * US:
            made.piece_end[-1] = len(made.body)
        else:
            made.piece_ns.append(stamp * US)
            made.piece_end.append(len(made.body))
    return made


def found(**changes: object) -> Found:
    base = {
        "chunks": 1000, "coalesced": 0.0, "p50_us": 2.0, "p99_us": 5.0, "max_us": 100.0, "beyond": 0, "hidden": 0,
        "failed": 0, "source": "kernel", "cpu_share": 0.5, "slow": 0,
    }  # fmt: skip
    return Found(**{**base, **changes})  # type: ignore[arg-type]


def test_only_the_last_chunk_of_a_read_has_a_known_time() -> None:
    errors, last = chunk_errors(exchange([(0, 3), (100, 130), (110, 130), (200, 204)]))
    assert list(errors) == [3 * US, 30 * US, 20 * US, 4 * US]
    assert list(last) == [True, False, True, True]


def test_a_chunk_in_two_reads_has_the_stamp_of_the_second() -> None:
    one = exchange([(0, 3)])
    size = len(one.body)
    one.piece_ns, one.piece_end = array("q", [3 * US, 9 * US]), array("q", [10, size])
    errors, last = chunk_errors(one)
    assert (list(errors), list(last)) == ([9 * US], [True])


def test_what_is_found_in_exchanges() -> None:
    """30 ms off and not merged is hidden: the stream's next chunk was sent 20 ms after it."""
    one = found_in([exchange([(0, 5), (20_000, 50_007), (40_000, 40_300 + 10_000)], complete=False)], 0.25)
    assert (one.chunks, one.coalesced, one.max_us, one.beyond, one.hidden, one.failed) == (3, 0.0, 30_007.0, 2, 1, 1)
    two = found_in([exchange([(0, 5), (20_000, 40_006), (40_000, 40_006)])], 0.25)
    assert (two.coalesced, two.max_us, two.beyond, two.hidden) == (pytest.approx(1 / 3), 6.0, 0, 0)
    assert (two.source, two.cpu_share) == ("kernel", 0.25)


@pytest.mark.parametrize(
    ("share", "state"), [(0.01, "valid"), (0.011, "doubtful"), (0.1, "doubtful"), (0.11, "invalid")]
)
def test_the_state_is_that_of_the_run_limits(share: float, state: str) -> None:
    assert state_of(share) == state


@pytest.mark.parametrize(
    ("hold", "changes", "faults"),
    [
        ("busy", {}, []),
        ("busy", {"p99_us": 50.1}, ["P99 above 50 us"]),
        ("busy", {"beyond": 9}, []),
        ("stall 10", {"beyond": 3, "slow": 3}, []),
        ("stall 10", {"beyond": 3, "slow": 2}, ["3 arrivals off by more than 200 us"]),
        ("stall 50", {"coalesced": 0.2}, []),
        ("stall 50", {"coalesced": 0.2, "hidden": 1}, ["1 merged chunks are not marked"]),
        ("stall 50", {"coalesced": 0.001}, ["the share is that of a valid run"]),
        ("busy", {"failed": 2, "source": "user"}, ["2 streams failed", "stamps are user"]),
    ],
)
def test_the_limits_of_the_issue(hold: str, changes: dict[str, object], faults: list[str]) -> None:
    assert judge(hold, found(**changes)) == faults


def test_one_gap_of_each_stream_that_has_one() -> None:
    gaps = one_gap_each([[0.1, 0.2, 0.4], [], [0.5], [1.0, 1.5]])
    assert len(gaps) == 2
    assert gaps[0] in (pytest.approx(0.1), pytest.approx(0.2))
    assert gaps[1] == 0.5


def test_workers_that_differ_are_called_different() -> None:
    rng = np.random.default_rng(3)
    first = rng.normal(0.04, 0.002, 800)
    assert sentence(first, rng.normal(0.04, 0.002, 800)).endswith("no difference that matters")
    assert sentence(first, first + 0.005).endswith("DIFFERENT")


def test_roles_of_processes() -> None:
    """As multiprocessing starts them: only a worker holds a table of requests."""
    spawned = ["python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main()"]
    assert role(spawned, ["requests-1.arrow", "health-1.arrow", "anomalies.log"]) == "worker 1"
    assert role(spawned, ["log"]) == "scraper"
    assert role(["python", "-c", "from multiprocessing.resource_tracker import main;main(7)"], []) is None


@pytest.mark.parametrize(
    "load",
    [
        {"kind": "concurrency", "concurrency": 1024, "cases": 3072},
        {"kind": "concurrency", "concurrency": 64, "cases": 5000, "duration_s": 170.0},
        {
            "kind": "arrival_rate",
            "rate_per_s": 1000.0,
            "duration_s": 15.0,
            "arrivals": "poisson",
            "max_in_flight": 10_000,
        },
    ],
)
def test_scenarios_are_right(load: dict[str, object]) -> None:
    made = Scenario.model_validate(scenario(8000, load, 256, seed=7))
    assert (made.seed, made.arms["truth"].url) == (7, "http://127.0.0.1:8000")


@pytest.mark.parametrize("block", range(4))
def test_mutated_answers_break_nothing(block: int) -> None:
    """A few hundred of the cases of benchmarks/fuzz_answer.py; the script runs as many as asked for."""
    outcomes = {run_case(1, number).outcome.value for number in range(block * 200, (block + 1) * 200)}
    assert {"ok", "malformed"} <= outcomes


def test_a_case_is_the_same_every_time() -> None:
    def made() -> list[bytes]:
        rng = random.Random("0-5")
        return list(reads_of(mutated(whole_answer(rng), rng), rng))

    assert made() == made()
    assert b"".join(made())


def test_the_scripts_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "wire.md").read_text(encoding="utf-8")
    for name in ("wire_arrival", "open_loop", "long_run", "two_workers", "full_path", "fuzz_answer", "wire_transport"):
        assert f"benchmarks/{name}.py" in page
