"""Stop or continue: pure decisions on live aggregates."""

from loadgen.control.decide import decide
from loadgen.control.live import LIVE_TIMES, LiveThresholds, Sample
from loadgen.control.search import Ask, RateSearch, Resolved, Unresolved, Verdict, Visit
from loadgen.control.types import Decision, Live
from loadgen.control.warmup import Settling, WarmUpWindow, settle

__all__ = [
    "LIVE_TIMES",
    "Ask",
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
    "settle",
]
