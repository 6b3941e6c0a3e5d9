"""What the experiments that are more than a run have found: one model for all, a kind of its own for each."""

from loadgen.analyze.found.base import EXPERIMENT_SCHEMA, ExperimentResult, State, worst_state
from loadgen.analyze.found.drill import CourseBin, DrillPull, DrillResult, Losses, Settled
from loadgen.analyze.found.quality import DifferenceShown, QualityResult, Share, TestMade
from loadgen.analyze.found.quality_records import greedy_acceptance, quality_records
from loadgen.analyze.found.quality_result import quality_of, without_texts

__all__ = [
    "EXPERIMENT_SCHEMA",
    "CourseBin",
    "DifferenceShown",
    "DrillPull",
    "DrillResult",
    "ExperimentResult",
    "Losses",
    "QualityResult",
    "Settled",
    "Share",
    "State",
    "TestMade",
    "greedy_acceptance",
    "quality_of",
    "quality_records",
    "without_texts",
    "worst_state",
]
