"""The search for the highest rate within SLOs: which rates to visit is decided by `loadgen.control`, from what is
noted, so that it goes on after a resume where it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from loadgen.analyze import Interval, MaxRateResult, RateVisit
from loadgen.control import Ask, RateSearch, Resolved, Unresolved, Visit
from loadgen.experiment.single import RunResult
from loadgen.experiment.sweep_state import SearchVisit, SweepState
from loadgen.plan import point_arm
from loadgen.scenario import MaxRate, Scenario, launched_arm
from loadgen.verdict import Result

METHOD = "bracket by majority of the visits; docs/sweeps.md, Methods"


def searched_arms(scenario: Scenario) -> list[tuple[str, int | None]]:
    """Every (arm, k) that is searched: each k of a launcher, else every arm as it runs."""
    sweep, launched = scenario.sweep, launched_arm(scenario)
    if sweep is None or sweep.max_rate is None:
        return []
    if launched is not None and sweep.launch is not None:
        ks = [int(k) for k in sweep.axes.get("k", [sweep.launch.k])]
        return [(launched, k) for k in ks]
    if sweep.arms_by_k:
        return [(point_arm(scenario, {"k": k}), None) for k in sweep.over.k]
    return [(name, None) for name in scenario.arms]


def search_of(keys: MaxRate) -> RateSearch:
    return RateSearch(keys.low, keys.high, keys.resolution, keys.repeats)


def next_step(keys: MaxRate, state: SweepState, arm: str, k: int | None) -> Ask | Resolved | Unresolved:
    return search_of(keys).next([Visit(v.rate_per_s, v.outcome) for v in _of(state, arm, k) if v.outcome is not None])


def outcome_of(result: RunResult) -> tuple[Literal["pass", "fail", "inconclusive"], str]:
    """(pass, fail or inconclusive; why) of a run that was judged by the SLOs."""
    if result.state != "finished":
        return "inconclusive", f"the run was ended early: {result.reason}"
    if result.summary.validity.state == "invalid":
        return "inconclusive", result.summary.validity.reasons[0]
    if result.verdict is None:
        return "inconclusive", "nothing was judged"
    votes = [vote_of(t) for t in result.verdict.thresholds]
    words = {True: "holds", False: "does not hold", None: "not known"}
    told = "; ".join(
        f"{t.name}: {'not known' if t.value is None else f'{t.value:.4g}'}, {words[vote]}"
        for t, vote in zip(result.verdict.thresholds, votes, strict=True)
    )
    if False in votes:
        return "fail", told
    return ("inconclusive" if None in votes else "pass"), told


def vote_of(found: Result) -> bool | None:
    """As the interval decides; where it does not, by the value itself: one visit is a noisy vote, and the search asks
    for a majority. None: there is no value."""
    if found.ok is not None or found.value is None:
        return found.ok
    holds = {
        "<": found.value < found.limit,
        "<=": found.value <= found.limit,
        ">": found.value > found.limit,
        ">=": found.value >= found.limit,
    }
    return holds[found.op]


def max_rates(state: SweepState) -> Iterator[MaxRateResult]:
    """What the search has found, from the sweep's state alone."""
    told = (state.scenario.get("sweep") or {}).get("max_rate")
    if told is None:
        return
    keys = MaxRate.model_validate(told)
    for arm, k in dict.fromkeys((v.arm, v.k) for v in state.search):
        yield _result(keys, state, arm, k)


def _result(keys: MaxRate, state: SweepState, arm: str, k: int | None) -> MaxRateResult:
    visits, found = _of(state, arm, k), next_step(keys, state, arm, k)
    n = sum(v.outcome is not None for v in visits)
    resolved = isinstance(found, Resolved)
    value = found.rate if isinstance(found, Resolved) else None
    low, high = (None, None) if isinstance(found, Ask) else (found.low, found.high)
    reason = "the search is not over: resume the sweep" if isinstance(found, Ask) else found.reason
    rate = Interval(
        value=value, low=low, high=high, n=n, source="client", unit="visits", method=METHOD,
        reason="a bracket, no confidence interval" if resolved else reason,
    )  # fmt: skip
    name = arm if k is None else f"{arm} (k {k})"
    return MaxRateResult(
        where={} if k is None else {"k": k},
        arm=arm,
        slo=list(keys.slo),
        state="resolved" if resolved else "unresolved",
        rate_per_s=rate,
        visits=_shown(visits),
        reason=None if resolved else reason,
        sentence=_sentence(name, keys, found),
    )


def _sentence(name: str, keys: MaxRate, found: Ask | Resolved | Unresolved) -> str:
    slo = ", ".join(keys.slo)
    if isinstance(found, Resolved):
        return f"{name} holds {slo} up to {found.rate:.3g} requests/s ({found.reason}; {found.visits} visits)"
    if isinstance(found, Unresolved):
        return f"highest rate of {name} within {slo}: unresolved: {found.reason}"
    return f"highest rate of {name} within {slo}: the search is not over"


def _of(state: SweepState, arm: str, k: int | None) -> list[SearchVisit]:
    return [v for v in state.search if (v.arm, v.k) == (arm, k)]


def _shown(visits: Sequence[SearchVisit]) -> list[RateVisit]:
    return [
        RateVisit(rate_per_s=v.rate_per_s, outcome=v.outcome, why=v.why, directory=v.directory)
        for v in visits
        if v.outcome is not None
    ]


def next_folder(state: SweepState, rate_per_s: float) -> str:
    return f"search/{len(state.search):03d}-rate{rate_per_s:g}"
