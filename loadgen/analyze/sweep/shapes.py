"""What the curves of a sweep say together: knee, break-even, best draft length, cost, advice, decay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from loadgen.analyze.sweep.models import (
    AdviceResult,
    BestKResult,
    CostResult,
    DecayResult,
    KneeResult,
    PointResult,
    StopsPaying,
)
from loadgen.analyze.sweep.points import PointRun
from loadgen.plan import SweepPlan


@dataclass
class Shapes:
    """`reasons`: why a part is empty, by its name."""

    knee: list[KneeResult] = field(default_factory=list)
    stops_paying: list[StopsPaying] = field(default_factory=list)
    best_k: list[BestKResult] = field(default_factory=list)
    cost: list[CostResult] = field(default_factory=list)
    advice: list[AdviceResult] = field(default_factory=list)
    decay: list[DecayResult] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)


def shapes_of(plan: SweepPlan, done: Sequence[PointResult], made: Sequence[PointRun]) -> Shapes:
    return Shapes()
