"""What anomalies did to the load: healthy servers raise no alarm, and what changes is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from loadgen.analyze.found.bystanders import (
    BLOCKS_BEFORE,
    LOAD_LEVEL,
    Blocks,
    Compared,
    Margin,
    adjusted,
    blocks_of,
    compare,
    load_compared,
    silences,
    witnesses_compared,
)
from loadgen.analyze.frames import Frame, frame_of
from loadgen.analyze.quality.family import PROMISED
from loadgen.analyze.soak.evidence import autoregressive
from server_adapters.rehearsal import EngineConfig, SamplingParams, SimulationPlan, Stage, corpus_cases, simulate

ORIGIN_NS = 1_000_000_000_000
REQUESTS = 2_000
Tests = dict[str, Compared]


@pytest.fixture(scope="module")
def served(simulated: Any, fresh: Any) -> tuple[Frame, float]:
    """A healthy engine under 2 users in virtual time, and its end. One request in 200 fails by itself."""
    cases = tuple(
        corpus_cases(simulated.models, {"short_qa": REQUESTS}, SamplingParams(temperature=0.7, max_tokens=3), 5)
    )
    plan = SimulationPlan({"candidate": EngineConfig(speed=0.1)}, (Stage(cases, concurrency=2),))
    made, chance = fresh(), np.random.default_rng(5)
    records = simulate(plan, 5, simulated.models).records
    end = max(r.end_s or 0.0 for r in records)
    made.segment(0, start=0.0, full=0.0, load_end=end, end=end, concurrency=2)
    for record, failing in zip(records, chance.random(len(records)) < 0.005, strict=True):
        chunks = [(at - record.arrival_s, n) for at, n in zip(record.chunk_times_s, record.chunk_tokens, strict=True)]
        made.request(chunks, sent=record.arrival_s, outcome="stream_error" if failing else "ok")
    return frame_of(made.data().requests, "candidate"), end


def judged(frame: Frame, blocks: Blocks, chance: np.random.Generator, ratio: float) -> Tests:
    """All tests of one run; witnesses flip by themselves in one answer of twenty."""
    inside = np.flatnonzero((frame.sent[0] >= blocks.before[0]) & (frame.end[0] < blocks.during[-1]))
    at_ns = np.linspace(blocks.before[0], blocks.during[-1] - 1, 400).astype(np.int64)
    flips = chance.random(len(at_ns)) < 0.05
    tests = [*load_compared(frame, inside, blocks, ratio), witnesses_compared(at_ns, flips, blocks)]
    return {one.name: one for one in tests}


@pytest.mark.parametrize("phi", [0.0, 0.3, 0.6])
def test_correlated_blocks_alarm_no_more_often(phi: float) -> None:
    """1000 runs of four steady series whose blocks follow each other: an alarm in at most 1 % (95 % upper limit)."""
    runs = 1000
    series = np.exp(0.3 * autoregressive(runs * 4, BLOCKS_BEFORE + 40, phi, np.random.default_rng(round(phi * 10))))
    alarms = 0
    for four in series.reshape(runs, 4, -1):
        tests = [
            compare(str(i), "s", (one[:BLOCKS_BEFORE], one[BLOCKS_BEFORE:]), Margin(), "", share=False)
            for i, one in enumerate(four)
        ]
        alarms += any(p <= LOAD_LEVEL for p in adjusted(tests).values())
    assert float(beta.ppf(0.95, alarms + 1, runs - alarms)) <= PROMISED, alarms


def test_what_is_slower_than_allowed_is_found_and_what_is_allowed_is_not(served: tuple[Frame, float]) -> None:
    frame, end = served
    begin, middle = ORIGIN_NS, ORIGIN_NS + round(end * 1e9 / 4)
    blocks = blocks_of((begin, middle), (middle, begin + round(end * 1e9)))
    later = frame.sent[0] >= middle

    def alarms(factor: float) -> set[str]:
        slow = replace(frame, ttft_s=frame.ttft_s * np.where(later, factor, 1.0))
        tests = judged(slow, blocks, np.random.default_rng(1), 1.2)
        return {name for name, p in adjusted(list(tests.values())).items() if p <= LOAD_LEVEL}

    assert alarms(2.0) == {"ttft_s"}
    assert alarms(1.05) == set()


def values(*counts: tuple[float, int]) -> np.ndarray:
    return np.concatenate([np.full(n, value) for value, n in counts])


def test_too_few_blocks_say_so() -> None:
    few = compare("x", "s", (np.ones(7), np.ones(30)), Margin(), "a request", share=False)
    assert (few.p, few.n_before, few.n_during) == (None, 7, 30)
    assert few.reason == (
        "7 blocks before and 30 during have a request; a test needs 16 and 8 (a longer anomalies.before_s, or more "
        "load)"
    )
    nothing = compare("x", "s", (np.full(20, np.nan), np.ones(30)), Margin(), "a request", share=False)
    assert (nothing.before, nothing.limit, nothing.p) == (None, None, None)


def test_a_share_counts_from_its_margin_on() -> None:
    def errors(during: np.ndarray) -> Compared:
        return compare("e", "share", (np.zeros(20), during), Margin(more=0.01), "", share=True)

    assert errors(np.full(40, 0.01)).p > 0.3, "within the margin nothing has changed"
    since = errors(values((0.0, 10), (0.4, 30)))
    assert (since.before, since.during, since.limit) == (0.0, pytest.approx(0.3), 0.01)
    assert since.p is not None
    assert since.p < LOAD_LEVEL / 4, "one that begins in the middle is found"


def test_blocks_are_equal_and_end_with_their_time() -> None:
    blocks = blocks_of((0, 24_000_000_000), (24_000_000_000, 51_000_000_000))
    assert np.diff(blocks.before).tolist() == [1_200_000_000] * 20
    assert len(blocks.during) == 23
    assert np.diff(blocks.during).tolist() == [1_200_000_000] * 22
    assert len(blocks_of((0, 3 * 10**9), (3 * 10**9, 3 * 10**9)).during) == 1
    assert np.diff(blocks_of((0, 3 * 10**9), (0, 0)).before).tolist() == [300_000_000] * 10


def test_silence_is_when_nothing_comes_though_requests_are_in_flight(run: Any) -> None:
    """Arrivals, ends, and first starts are signs of life; an idle server is not silent."""
    run.segment(end=20.0, load_end=20.0)
    run.request([(0.5, 1), (1.0, 1)], sent=0.0, end=1.5)
    run.request([(0.25, 1), (3.0, 1)], sent=0.5)  # 0.75, then nothing until 3.5 but the other's at 1.0 and 1.5
    run.request([(0.5, 1)], sent=10.0, end=10.5)  # idle from 3.5 to 10
    found = silences(frame_of(run.data().requests, "candidate"), np.arange(3))
    assert sorted((found.length_ns / 1e9).tolist()) == pytest.approx([0.25, 0.25, 0.5, 0.5, 0.5, 2.0])
    assert found.longest((ORIGIN_NS, ORIGIN_NS + 20 * 10**9)) == pytest.approx(2.0)
    assert found.longest((ORIGIN_NS, ORIGIN_NS + 10**9)) == pytest.approx(0.5)
    assert found.longest((ORIGIN_NS + 5 * 10**9, ORIGIN_NS + 6 * 10**9)) == 0.0
    assert silences(frame_of(run.data().requests, "candidate"), np.arange(0)).longest((0, 2**62)) == 0.0
