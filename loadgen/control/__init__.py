"""Stop or continue: pure decisions on live aggregates."""

from loadgen.control.decide import decide
from loadgen.control.types import Decision, Live
from loadgen.control.warmup import Settling, WarmUpWindow, settle

__all__ = ["Decision", "Live", "Settling", "WarmUpWindow", "decide", "settle"]
