"""What the experiments that are more than a run have found: one model for all, a kind of its own for each."""

from loadgen.analyze.found.access import AccessCheck, AccessResult, AccessWord, access_found, key_checks
from loadgen.analyze.found.anomalies import anomalies_found
from loadgen.analyze.found.anomaly_models import AnomaliesArm, AnomaliesResult, AnomalyRow
from loadgen.analyze.found.base import EXPERIMENT_SCHEMA, ExperimentResult, State, worst_state
from loadgen.analyze.found.drill import CourseBin, DrillPull, DrillResult, Losses, Settled
from loadgen.analyze.found.kinds import found_schema
from loadgen.analyze.found.quality import DifferenceShown, NumericsCompared, QualityResult, Share, TestMade
from loadgen.analyze.found.quality_records import NUMERICS, greedy_acceptance, quality_records
from loadgen.analyze.found.quality_result import quality_of, without_texts

__all__ = [
    "EXPERIMENT_SCHEMA",
    "NUMERICS",
    "AccessCheck",
    "AccessResult",
    "AccessWord",
    "AnomaliesArm",
    "AnomaliesResult",
    "AnomalyRow",
    "CourseBin",
    "DifferenceShown",
    "DrillPull",
    "DrillResult",
    "ExperimentResult",
    "Losses",
    "NumericsCompared",
    "QualityResult",
    "Settled",
    "Share",
    "State",
    "TestMade",
    "access_found",
    "anomalies_found",
    "found_schema",
    "greedy_acceptance",
    "key_checks",
    "quality_of",
    "quality_records",
    "without_texts",
    "worst_state",
]
