"""The planned load, drawn before anything is sent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from loadgen.plan import ClosedLoop, Plan, Segment
from loadgen.report.format import DASH, count, number, seconds, sparkline
from loadgen.scenario import Limits

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
    """The measured stages in order, as one arm meets them."""
    seen: dict[int, DrawnStage] = {}
    for segment in plan.segments:
        if segment.phase == "measure" and segment.stage_index not in seen:
            seen[segment.stage_index] = _drawn(segment)
    return list(seen.values())


def _drawn(segment: Segment) -> DrawnStage:
    duration = segment.duration_ns
    seconds = duration / 1e9 if duration else None
    if isinstance(segment.load, ClosedLoop):
        load = segment.load
        if duration is None:
            values: tuple[float, ...] = (float(load.start_ns.size),) * POINTS
        else:
            at = np.linspace(0, duration, POINTS, endpoint=False)
            values = tuple(float(np.sum((load.start_ns <= t) & (load.stop_ns > t))) for t in at)
        return DrawnStage(segment.stage, "users", seconds, load.cases, values)
    due = segment.load.due_ns
    length = duration or int(due[-1]) + 1
    counts, _ = np.histogram(due, bins=POINTS, range=(0, length))
    return DrawnStage(
        segment.stage,
        "requests/s",
        seconds,
        int(due.size),
        tuple(float(c) * POINTS / (length / 1e9) for c in counts),
    )


def render_plan(plan: Plan, limits: Limits, cost: float | None, console: Console) -> None:
    """Requests, tokens, minutes and cost that the plan will ask for, stage by stage."""
    table = Table(title="Planned load, per arm and repeat", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("stage", "load over time", "from – to", "length", "requests"):
        table.add_column(column, no_wrap=True)
    for stage in planned_load(plan):
        table.add_row(
            stage.name,
            sparkline(stage.values, low=0),
            f"{number(min(stage.values))} – {number(max(stage.values))} {stage.unit}",
            seconds(stage.seconds) if stage.seconds else "by cases",
            count(stage.requests) if stage.requests is not None else "by time",
        )
    console.print(table)
    total = plan.totals
    requests = count(total.requests) if total.requests is not None else f"at most {count(total.requests_upper)}"
    price = (
        f", cost {cost:,.2f}" if cost is not None else ", cost not known (no safety.price_per_million_output_tokens)"
    )
    console.print(
        f"In all, warm-up, arms and repeats included: {requests} requests, at most {count(total.output_tokens)} output "
        f"tokens, {seconds(total.seconds) if total.seconds else 'as long as the server takes'}{price}."
    )
    caps = {k: v for k, v in vars_of(limits).items() if v is not None}
    console.print(f"[dim]caps ({limits.environment}): {caps or DASH}[/dim]")


def vars_of(limits: Limits) -> dict[str, float | int | str | None]:
    return {f: getattr(limits, f) for f in limits.__dataclass_fields__ if f != "environment"}
