"""What the curves of a sweep say together, and why not where they say nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadgen.analyze.sweep.along_k import advice_of, best_of, cost_of, ladders
from loadgen.analyze.sweep.along_length import decays_of
from loadgen.analyze.sweep.along_load import LOADS, breaks_of, knees_of
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


@dataclass(frozen=True)
class Shapes:
    """`reasons`: why a part is empty, by its name."""

    knee: list[KneeResult]
    stops_paying: list[StopsPaying]
    best_k: list[BestKResult]
    cost: list[CostResult]
    advice: list[AdviceResult]
    decay: list[DecayResult]
    reasons: dict[str, str]


def shapes_of(plan: SweepPlan, done: Sequence[PointResult], made: Sequence[PointRun]) -> Shapes:
    along = list(ladders(plan, done))
    advice = [found for ladder in along if (found := advice_of(ladder, made)) is not None]
    knees, breaks = list(knees_of(plan, done)), list(breaks_of(plan, done))
    decays = list(decays_of(plan, done))
    best, costs = [best_of(ladder) for ladder in along], [cost_of(ladder) for ladder in along]
    parts = {
        "knee": (knees, _why_load(plan)),
        "stops_paying": (breaks, _why_load(plan) or ("no arm has a speedup over a baseline" if done else "")),
        "best_k": (best, _why_k(plan)),
        "cost": (costs, _why_k(plan)),
        "advice": (advice, _why_k(plan) or "the largest k is below 2: there is nothing to play again"),
        "decay": (decays, _why_length(plan)),
    }
    reasons = {name: why or "too few visits were measured" for name, (found, why) in parts.items() if not found}
    return Shapes(knees, breaks, best, costs, advice, decays, reasons)


def _why_load(plan: SweepPlan) -> str:
    there = any(len(plan.axes.get(axis, ())) > 1 for axis in LOADS)
    return "" if there else "neither concurrency nor rate is an axis of two values or more"


def _why_k(plan: SweepPlan) -> str:
    return "" if len(plan.axes.get("k", ())) > 1 else "k is no axis of two values or more"


def _why_length(plan: SweepPlan) -> str:
    return "" if len(plan.axes.get("input_len", ())) > 1 else "input_len is no axis of two values or more"
