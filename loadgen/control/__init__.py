"""Stop or continue: pure decisions on live aggregates."""

from loadgen.control.breaker import FIRST_WAIT_S, LONGEST_WAIT_S, Breaker, Closed, Dead, Look, Sign, Trip
from loadgen.control.decide import decide
from loadgen.control.live import LIVE_TIMES, LiveThresholds, Sample
from loadgen.control.search import Ask, RateSearch, Resolved, Unresolved, Verdict, Visit
from loadgen.control.types import Decision, Live
from loadgen.control.warmup import Settling, WarmUpWindow, settle

__all__ = [
    "FIRST_WAIT_S",
    "LIVE_TIMES",
    "LONGEST_WAIT_S",
    "Ask",
    "Breaker",
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
    "Trip",
    "Unresolved",
    "Verdict",
    "Visit",
    "WarmUpWindow",
    "decide",
    "settle",
]
