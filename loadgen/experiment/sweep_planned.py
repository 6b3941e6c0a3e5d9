"""What a sweep will do, before it does it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from loadgen.experiment.sweep_cost import SweepCost, cost_of
from loadgen.experiment.sweep_state import SweepState, close_attempts, read_state
from loadgen.plan import SweepPlan, SweepPoint, plan_sweep
from loadgen.scenario import LoadedScenario


@dataclass(frozen=True)
class PlannedVisit:
    """`state`: of a sweep that is gone on with, else pending."""

    number: int
    point: SweepPoint
    requests: int
    output_tokens: int
    seconds: float
    state: str


@dataclass(frozen=True)
class SweepPlanned:
    """`seconds`, `requests` and `output_tokens` are of the visits that are left. `assumption` stands beside them."""

    plan: SweepPlan
    visits: tuple[PlannedVisit, ...]
    seconds: float
    requests: int
    output_tokens: int
    assumption: str
    searches: bool

    def within(self, budget_s: float) -> int:
        """Visits that are likely to fit into so many seconds."""
        n, used = 0, 0.0
        for visit in self.visits:
            if visit.state != "done" and used + visit.seconds <= budget_s:
                n, used = n + 1, used + visit.seconds
        return n

    def as_dict(self, budget_s: float | None) -> dict[str, Any]:
        """For --json."""
        visits = [{**asdict(v), "point": {"slug": v.point.slug, **asdict(v.point)}} for v in self.visits]
        return {
            "plan_hash": self.plan.hash,
            "axes": self.plan.axes,
            "baseline": self.plan.baseline,
            "visits": visits,
            "seconds": self.seconds,
            "requests": self.requests,
            "output_tokens": self.output_tokens,
            "assumption": self.assumption,
            "time_budget_s": budget_s,
            "visits_within_budget": None if budget_s is None else self.within(budget_s),
            "max_rate_follows": self.searches,
        }


def planned_sweep(loaded: LoadedScenario, folder: Path | None = None) -> SweepPlanned:
    """`folder`: of a sweep that would be gone on with. Raises ScenarioError or StorageError; looks at no server."""
    plan = plan_sweep(loaded)
    cost = cost_of(loaded, plan)
    state = None if folder is None else read_state(folder)
    if state is not None and folder is not None:
        close_attempts(folder, state)
    visits = tuple(_visit(number, point, cost, state) for number, point in enumerate(plan.visits))
    left = [v for v in visits if v.state != "done"]
    return SweepPlanned(
        plan=plan,
        visits=visits,
        seconds=sum(v.seconds for v in left),
        requests=sum(v.requests for v in left),
        output_tokens=sum(v.output_tokens for v in left),
        assumption=cost.assumption,
        searches=loaded.scenario.sweep is not None and loaded.scenario.sweep.max_rate is not None,
    )


def _visit(number: int, point: SweepPoint, cost: SweepCost, state: SweepState | None) -> PlannedVisit:
    guess = cost.points[point.index]
    takes_s = cost.planned_s(point) if state is None else cost.seconds(point, state)
    known = state.visits[number].state if state is not None and number < len(state.visits) else "pending"
    return PlannedVisit(number, point, guess.requests, guess.output_tokens, takes_s, known)
