"""Which work a scenario's `experiment` is, and how what it found is read again from a run directory."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from loadgen.analyze import ExperimentResult, access_found, anomalies_found
from loadgen.experiment.access import run_access
from loadgen.experiment.anomalies import run_anomalies
from loadgen.experiment.drill import read_drill, run_drill
from loadgen.experiment.progress import Progress
from loadgen.experiment.quality import read_quality, run_quality
from loadgen.experiment.single import RunOptions, RunResult, run_scenario
from loadgen.record import RunData
from loadgen.scenario import LoadedScenario

Work = Callable[[LoadedScenario, RunOptions, Progress], Coroutine[Any, Any, RunResult]]


@dataclass(frozen=True, slots=True)
class Shape:
    """`work`: does it. `read`: what it found, from the run directory alone; None: the summary says it all."""

    work: Work
    read: Callable[[RunData], ExperimentResult] | None = None


#: By `experiment` of a scenario.
SHAPES: Mapping[str, Shape] = {
    "run": Shape(run_scenario),
    "soak": Shape(run_scenario),
    "quality": Shape(run_quality, read_quality),
    "anomalies": Shape(run_anomalies, anomalies_found),
    "access": Shape(run_access, access_found),
    "drill": Shape(run_drill, read_drill),
}


def run_experiment(loaded: LoadedScenario, options: RunOptions, progress: Progress) -> Coroutine[Any, Any, RunResult]:
    """The work that the scenario asks for; errors as of `run_scenario`."""
    return SHAPES[loaded.scenario.experiment].work(loaded, options, progress)


def found_in(run: RunData) -> ExperimentResult | None:
    """What the experiment of a run has found; None where the summary says it all."""
    shape = SHAPES.get(run.manifest.scenario.get("experiment", "run"))
    return None if shape is None or shape.read is None else shape.read(run)
