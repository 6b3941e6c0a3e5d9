"""Pass, fail or inconclusive: thresholds against estimates. Pure."""

from loadgen.verdict.apart import Paired, Unpaired
from loadgen.verdict.checklist import (
    ITEMS,
    AlertFired,
    AuditEvidence,
    CanaryEvidence,
    Checklist,
    FileEvidence,
    Item,
    RunEvidence,
    SetAside,
    Target,
    checklist_of,
    checklist_schema,
)
from loadgen.verdict.defaults import default_thresholds
from loadgen.verdict.judge import judge
from loadgen.verdict.model import Result, Verdict, verdict_schema
from loadgen.verdict.rules import Facts, Obstacle, obstacles
from loadgen.verdict.types import Evidence

__all__ = [
    "ITEMS",
    "AlertFired",
    "AuditEvidence",
    "CanaryEvidence",
    "Checklist",
    "Evidence",
    "Facts",
    "FileEvidence",
    "Item",
    "Obstacle",
    "Paired",
    "Result",
    "RunEvidence",
    "SetAside",
    "Target",
    "Unpaired",
    "Verdict",
    "checklist_of",
    "checklist_schema",
    "default_thresholds",
    "judge",
    "obstacles",
    "verdict_schema",
]
