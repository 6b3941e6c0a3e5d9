"""Whether a server under steady load stays as it was: trends, jumps, and when they began (docs/soak.md)."""

from loadgen.analyze.soak.dating import Drift, drift
from loadgen.analyze.soak.family import FAMILY_LEVEL, MIN_WINDOWS, Judged, Series, judge
from loadgen.analyze.soak.stability import stability_of
from loadgen.analyze.soak.trends import Change, Trend, change_point, trend

__all__ = [
    "FAMILY_LEVEL",
    "MIN_WINDOWS",
    "Change",
    "Drift",
    "Judged",
    "Series",
    "Trend",
    "change_point",
    "drift",
    "judge",
    "stability_of",
    "trend",
]
