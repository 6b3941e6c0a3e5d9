"""What the experiments that are more than a run have found: one model for all, a kind of its own for each."""

from loadgen.analyze.found.base import EXPERIMENT_SCHEMA, ExperimentResult, State, worst_state
from loadgen.analyze.found.drill import CourseBin, DrillPull, DrillResult, Losses, Settled
from loadgen.analyze.found.kinds import found_schema

__all__ = [
    "EXPERIMENT_SCHEMA",
    "CourseBin",
    "DrillPull",
    "DrillResult",
    "ExperimentResult",
    "Losses",
    "Settled",
    "State",
    "found_schema",
    "worst_state",
]
