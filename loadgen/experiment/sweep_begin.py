"""A sweep before its first visit: its points checked, its state as new or as it was left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from loadgen.errors import ScenarioError
from loadgen.experiment.before import refuse_beyond
from loadgen.experiment.preflight import redactor_of
from loadgen.experiment.sweep_search import searched_arms
from loadgen.experiment.sweep_state import SweepState, VisitState, close_attempts, now, read_state
from loadgen.plan import SweepPlan, at_rate, build_plan, derive, point_arm, sweep_of
from loadgen.scenario import LoadedScenario, limits_of


def refuse_points(loaded: LoadedScenario, plan: SweepPlan) -> None:
    """Every point's scenario must be one, and within the caps: no load is sent. Raises ScenarioError."""
    limits = limits_of(loaded.scenario)
    problems: list[str] = []
    for point in {point.index: point for point in plan.points}.values():
        try:
            refuse_beyond(build_plan(derive(loaded, point)), limits)
        except ScenarioError as error:
            problems += [p if p.startswith("at ") else f"at {point.text}: {p}" for p in error.problems]
    search = sweep_of(loaded).max_rate
    for arm, k in searched_arms(loaded.scenario):
        assert search is not None
        for rate in (search.low, search.high):
            try:
                refuse_beyond(build_plan(at_rate(loaded, rate, 0, arm, k)), limits)
            except ScenarioError as error:
                problems += [f"sweep.max_rate: {problem}" for problem in error.problems]
    if problems:
        raise ScenarioError(list(dict.fromkeys(problems)))


def begun(folder: Path, loaded: LoadedScenario, plan: SweepPlan, overrides: Sequence[str]) -> SweepState:
    """Nothing is visited yet."""
    scenario, redact = loaded.scenario, redactor_of(loaded.scenario)
    visits = [
        VisitState(
            number=number,
            index=point.index,
            slug=point.slug,
            values=point.values,
            baseline=point.baseline,
            repeat=point.repeat,
            visit=point.visit,
            arm=point_arm(scenario, point.values),
        )
        for number, point in enumerate(plan.visits)
    ]
    return SweepState(
        sweep_id=folder.name,
        name=scenario.name,
        objective=scenario.objective,
        plan_hash=plan.hash,
        scenario=scenario.model_dump(mode="json"),
        scenario_path=loaded.path.name if loaded.path else None,
        scenario_sha256=loaded.text_sha256,
        overrides=[redact(text) for text in overrides],
        axes=plan.axes,
        baseline=plan.baseline,
        started=now(),
        visits=visits,
    )


def resumed(folder: Path, plan: SweepPlan) -> SweepState:
    """Raises ScenarioError where the scenario is another one now."""
    state = read_state(folder)
    if state.plan_hash != plan.hash:
        raise ScenarioError(
            [
                f"{folder}: was begun with another scenario (or other --set): its points would not be comparable; "
                "resume with the scenario as it was, or begin a new sweep without --resume"
            ]
        )
    close_attempts(folder, state)
    for visit in state.visits:
        visit.skipped = None
    return state
