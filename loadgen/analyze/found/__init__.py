"""What the experiments that are more than a run have found: one model for all, a kind of its own for each."""

from loadgen.analyze.found.access import AccessCheck, AccessResult, AccessWord, access_found
from loadgen.analyze.found.anomalies import anomalies_found
from loadgen.analyze.found.anomaly_models import AnomaliesArm, AnomaliesResult, AnomalyRow
from loadgen.analyze.found.base import EXPERIMENT_SCHEMA, ExperimentResult, State, worst_state
from loadgen.analyze.found.drill import CourseBin, DrillPull, DrillResult, Losses, Settled
from loadgen.analyze.found.kinds import found_schema

__all__ = [
    "EXPERIMENT_SCHEMA",
    "AccessCheck",
    "AccessResult",
    "AccessWord",
    "AnomaliesArm",
    "AnomaliesResult",
    "AnomalyRow",
    "CourseBin",
    "DrillPull",
    "DrillResult",
    "ExperimentResult",
    "Losses",
    "Settled",
    "State",
    "access_found",
    "anomalies_found",
    "found_schema",
    "worst_state",
]
