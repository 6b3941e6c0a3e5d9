"""How long a sweep takes, and what it asks for: before it starts, and while it goes on."""

from __future__ import annotations

from dataclasses import dataclass

from loadgen.experiment.sweep_state import SweepState
from loadgen.plan import Estimate, SweepPlan, SweepPoint, build_plan, derive, estimate
from loadgen.scenario import LoadedScenario, VllmLauncher

#: Preflight, environment, idle edges and the report of a run, s; a start of each kind of server.
OVERHEAD_S = 2.0
START_S = {"rehearsal": 2.0, "vllm": 40.0, "command": 40.0}


@dataclass(frozen=True)
class SweepCost:
    """`points`: the estimate of each setting's run, by its index. `start_s`: assumed for one start of a server."""

    points: dict[int, Estimate]
    start_s: float
    assumption: str

    def planned_s(self, point: SweepPoint) -> float:
        return self.points[point.index].seconds + self.start_s + OVERHEAD_S

    def seconds(self, point: SweepPoint, state: SweepState) -> float:
        """From the visits that are over: of this setting, else of all in proportion to their estimates; else the
        estimate."""
        taken = [
            (visit.index, attempt.took_s)
            for visit in state.visits
            for attempt in visit.attempts
            if attempt.state == "done" and attempt.took_s is not None
        ]
        same = [took for index, took in taken if index == point.index]
        if same:
            return sum(same) / len(same)
        if not taken:
            return self.planned_s(point)
        planned = sum(self.points[index].seconds + self.start_s + OVERHEAD_S for index, _ in taken)
        return self.planned_s(point) * sum(took for _, took in taken) / planned

    def left_s(self, plan: SweepPlan, state: SweepState) -> float:
        pairs = zip(state.visits, plan.visits, strict=True)
        return sum(self.seconds(point, state) for visit, point in pairs if visit.state != "done")


def cost_of(loaded: LoadedScenario, plan: SweepPlan) -> SweepCost:
    """Of every setting once."""
    settings = {point.index: point for point in plan.points}
    points = {index: estimate(build_plan(derive(loaded, point))) for index, point in settings.items()}
    launch = None if loaded.scenario.sweep is None else loaded.scenario.sweep.launch
    start_s = 0.0 if launch is None else START_S[launch.kind]
    if isinstance(launch, VllmLauncher) and not launch.cpu:
        start_s *= 3
    text = next(iter(points.values())).assumption
    if start_s:
        text = f"{text}, and a start of its server takes {start_s:g} s"
    return SweepCost(points, start_s, text)
