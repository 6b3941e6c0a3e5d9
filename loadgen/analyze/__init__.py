"""What it means: every published number, from the run directory alone."""

from loadgen.analyze.run import analyze
from loadgen.analyze.summary import (
    Absent,
    AllSent,
    Arm,
    Conditions,
    D,
    Decomposition,
    G,
    N,
    NonStream,
    Reconciliation,
    Requests,
    Rollback,
    Speculation,
    Stream,
    Summary,
    Throughput,
    Validity,
)

__all__ = [
    "Absent",
    "AllSent",
    "Arm",
    "Conditions",
    "D",
    "Decomposition",
    "G",
    "N",
    "NonStream",
    "Reconciliation",
    "Requests",
    "Rollback",
    "Speculation",
    "Stream",
    "Summary",
    "Throughput",
    "Validity",
    "analyze",
]
