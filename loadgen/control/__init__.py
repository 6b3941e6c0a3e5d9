"""Stop or continue: pure decisions on live aggregates."""

from loadgen.control.decide import decide
from loadgen.control.live import LIVE_TIMES, LiveThresholds, Sample
from loadgen.control.types import Decision, Live

__all__ = ["LIVE_TIMES", "Decision", "Live", "LiveThresholds", "Sample", "decide"]
