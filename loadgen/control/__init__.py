"""Stop or continue: pure decisions on live aggregates."""

from loadgen.control.canary import (
    CANARY_STATES,
    Canary,
    CanaryResult,
    CanaryStanding,
    CanaryState,
    CanaryVerdict,
    CanaryWindow,
    CheckId,
    CheckReading,
    CheckSource,
    CheckStanding,
    reading_text,
)
from loadgen.control.decide import decide
from loadgen.control.live import LIVE_TIMES, LiveThresholds, Sample
from loadgen.control.search import Ask, RateSearch, Resolved, Unresolved, Verdict, Visit
from loadgen.control.types import Decision, Live
from loadgen.control.warmup import Settling, WarmUpWindow, settle

__all__ = [
    "CANARY_STATES",
    "LIVE_TIMES",
    "Ask",
    "Canary",
    "CanaryResult",
    "CanaryStanding",
    "CanaryState",
    "CanaryVerdict",
    "CanaryWindow",
    "CheckId",
    "CheckReading",
    "CheckSource",
    "CheckStanding",
    "Decision",
    "Live",
    "LiveThresholds",
    "RateSearch",
    "Resolved",
    "Sample",
    "Settling",
    "Unresolved",
    "Verdict",
    "Visit",
    "WarmUpWindow",
    "decide",
    "reading_text",
    "settle",
]
