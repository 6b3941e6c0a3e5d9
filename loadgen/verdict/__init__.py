"""Pass, fail or inconclusive: thresholds against estimates. Pure."""

from loadgen.verdict.apart import Paired, Unpaired
from loadgen.verdict.defaults import default_thresholds
from loadgen.verdict.judge import judge
from loadgen.verdict.model import Result, Verdict, verdict_schema
from loadgen.verdict.rules import Facts, Obstacle, obstacles
from loadgen.verdict.types import Evidence

__all__ = [
    "Evidence",
    "Facts",
    "Obstacle",
    "Paired",
    "Result",
    "Unpaired",
    "Verdict",
    "default_thresholds",
    "judge",
    "obstacles",
    "verdict_schema",
]
