"""The search for the maximum rate: right on a queue of known truth, robust to noise, and it always ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.control import Ask, RateSearch, Resolved, Unresolved, Verdict, Visit
from server_adapters.rehearsal import (
    TASK_TYPES,
    EngineConfig,
    SamplingParams,
    SimulationPlan,
    SpeculationConfig,
    Stage,
    corpus_cases,
    load_models,
    simulate,
)

Server = Callable[[float, int], Verdict]


def searched(search: RateSearch, server: Server) -> tuple[Resolved | Unresolved, list[Visit]]:
    """Ask and visit until it is over; the server gets the number of the visit as its seed."""
    history: list[Visit] = []
    while isinstance(step := search.next(history), Ask):
        assert search.low <= step.rate <= search.high
        history.append(Visit(step.rate, server(step.rate, len(history))))
    return step, history


def sharp(truth: float) -> Server:
    return lambda rate, _: "pass" if rate <= truth else "fail"


def queue(seconds: float, slo_s: float, requests: int, seed: int) -> Server:
    """Poisson arrivals at one server with exponential service of this mean: 95 % of the times in system within SLO.

    Lindley's recursion, in virtual time. Truth: times are exponential with rate 1/seconds - rate (M/M/1), so their P95
    is ln(20) ÷ (1/seconds - rate).
    """

    def visit(rate: float, number: int) -> Verdict:
        random = np.random.default_rng([seed, number])
        gaps = random.exponential(1 / rate, requests)
        service = random.exponential(seconds, requests)
        change = np.concatenate([[0.0], np.cumsum(service[:-1] - gaps[1:])])
        wait = change - np.minimum.accumulate(change)
        return "pass" if np.quantile(wait + service, 0.95, method="inverted_cdf") <= slo_s else "fail"

    return visit


@pytest.mark.parametrize("truth", [1.0001, 3.7, 17.3, 63.0])
def test_sharp_limit_is_bracketed(truth: float) -> None:
    found, history = searched(RateSearch(1.0, 64.0), sharp(truth))
    assert isinstance(found, Resolved)
    assert found.low <= truth < found.high <= found.low * 1.051
    assert found.low < found.rate < found.high
    assert len(history) <= 20


def test_queue_of_known_truth_within_five_percent() -> None:
    """F7: the maximum rate is the one of a long run, not of completions within a short one."""
    seconds, slo_s = 0.01, 0.1
    truth = 1 / seconds - np.log(20) / slo_s
    errors = []
    for seed in range(20):
        found, _ = searched(RateSearch(4.0, 200.0, resolution=0.03), queue(seconds, slo_s, 20_000, seed))
        errors.append(abs(found.rate / truth - 1) if isinstance(found, Resolved) else 1.0)
    assert sum(error <= 0.05 for error in errors) >= 19


def test_engine_within_five_percent_of_its_truth() -> None:
    """The rehearsal engine, open loop: P95 of TTFT. Truth: the same verdict on visits four times as long."""
    models = load_models()
    sampling = SamplingParams(temperature=0.7, max_tokens=4, ignore_eos=True)
    cases = corpus_cases(models, dict.fromkeys(TASK_TYPES, 25), sampling, 1)
    config = EngineConfig(speculation=SpeculationConfig(num_speculative_tokens=3), max_num_seqs=8, jitter=0.1)

    def p95_ttft(rate: float, requests: int, seed: int) -> float:
        chosen = [replace(cases[i % 100], case_id=f"{i}", cache_salt=f"{i}") for i in range(requests)]
        due = np.cumsum(np.random.default_rng(seed).exponential(1 / rate, requests))
        plan = SimulationPlan({"a": config}, (Stage(tuple(chosen), arrivals_s=tuple(due.tolist())),))
        run = simulate(plan, seed, models)
        settled = run.records[requests // 10 :]
        return float(np.quantile([(r.first_token_s or 0) - r.arrival_s for r in settled], 0.95))

    slo_s = 0.1
    found, _ = searched(RateSearch(10.0, 640.0), lambda rate, n: "pass" if p95_ttft(rate, 1000, n) <= slo_s else "fail")
    assert isinstance(found, Resolved)
    assert p95_ttft(found.rate * 0.95, 4000, 1001) <= slo_s
    assert p95_ttft(found.rate * 1.05, 4000, 1002) > slo_s


def noisy(truth: float, spread: float, seed: int) -> Server:
    """A verdict that turns at a limit which is a little elsewhere at each visit, and 3 % of wrong ones anywhere."""

    def visit(rate: float, number: int) -> Verdict:
        random = np.random.default_rng([seed, number])
        met = rate <= truth * np.exp(spread * random.standard_normal())
        return "pass" if met != (random.random() < 0.03) else "fail"

    return visit


def test_wrong_verdicts_are_found_again() -> None:
    found = [searched(RateSearch(1.0, 64.0), noisy(17.0, 0.02, seed))[0] for seed in range(100)]
    near = [isinstance(f, Resolved) and abs(f.rate / 17.0 - 1) <= 0.05 for f in found]
    assert sum(near) >= 93


def test_one_wrong_pass_is_outvoted() -> None:
    """Its bracket is narrowed first; at its ends the wrong one shows."""
    found, history = searched(RateSearch(1.0, 64.0), lambda rate, n: "fail" if n == 2 else sharp(20.0)(rate, n))
    assert history[2] == Visit(4.0, "fail")
    assert isinstance(found, Resolved)
    assert found.low <= 20.0 < found.high


@pytest.mark.parametrize(
    ("truth", "words", "low", "high"),
    [(0.5, "not met at the lowest rate, 1", None, 1.0), (99.0, "still met at the highest rate, 64", 64.0, None)],
)
def test_outside_of_the_range(truth: float, words: str, low: float | None, high: float | None) -> None:
    found, history = searched(RateSearch(1.0, 64.0), sharp(truth))
    assert isinstance(found, Unresolved)
    assert words in found.reason
    assert (found.low, found.high, found.visits) == (low, high, len(history))


def test_inconclusive_visits_are_asked_again_and_then_said() -> None:
    once = RateSearch(1.0, 64.0).next([Visit(1.0, "pass"), Visit(2.0, "inconclusive")])
    assert once == Ask(2.0, "the last visit was inconclusive")
    found, _ = searched(
        RateSearch(1.0, 64.0), lambda rate, _: "pass" if rate < 10 else "fail" if rate > 20 else "inconclusive"
    )
    assert isinstance(found, Unresolved)
    assert found.reason == "3 visits at 16 were inconclusive: longer visits are needed to tell"
    assert (found.low, found.high) == (8.0, None)


def test_visits_are_bounded() -> None:
    found, history = searched(RateSearch(1.0, 64.0, max_visits=5), sharp(20.0))
    assert isinstance(found, Unresolved)
    assert len(history) == 5
    assert found.reason == "not settled after 5 visits"
    assert found.low is not None


def test_asked_rates_are_not_those_of_before_alone() -> None:
    """A resumed search with other settings uses every visit there is."""
    history = [Visit(13.0, "pass"), Visit(13.0, "pass"), Visit(13.4, "fail"), Visit(13.4, "fail")]
    found = RateSearch(1.0, 64.0).next(history)
    assert isinstance(found, Resolved)
    assert (found.low, found.high, found.visits) == (13.0, 13.4, 4)


@pytest.mark.parametrize(
    "asked",
    [{"low": 0.0}, {"high": 1.0}, {"high": float("inf")}, {"resolution": 0.0}, {"repeats": 0}, {"max_visits": 0}],
)
def test_a_search_that_is_none_is_an_error(asked: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected"):
        RateSearch(**{"low": 1.0, "high": 64.0, **asked})  # type: ignore[arg-type]


verdicts = st.lists(st.sampled_from(["pass", "fail", "inconclusive"]), min_size=1, max_size=60)


@settings(max_examples=100, deadline=None)
@given(verdicts, st.integers(1, 4), st.randoms(use_true_random=False))
def test_always_ends_whatever_comes_in_any_order(told: list[Verdict], repeats: int, random: Random) -> None:
    search = RateSearch(1.0, 50.0, repeats=repeats, max_visits=60)
    found, history = searched(search, lambda _, n: told[n % len(told)])
    assert len(history) <= 60
    if isinstance(found, Resolved):
        assert 1.0 <= found.low < found.high <= 50.0
    shuffled = history.copy()
    random.shuffle(shuffled)
    assert search.next(shuffled) == found
