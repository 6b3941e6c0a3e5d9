"""The planned load, drawn before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadgen.plan import ClosedLoop, OpenLoop, Plan, Segment, estimate
from loadgen.report.format import count, seconds, sparkline
from loadgen.scenario import ConcurrencyStage, Limits, Ramp, Stage

#: Points of a drawn load curve.
POINTS = 24


@dataclass(frozen=True)
class DrawnStage:
    """Planned load of one stage over its length: `unit` "users" or "requests/s"; None where its
    length depends on the server."""

    name: str
    unit: str
    seconds: float | None
    requests: int | None
    values: tuple[float, ...]


def planned_load(plan: Plan) -> list[DrawnStage]:
    """The measured stages in order, as one arm meets them in one repeat: their blocks one after the other."""
    stages: dict[int, list[Segment]] = {}
    for s in plan.segments:
        if s.phase == "measure" and (s.arm, s.repeat_idx) == (plan.design.arms[0], 0):
            stages.setdefault(s.stage_index, []).append(s)
    return [
        _drawn(sorted(blocks, key=lambda s: s.block), plan.requests(index, "measure"))
        for index, blocks in sorted(stages.items())
    ]


def _drawn(blocks: list[Segment], requests: int | None) -> DrawnStage:
    first = blocks[0]
    durations = [b.duration_ns for b in blocks if b.duration_ns]
    length = sum(durations)
    seconds = length / 1e9 if length else None
    if isinstance(first.load, ClosedLoop):
        load = first.load
        if len(blocks) > 1 or not length:
            values: tuple[float, ...] = (float(load.start_ns.size),) * POINTS
        else:
            at = np.linspace(0, length, POINTS, endpoint=False)
            values = tuple(float(np.sum((load.start_ns <= t) & (load.stop_ns > t))) for t in at)
        cases = None if load.cases is None else sum(b.load.cases or 0 for b in blocks if isinstance(b.load, ClosedLoop))
        return DrawnStage(first.stage, "users", seconds, cases, values)
    begins = np.cumsum([0, *durations])
    due = np.concatenate(
        [b.load.due_ns + t for b, t in zip(blocks, begins, strict=False) if isinstance(b.load, OpenLoop)]
    )
    counts, _ = np.histogram(due, bins=POINTS, range=(0, length))
    values = tuple(float(c) * POINTS / (length / 1e9) for c in counts)
    return DrawnStage(first.stage, "requests/s", seconds, requests, values)


def render_plan(plan: Plan, stages: Sequence[Stage], limits: Limits, console: Console) -> None:
    """Requests, tokens, minutes and cost that the plan will ask for, stage by stage."""
    table = Table(title="Planned load, per arm and repeat", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("stage", "load over time", "asked", "length", "requests", "blocks"):
        table.add_column(column, no_wrap=True)
    for stage, asked, cut in zip(planned_load(plan), stages, plan.design.stages, strict=True):
        table.add_row(
            stage.name,
            sparkline(stage.values, low=0),
            f"{_level(asked)} {stage.unit}",
            seconds(stage.seconds) if stage.seconds else "by cases",
            count(stage.requests) if stage.requests is not None else "by time",
            str(len(cut.requests)),
        )
    console.print(table)
    design = plan.design
    if design.name is not None:
        console.print(f"design: {design.name}, {' and '.join(design.arms)}, {design.repeats} repeats.", markup=False)
    console.print(f"In all, warm-up, arms and repeats included: {asked_in_all(plan)}. Cost: {cost_of(plan, limits)}.")
    console.print(Text(f"caps ({limits.environment}): {caps_of(limits)}", style="dim"))


def cost_of(plan: Plan, limits: Limits) -> str:
    """In words, by the price of the scenario or its targets."""
    price = limits.price_per_million_output_tokens
    if price is None:
        return "not known (no safety.price_per_million_output_tokens)"
    return f"at most {price * (plan.totals.output_tokens or estimate(plan).output_tokens) / 1e6:,.2f}"


def asked_in_all(plan: Plan) -> str:
    """Requests, output tokens and time of the whole plan, in words."""
    guess, exact, tokens = estimate(plan), plan.totals.requests, plan.totals.output_tokens
    requests = count(exact) if exact is not None else f"about {count(guess.requests)}"
    return (
        f"{requests} requests, "
        f"{'at most' if tokens is not None else 'about'} {count(tokens or guess.output_tokens)} output tokens, "
        f"about {seconds(guess.seconds)} {guess.assumption}"
    )


def _level(stage: Stage) -> str:
    level = stage.concurrency if isinstance(stage, ConcurrencyStage) else stage.rate_per_s
    return f"{level.start:g} → {level.end:g}" if isinstance(level, Ramp) else f"{level:g}"


def caps_of(limits: Limits) -> str:
    caps = {f: getattr(limits, f) for f in limits.__dataclass_fields__ if f != "environment"}
    return ", ".join(f"{name} {value:,.10g}" for name, value in caps.items() if value is not None) or "none"
