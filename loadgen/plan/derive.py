"""A sweep's scenario to the scenario of one point: an ordinary run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil
from typing import Any

from pydantic import ValidationError

from loadgen.errors import ScenarioError
from loadgen.plan.streams import words
from loadgen.plan.sweep import SweepPoint, sweep_of
from loadgen.scenario import AxisValue, LoadedScenario, Scenario, launched_arm


def derive(loaded: LoadedScenario, point: SweepPoint) -> LoadedScenario:
    """What a visit runs. Raises ScenarioError where the setting does not fit to the rest of the scenario.

    All visits of a pass ask cases of one seed, so that they are compared over the same requests. Thresholds are left
    out: they are about a run at the scenario's own setting.
    """
    sweep, scenario = sweep_of(loaded), loaded.scenario
    keys = scenario.model_dump()
    keys |= {"sweep": None, "thresholds": [], "seed": seed_of(scenario.seed, point.repeat)}
    _set_load(keys["load"][0], point.values, sweep.rounds)
    kept = _set_tasks(keys, point.values)
    _set_arms(keys, scenario, point.values)
    derived = checked(keys, point.text)
    prompts = {new: loaded.prompts[old] for new, old in enumerate(kept) if old in loaded.prompts}
    return replace(loaded, scenario=derived, prompts=prompts)


def at_rate(loaded: LoadedScenario, rate_per_s: float, visit: int, arm: str, k: int | None) -> LoadedScenario:
    """An ordinary run of one arm at one arrival rate, judged by the SLOs of sweep.max_rate; everything else is as the
    scenario says. `k`: of an arm that is started for it."""
    sweep, scenario = sweep_of(loaded), loaded.scenario
    assert sweep.max_rate is not None
    keys = scenario.model_dump()
    stage = {"kind": "arrival_rate", "rate_per_s": rate_per_s, "duration_s": sweep.max_rate.duration_s}
    keys |= {"sweep": None, "thresholds": list(sweep.max_rate.slo), "seed": seed_of(scenario.seed, visit)}
    keys |= {"load": [stage], "arms": {arm: keys["arms"][arm]}, "repeats": 1}
    keys["comparison"] |= {"baseline": None, "swap": False, "aa_run": None, "unpaired": [], "blocks": None}
    if k is not None:
        keys["arms"][arm]["speculation"] = "on" if k else "off"
    return replace(loaded, scenario=checked(keys, f"{rate_per_s:g} requests/s"))


def checked(keys: dict[str, Any], where: str) -> Scenario:
    """A changed scenario's keys, checked as a file's are. Raises ScenarioError, which begins with "at" `where`."""
    try:
        return Scenario.model_validate(keys)
    except ValidationError as error:
        problems = [_sentence(details) for details in error.errors(include_url=False)]
        raise ScenarioError([f"at {where}: {problem}" for problem in problems]) from None


def seed_of(seed: int, repeat: int) -> int:
    """The scenario's own for the first pass."""
    return seed if repeat == 0 else int(words(1, seed, "sweep cases", repeat)[0] >> 1)


def point_arm(scenario: Scenario, values: Mapping[str, AxisValue]) -> str:
    """The arm that a point's setting is about: the one that is started, the one of its k, else the first that is not
    the baseline arm."""
    sweep = scenario.sweep
    assert sweep is not None
    launched = launched_arm(scenario)
    if launched is not None:
        return launched
    if sweep.arms_by_k and "k" in values:
        return sweep.arms_by_k[sweep.over.k.index(int(values["k"]))]
    return next((name for name in scenario.arms if name != scenario.baseline), scenario.baseline)


def _set_load(stage: dict[str, Any], values: Mapping[str, AxisValue], rounds: int) -> None:
    """A stage is named after its load; its cases are at least so many rounds of its users."""
    stage.pop("name")
    if "rate" in values:
        stage["rate_per_s"] = float(values["rate"])
    if "concurrency" in values:
        stage["concurrency"] = int(values["concurrency"])
        if stage["cases"] is not None:
            stage["cases"] = max(stage["cases"], ceil(rounds * stage["concurrency"]))


def _set_tasks(keys: dict[str, Any], values: Mapping[str, AxisValue]) -> list[int]:
    """Which tasks stay, by their old number."""
    tasks = keys["workload"]["tasks"]
    wanted = values.get("task_type")
    kept = [i for i, task in enumerate(tasks) if wanted is None or task["task_type"] == wanted]
    for i in kept:
        for name in ("input_len", "output_len"):
            if name in values:
                tasks[i][name] = {"kind": "fixed", "value": int(values[name])}
        if "temperature" in values and tasks[i]["sampling"] is not None:
            tasks[i]["sampling"]["temperature"] = float(values["temperature"])
    if "temperature" in values:
        keys["sampling"]["temperature"] = float(values["temperature"])
    keys["workload"]["tasks"] = [tasks[i] for i in kept]
    return kept


def _set_arms(keys: dict[str, Any], scenario: Scenario, values: Mapping[str, AxisValue]) -> None:
    """Which arms a point has; what is to be found at the arm that is started."""
    sweep, launched = scenario.sweep, launched_arm(scenario)
    assert sweep is not None
    if launched is not None:
        keys["arms"][launched]["speculation"] = "on" if point_k(scenario, values) else "off"
    if not sweep.arms_by_k or "k" not in values:
        return
    by_k = dict(zip(sweep.over.k, sweep.arms_by_k, strict=True))
    base = by_k[int(sweep.baseline_values["k"])]
    chosen = list(dict.fromkeys((base, by_k[int(values["k"])])))
    keys["arms"] = {name: keys["arms"][name] for name in chosen}
    keys["comparison"]["baseline"] = base
    if len(chosen) == 1:
        keys["comparison"] |= {"swap": False, "aa_run": None}


def point_k(scenario: Scenario, values: Mapping[str, AxisValue]) -> int | None:
    """The draft length that the point's arm is to run with; None where the sweep does not say."""
    if "k" in values:
        return int(values["k"])
    launch = None if scenario.sweep is None else scenario.sweep.launch
    return None if launch is None else launch.k


def _sentence(details: Any) -> str:
    context = details.get("ctx", {})
    loc = [part for part in (*details["loc"], *context.get("loc", ())) if part not in ("concurrency", "arrival_rate")]
    return f"{'.'.join(map(str, loc))}: {context.get('message', details['msg'])}"
