"""The contract of summary.json (schema 1): names, units, and what absence looks like.

Durations in seconds, ratios 0–1, rates per second. A number that could not be had is
null with a reason beside it, never 0.
"""

from loadgen.analyze.summary.base import Absent, AllSent, D, N
from loadgen.analyze.summary.compared import (
    ComparisonRow,
    Decomposition,
    Interval,
    Metric,
    Reconciliation,
    RunsCompared,
    Speedup,
    Unpaired,
)
from loadgen.analyze.summary.groups import (
    Arm,
    Conditions,
    Failure,
    G,
    NonStream,
    Requests,
    Rollback,
    RollbackRuns,
    Speculation,
    Stream,
    Throughput,
)
from loadgen.analyze.summary.resources import ArmResources, ResourceDelta, Resources, ResourceUse, WindowUse
from loadgen.analyze.summary.stability import DriftFound, SeriesTrend, Stability
from loadgen.analyze.summary.whole import (
    SUMMARY_SCHEMA,
    CacheHits,
    Difference,
    Equality,
    Finding,
    PromptMismatch,
    PromptTokens,
    Summary,
    Validity,
)

__all__ = [
    "SUMMARY_SCHEMA",
    "Absent",
    "AllSent",
    "Arm",
    "ArmResources",
    "CacheHits",
    "ComparisonRow",
    "Conditions",
    "D",
    "Decomposition",
    "Difference",
    "DriftFound",
    "Equality",
    "Failure",
    "Finding",
    "G",
    "Interval",
    "Metric",
    "N",
    "NonStream",
    "PromptMismatch",
    "PromptTokens",
    "Reconciliation",
    "Requests",
    "ResourceDelta",
    "ResourceUse",
    "Resources",
    "Rollback",
    "RollbackRuns",
    "RunsCompared",
    "SeriesTrend",
    "Speculation",
    "Speedup",
    "Stability",
    "Stream",
    "Summary",
    "Throughput",
    "Unpaired",
    "Validity",
    "WindowUse",
]
