"""What the experiments that are more than a run have found: one model for all, a kind of its own for each."""

from loadgen.analyze.found.base import EXPERIMENT_SCHEMA, ExperimentResult, State, worst_state

__all__ = ["EXPERIMENT_SCHEMA", "ExperimentResult", "State", "worst_state"]
