"""Late back: on a healthy server at most one drill in a hundred fails, whoever follows whom; what is late is found."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from loadgen.analyze.drill.counters import Watched
from loadgen.analyze.drill.judging import failures, unseen
from loadgen.analyze.drill.lateness import CORRELATIONS, FAMILY_LEVEL, MOST_UNITS, adjusted, lateness, p_of, stretches
from loadgen.analyze.drill.pulls import pull_found
from loadgen.analyze.drill.rows import FALLBACK, SPECULATING, Rows, Sides
from loadgen.analyze.drill.seen import Pull, Seen
from loadgen.analyze.soak.evidence import autoregressive, ranks
from server_adapters.rehearsal import EngineConfig, SamplingParams, SimulationPlan, Stage, corpus_cases, simulate

PROMISED = 0.01
BEFORE_S, AFTER_S, LIMIT_S, RATE_PER_S, PULLS = 5, 40, 10.0, 3, 2
LIMITS = {"baseline_s": LIMIT_S, "last_routed_s": 5.0, "last_token_s": 20.0}
DRILLS = 310


def upper(alarms: int, of: int) -> float:
    """One-sided 95 % limit of the share."""
    return float(beta.ppf(0.95, alarms + 1, of - alarms))


def state_of(
    times_ns: np.ndarray, latencies: np.ndarray, off: np.ndarray, spans_ns: list[tuple[int, int]],
    limits: dict[str, float], outcome: np.ndarray | None = None,
) -> tuple[str, list[str]]:  # fmt: skip
    """By every rule. `times_ns`: (2, n) begins and ends; `latencies`: TTFT and TPOT; `off`: who was the fallback's;
    `spans_ns`: of each pull, to the next."""
    (begin, ends), n = times_ns, len(off)
    nothing, none = np.full(n, None, dtype=object), np.full(n, np.nan)
    outcome = np.full(n, "ok", dtype=object) if outcome is None else outcome
    rows = Rows(begin, ends, ends, np.ones(n, dtype=bool), outcome, nothing, nothing, nothing, none, none, *latencies)
    sides = Sides(np.where(off, FALLBACK, SPECULATING), "header", "")
    seen = Seen(rows, sides, Watched((), "m"), True, 10, int(begin[0]), spans_ns[0][0], limits["baseline_s"])
    pulls = [
        Pull(i, "off", at, until, i == len(spans_ns) - 1, 0.1, True, "done") for i, (at, until) in enumerate(spans_ns)
    ]
    found = adjusted([pull_found(seen, pull) for pull in pulls])
    failed, open_ = list(failures(found, limits, {"off": 0.0})), list(unseen(found, limits))
    return "fail" if failed else "inconclusive" if open_ else "pass", [*failed, *open_]


@dataclass(frozen=True)
class Drill:
    """A switch that is pulled `PULLS` times, perfect unless told otherwise: every request is answered, those after a
    pull by the fallback, and latency is a steady series around another level there."""

    phi: float
    seed: int

    def judged(self, slower: float = 1.0, until_s: float = 0.0, lost: int | None = None) -> tuple[str, list[str]]:
        """Latency after each pull is `slower` times the level until `until_s`; request `lost` is cut."""
        step_ns, cycle = round(1e9 / RATE_PER_S), (BEFORE_S + AFTER_S) * RATE_PER_S
        n = PULLS * cycle
        begin = np.arange(n) * step_ns
        since_s = (begin % (cycle * step_ns)) / 1e9 - BEFORE_S
        off = since_s >= 0
        series = np.exp(0.3 * autoregressive(2, n, self.phi, np.random.default_rng([self.seed, round(10 * self.phi)])))
        level = series * np.where(off, 0.04, 0.02) * np.where(off & (since_s < until_s), slower, 1.0)
        outcome = np.full(n, "ok", dtype=object)
        if lost is not None:
            outcome[lost] = "truncated"
        first = BEFORE_S * RATE_PER_S * step_ns
        spans = [(i * cycle * step_ns + first, (i + 1) * cycle * step_ns) for i in range(PULLS)]
        return state_of(np.stack([begin, begin + 600_000_000]), level, off, spans, LIMITS, outcome)


def test_a_healthy_engine_fails_in_at_most_one_drill_of_a_hundred(simulated: Any) -> None:
    """310 drills of a perfect switch to the rehearsal engine in virtual time, 4 requests a second, 15 s each:
    TPOT of neighbours is alike, since they share the engine. Even arrivals: one table of steady series is enough."""
    before, after = 10, 60
    cases = tuple(corpus_cases(simulated.models, {"short_qa": DRILLS * after + before},
                               SamplingParams(temperature=0.7, max_tokens=6), 5))  # fmt: skip
    arrivals = 0.25 * np.arange(len(cases))
    plan = SimulationPlan({"plain": EngineConfig(speed=0.2)}, (Stage(cases, arrivals_s=tuple(arrivals.tolist())),))
    records = sorted(simulate(plan, 5, simulated.models).records, key=lambda one: one.arrival_s)
    begin, first, end = (
        np.array([getattr(one, key) for one in records]) for key in ("arrival_s", "first_token_s", "end_s")
    )
    tpot = (end - first) / np.array([max(sum(one.chunk_tokens) - 1, 1) for one in records])
    times_ns, latencies = np.rint(np.stack([begin, end]) * 1e9).astype(np.int64), np.stack([first - begin, tpot])
    states = []
    for i in range(DRILLS):
        mine = slice(i * after, (i + 1) * after + before)
        times = times_ns[:, mine]
        span = (int(times[0][before]), int(times[0][before]) + after * 250_000_000)
        off = np.arange(times.shape[1]) >= before
        states.append(state_of(times, latencies[:, mine], off, [span], {"baseline_s": 4.0})[0])
    assert upper(states.count("fail"), DRILLS) <= PROMISED
    assert states.count("pass") / DRILLS >= 0.8, (
        Counter(states),
        [np.corrcoef(v[1:], v[:-1])[0, 1] for v in latencies],
    )


@pytest.mark.parametrize("phi", [0.0, 0.3, 0.6])
def test_a_healthy_drill_fails_in_at_most_one_of_a_hundred(phi: float) -> None:
    """310 drills of two pulls through every rule; the 95 % upper limit of the share that fails is below 1 %. Most of
    them pass, too (docs/drill.md tells the shares)."""
    states = [Drill(phi, seed).judged()[0] for seed in range(DRILLS)]
    assert upper(states.count("fail"), DRILLS) <= PROMISED
    assert states.count("pass") / DRILLS >= {0.0: 0.97, 0.3: 0.95, 0.6: 0.85}[phi]


@pytest.mark.parametrize("phi", CORRELATIONS)
def test_each_test_keeps_its_level(phi: float) -> None:
    """Of 2000 steady series: p of at most 2 % in no more than that, and of 0.2 % likewise (3.7 standard errors)."""
    first, n, runs = 16, 76, 2000
    found = stretches(ranks(autoregressive(runs, n, phi, np.random.default_rng(round(100 * phi)))), first)
    p = np.array([p_of(value, first, n) for value in found.value.tolist()])
    for level in (0.02, FAMILY_LEVEL):
        assert np.mean(p <= level) <= level + 3.7 * np.sqrt(level * (1 - level) / runs), level


@pytest.mark.parametrize(("phi", "found"), [(0.0, 1.0), (0.3, 1.0), (0.6, 0.8)])
def test_latency_that_is_late_back_is_found(phi: float, found: float) -> None:
    """Four times the level until the second half, 10 s after the limit: in all drills without, in most with correlation
    (docs/drill.md tells the shares)."""
    states = [Drill(phi, seed).judged(4.0, 20.0) for seed in range(40)]
    assert np.mean([state == "fail" for state, _ in states]) >= found
    said = next(reasons[0] for state, reasons in states if state == "fail")
    assert "TTFT was still above the fallback's level after baseline_s = 10 s: median 0." in said
    assert "pass" not in {state for state, _ in states}


def test_what_is_back_in_time_does_not_fail() -> None:
    """Four times the level until just before the limit."""
    states = [Drill(0.0, seed).judged(4.0, 7.0)[0] for seed in range(40)]
    assert "fail" not in states
    assert states.count("pass") >= 38


def test_within_five_percent_is_the_same_level() -> None:
    """A shift that is constant and allowed is none, whatever its significance."""
    sent = np.arange(120) * 10**9
    level = 1.0 + 0.0001 * (np.arange(120) * 7 % 11)
    allowed, more = (np.concatenate([level[:60] * factor, level[60:]]) for factor in (1.045, 1.06))
    assert (lateness(sent, allowed, 0, 10, 60 * 10**9).p or 0) > 0.5
    assert (lateness(sent, more, 0, 10, 60 * 10**9).p or 1) == pytest.approx(1 / 20_001)


def test_faster_than_the_level_is_not_late() -> None:
    sent = np.arange(120) * 10**9
    values = np.concatenate([np.full(60, 0.5), 1.0 + 0.01 * (np.arange(60) * 7 % 11)])
    assert (lateness(sent, values, 0, 10, 60 * 10**9).p or 0) > 0.5


def test_many_requests_are_taken_together() -> None:
    """760 after the limit, 7 to a unit. The 80 that are late fill 11 units, and of the twelfth the smaller part."""
    sent = np.arange(1000) * 250_000_000
    values = np.where(sent < 80 * 10**9, 3.0, 1.0) + 0.01 * (np.arange(1000) * 7 % 11)
    found = lateness(sent, values, 0, 60, 103 * 10**9)
    assert MOST_UNITS * 7 >= 760
    assert (found.n, found.median) == (77, pytest.approx(3.05))
    assert found.p is not None
    assert found.p <= FAMILY_LEVEL


def test_without_time_between_the_limit_and_the_second_half_nothing_is_tested() -> None:
    sent = np.arange(40) * 10**9
    found = lateness(sent, np.ones(40), 0, 17, 20 * 10**9)
    assert (found.p, found.n) == (None, 3)
    assert found.reason == "3 requests were sent between 17 s and the second half, 4 are needed"


def test_what_wanders_proves_nothing() -> None:
    """Far above the correlation that is covered."""
    values = np.exp(np.cumsum(np.random.default_rng(3).standard_normal(120)) / 5)
    found = lateness(np.arange(120) * 10**9, values, 0, 10, 60 * 10**9)
    assert found.p is None
    assert "requests follow each other at a correlation of 0.8" in (found.reason or "")


def test_all_tests_of_a_drill_are_one_family() -> None:
    """Two pulls of two numbers: the least p is four times that of the one test."""
    _, alone = Drill(0.0, 1).judged(4.0, 20.0)
    assert "(p = 0.0002 in all tests of the drill)" in alone[0], "4 / 20,001"


def test_a_lost_request_is_no_matter_of_chance() -> None:
    state, reasons = Drill(0.0, 1).judged(lost=100)
    assert state == "fail"
    assert "1 of " in reasons[0]
    assert "requests were lost (truncated 1)" in reasons[0]
