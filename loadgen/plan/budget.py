"""Fit a scenario into a time: fewer requests, then fewer blocks, then fewer repeats; and what that costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, sqrt

from loadgen.errors import ScenarioError
from loadgen.plan.answer import AnswerTime
from loadgen.plan.blocks import ENOUGH_BLOCKS, SHORTEST_SLICE_S
from loadgen.plan.build import build_plan
from loadgen.plan.estimate import estimate
from loadgen.plan.schedule import Plan
from loadgen.scenario import ROUNDS, ConcurrencyStage, LoadedScenario, Scenario, Stage

#: Windows of warm-up where the time is short: the least that can agree (docs/method.md).
_WINDOWS = 3
#: Halvings of the share of the load that is kept: to better than 1 %.
_STEPS = 7


@dataclass(frozen=True, slots=True)
class Fitted:
    """`loaded` is what fits. Seconds are estimates, `source` says what they rest on. `share`: measured requests kept,
    at the stage that lost most. `blocks_before`, `blocks`: over all repeats, at the stage with the fewest."""

    loaded: LoadedScenario
    budget_s: float
    before_s: float
    seconds: float
    source: str
    share: float
    repeats_before: int
    repeats: int
    blocks_before: int
    blocks: int

    @property
    def changed(self) -> bool:
        return self.share < 1.0

    @property
    def wider(self) -> float:
        """So many times as wide are intervals: they go with one over the square root of what is measured."""
        return 1 / sqrt(self.share)

    def sentence(self) -> str:
        """For readers of `check`, `run` and the manifest."""
        took = f"about {self.before_s:,.0f} s {self.source}"
        if not self.changed:
            return f"time budget of {self.budget_s:,.0f} s: fits as it is ({took})"
        few = "" if self.blocks >= ENOUGH_BLOCKS else f"; below {ENOUGH_BLOCKS} blocks quantiles have no interval"
        return (
            f"time budget of {self.budget_s:,.0f} s: the whole scenario takes {took}; kept are {self.share:.0%} of its "
            f"measured requests, {self.repeats} of {self.repeats_before} repeats, {self.blocks} of "
            f"{self.blocks_before} blocks (about {self.seconds:,.0f} s). Intervals become about {self.wider:.2g} times "
            f"as wide (1/√n){few}"
        )


def fit_budget(loaded: LoadedScenario, budget_s: float, answer: AnswerTime, *, start_s: float = 0.0) -> Fitted:
    """The largest part of the scenario that is likely to be over within `budget_s`.

    Stages keep their levels and arms; warm-up has three windows at most. Requests (and lengths of timed stages) shrink
    first, down to 20 blocks of two rounds; then blocks, then repeats. `start_s`: a start of a server (design: restart).
    Raises ScenarioError where not even one repeat of one block each fits.
    """
    whole = build_plan(loaded)
    before_s = _seconds(whole, answer, start_s)
    if before_s <= budget_s:
        return _fitted(loaded, whole, loaded, whole, budget_s, before_s, before_s, answer)
    least_s = before_s
    for repeats, least_blocks in _ways(loaded.scenario.passes):
        smallest = _shrunk(loaded, repeats, 0.0, least_blocks)
        least_s = _seconds(build_plan(smallest), answer, start_s)
        if least_s > budget_s:
            continue
        fits, low, high = smallest, 0.0, 1.0
        for _ in range(_STEPS):
            middle = (low + high) / 2
            tried = _shrunk(loaded, repeats, middle, least_blocks)
            if _seconds(build_plan(tried), answer, start_s) <= budget_s:
                fits, low = tried, middle
            else:
                high = middle
        plan = build_plan(fits)
        seconds = _seconds(plan, answer, start_s)
        return _fitted(loaded, whole, fits, plan, budget_s, before_s, seconds, answer)
    raise ScenarioError(
        [
            f"--time-budget: {budget_s:,.0f} s are too short: one repeat with one block a stage takes about "
            f"{least_s:,.0f} s {answer.source}; give more time, or fewer stages"
        ]
    )


def _ways(repeats: int) -> Iterator[tuple[int, int]]:
    """(repeats, blocks that a stage keeps in each), from what costs least precision on."""
    yield repeats, ceil(ENOUGH_BLOCKS / repeats)
    for fewer in range(repeats, 0, -1):
        yield fewer, 1


def _seconds(plan: Plan, answer: AnswerTime, start_s: float) -> float:
    visits = sum(a.arm != b.arm for a, b in pairwise(plan.segments)) + 1
    starts = visits * start_s if plan.design.name == "restart" else 0.0
    return estimate(plan, answer).seconds + starts


def _shrunk(loaded: LoadedScenario, repeats: int, share: float, least_blocks: int) -> LoadedScenario:
    """Warm-up has no more windows than can agree. A stage that is too short for comparison.blocks has fewer."""
    scenario = loaded.scenario
    load = [_smaller(stage, share, least_blocks) for stage in scenario.load]
    warmup = scenario.warmup.model_copy(update={"max_windows": min(scenario.warmup.windows, _WINDOWS)})
    update = {"repeats": repeats, "load": load, "warmup": warmup}
    return replace(loaded, scenario=scenario.model_copy(update=update))


def _smaller(stage: Stage, share: float, least_blocks: int) -> Stage:
    if isinstance(stage, ConcurrencyStage) and stage.cases is not None:
        least = min(stage.cases, ROUNDS * stage.peak * least_blocks)
        changed: dict[str, float] = {"cases": max(least, round(stage.cases * share))}
        if stage.duration_s is not None:
            changed["duration_s"] = stage.duration_s * changed["cases"] / stage.cases
        return stage.model_copy(update=changed)
    assert stage.duration_s is not None, "a stage ends by cases or by time"
    least_s = min(stage.duration_s, SHORTEST_SLICE_S * least_blocks)
    return stage.model_copy(update={"duration_s": max(least_s, stage.duration_s * share)})


def _size(scenario: Scenario, i: int) -> float:
    stage = scenario.load[i]
    cases = stage.cases if isinstance(stage, ConcurrencyStage) else None
    return scenario.passes * float(cases if cases is not None else stage.duration_s or 0.0)


def _fitted(
    before: LoadedScenario,
    whole: Plan,
    after: LoadedScenario,
    plan: Plan,
    budget_s: float,
    before_s: float,
    seconds: float,
    answer: AnswerTime,
) -> Fitted:
    shares = [_size(after.scenario, i) / _size(before.scenario, i) for i in range(len(before.scenario.load))]
    return Fitted(
        loaded=after,
        budget_s=budget_s,
        before_s=before_s,
        seconds=seconds,
        source=answer.source,
        share=min(shares),
        repeats_before=whole.design.repeats,
        repeats=plan.design.repeats,
        blocks_before=min(len(stage.order) for stage in whole.design.stages),
        blocks=min(len(stage.order) for stage in plan.design.stages),
    )
