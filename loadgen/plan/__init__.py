"""What exactly happens and when: seeded, pure, the same on any machine."""

from loadgen.plan.answer import ASSUMED, AnswerTime
from loadgen.plan.budget import Fitted, fit_budget
from loadgen.plan.build import build_plan
from loadgen.plan.calibration import ESTIMATE, correct_lengths, fit_lengths, probe_texts
from loadgen.plan.derive import at_rate, derive, point_arm, point_k
from loadgen.plan.estimate import Estimate, Peak, estimate
from loadgen.plan.probes import probe_plan, probe_segments
from loadgen.plan.quality_scenario import quality_scenario
from loadgen.plan.render import Rendered, render
from loadgen.plan.schedule import Plan
from loadgen.plan.shard import shard
from loadgen.plan.sweep import SweepPlan, SweepPoint, plan_sweep, sweep_of
from loadgen.plan.types import (
    NEVER,
    Case,
    ClosedLoop,
    Design,
    Executor,
    LengthModel,
    OpenLoop,
    PhaseName,
    PlanTotals,
    Segment,
    StageBlocks,
)

__all__ = [
    "ASSUMED",
    "ESTIMATE",
    "NEVER",
    "AnswerTime",
    "Case",
    "ClosedLoop",
    "Design",
    "Estimate",
    "Executor",
    "Fitted",
    "LengthModel",
    "OpenLoop",
    "Peak",
    "PhaseName",
    "Plan",
    "PlanTotals",
    "Rendered",
    "Segment",
    "StageBlocks",
    "SweepPlan",
    "SweepPoint",
    "at_rate",
    "build_plan",
    "correct_lengths",
    "derive",
    "estimate",
    "fit_budget",
    "fit_lengths",
    "plan_sweep",
    "point_arm",
    "point_k",
    "probe_plan",
    "probe_segments",
    "probe_texts",
    "quality_scenario",
    "render",
    "shard",
    "sweep_of",
]
