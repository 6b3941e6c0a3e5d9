"""Stop or continue: pure decisions on live aggregates."""

from loadgen.control.decide import decide
from loadgen.control.types import Decision, Live

__all__ = ["Decision", "Live", "decide"]
