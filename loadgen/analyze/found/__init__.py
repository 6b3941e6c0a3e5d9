"""What the experiments that are more than a run have found: one model for all, a kind of its own for each."""

from loadgen.analyze.found.base import EXPERIMENT_SCHEMA, ExperimentResult, State, worst_state
from loadgen.analyze.found.drill import CourseBin, DrillPull, DrillResult, Losses, Settled

__all__ = [
    "EXPERIMENT_SCHEMA",
    "CourseBin",
    "DrillPull",
    "DrillResult",
    "ExperimentResult",
    "Losses",
    "Settled",
    "State",
    "worst_state",
]
