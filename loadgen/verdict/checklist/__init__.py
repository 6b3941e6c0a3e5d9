"""The go-live checklist: every item measured, failed, or not shown (docs/checklist.md). Pure."""

from loadgen.verdict.checklist.assemble import checklist_of
from loadgen.verdict.checklist.evidence import AlertFired, AuditEvidence, CanaryEvidence, FileEvidence, RunEvidence
from loadgen.verdict.checklist.model import Checklist, Item, SetAside, Target, checklist_schema
from loadgen.verdict.checklist.rules import ITEMS

__all__ = [
    "ITEMS",
    "AlertFired",
    "AuditEvidence",
    "CanaryEvidence",
    "Checklist",
    "FileEvidence",
    "Item",
    "RunEvidence",
    "SetAside",
    "Target",
    "checklist_of",
    "checklist_schema",
]
