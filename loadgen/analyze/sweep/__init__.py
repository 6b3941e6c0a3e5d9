"""From the points of a sweep to its curves, and to what they say together."""

from loadgen.analyze.sweep.models import (
    SWEEP_SCHEMA,
    AdviceAt,
    AdviceResult,
    AxisValue,
    BestKResult,
    CostResult,
    Curve,
    CurvePoint,
    DecayResult,
    Drift,
    DriftPoint,
    KneeResult,
    MaxRateResult,
    PointResult,
    PointState,
    RateVisit,
    StopsPaying,
    SweepSummary,
    TaskNumbers,
    Where,
)
from loadgen.analyze.sweep.numbers import SWEEP_METRICS, SweepMetric
from loadgen.analyze.sweep.points import PointRun
from loadgen.analyze.sweep.whole import analyze_sweep

__all__ = [
    "SWEEP_METRICS",
    "SWEEP_SCHEMA",
    "AdviceAt",
    "AdviceResult",
    "AxisValue",
    "BestKResult",
    "CostResult",
    "Curve",
    "CurvePoint",
    "DecayResult",
    "Drift",
    "DriftPoint",
    "KneeResult",
    "MaxRateResult",
    "PointResult",
    "PointRun",
    "PointState",
    "RateVisit",
    "StopsPaying",
    "SweepMetric",
    "SweepSummary",
    "TaskNumbers",
    "Where",
    "analyze_sweep",
]
