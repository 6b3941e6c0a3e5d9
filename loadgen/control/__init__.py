"""Stop or continue: pure decisions on live aggregates."""

from loadgen.control.breaker import FIRST_WAIT_S, LONGEST_WAIT_S, Breaker, Closed, Dead, Look, Sign, Trip
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
from loadgen.control.retrial import RETRIAL_LEVEL, SENDS, Trial, chance_of, controls_for
from loadgen.control.search import Ask, RateSearch, Resolved, Unresolved, Verdict, Visit
from loadgen.control.types import Decision, Live
from loadgen.control.warmup import Settling, WarmUpWindow, settle

__all__ = [
    "CANARY_STATES",
    "FIRST_WAIT_S",
    "LIVE_TIMES",
    "LONGEST_WAIT_S",
    "RETRIAL_LEVEL",
    "SENDS",
    "Ask",
    "Breaker",
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
    "Closed",
    "Dead",
    "Decision",
    "Live",
    "LiveThresholds",
    "Look",
    "RateSearch",
    "Resolved",
    "Sample",
    "Settling",
    "Sign",
    "Trial",
    "Trip",
    "Unresolved",
    "Verdict",
    "Visit",
    "WarmUpWindow",
    "chance_of",
    "controls_for",
    "decide",
    "reading_text",
    "settle",
]
