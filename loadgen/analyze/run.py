"""A whole run to its summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from loadgen.analyze import latency
from loadgen.analyze.arms import ArmData
from loadgen.analyze.comparison import compare
from loadgen.analyze.conditions import conditions, of_run
from loadgen.analyze.cost import resources_of
from loadgen.analyze.decompose import decompose
from loadgen.analyze.environment import environment_diff, in_order
from loadgen.analyze.equality import equality, equality_differences
from loadgen.analyze.estimates import Estimates
from loadgen.analyze.failures import failures_of
from loadgen.analyze.findings import Facts, findings_of
from loadgen.analyze.groups import Group, groups_of, overall, stage_groups
from loadgen.analyze.intervals import with_intervals
from loadgen.analyze.outages import outages_of
from loadgen.analyze.reconcile import reconcile
from loadgen.analyze.soak import stability_of
from loadgen.analyze.speculation import speculation
from loadgen.analyze.summary import Absent, Arm, ComparisonRow, Failure, G, N, Requests, Summary
from loadgen.analyze.throughput import Flow, flow_of, throughput
from loadgen.analyze.validity import validity
from loadgen.drive import Accounting, Outcome
from loadgen.record import RunData

LATER = "not judged yet"
MIXED = "the passes of a quality run are at different loads, to compare answers: their speeds are no result"
ONE_ARM = "the run has one arm: nothing to compare it with"


def analyze(run: RunData, estimates: Estimates | None = None) -> Summary:
    """Every published number of a run, also of one that was interrupted or killed. Pure. `estimates`: of the same run,
    where they have been made."""
    manifest = run.manifest
    mixed = bool(manifest.experiment.get("passes"))
    estimates = Estimates(run) if estimates is None else estimates
    arms = {name: side.data for name, side in estimates.sides.items()}
    slos = manifest.scenario.get("slos") or {}
    shown = {
        name: with_intervals(_arm(data, slos, failures_of(run.requests, name), mixed), name, estimates)
        for name, data in arms.items()
    }
    reconciliation = [
        row
        for data in arms.values()
        for row in reconcile(data.frame, data.windows, data.setting.facts.chunk_unit, data.setting.k)
    ]
    known = of_run(run)
    rows = [] if mixed else compare(estimates)
    alike = equality(run, arms, reconciliation)
    resources = resources_of(run, estimates)
    outages = tuple(one for data in arms.values() for one in outages_of(run.events, data.frame))
    return Summary(
        run_id=manifest.run_id,
        finished=manifest.state == "finished",
        validity=validity(run, {name: (data.frame, data.windows) for name, data in arms.items()}, reconciliation),
        arms=shown,
        decomposition=[] if mixed else decompose(arms, estimates.baseline, _net_by_stage(shown)),
        reconciliation=reconciliation,
        comparison=_compared(rows, estimates, mixed),
        findings=Absent(reason=MIXED)
        if mixed
        else findings_of(Facts(estimates, shown, rows, known, resources, outages)),
        environment=in_order([*environment_diff(run), *equality_differences(run, alike)]),
        equality=alike,
        verdict=Absent(reason=MIXED if mixed else LATER),
        conditions=known,
        resources=resources,
        stability=stability_of(run, arms),
    )


def _net_by_stage(arms: Mapping[str, Arm]) -> dict[tuple[str, str], N]:
    """Net tokens/s of the groups that are a whole stage."""
    return {
        (name, g.stage): g.throughput.net_tokens_per_s
        for name, arm in arms.items()
        for g in arm.by
        if g.stage is not None and g.task_type is None
    }


def _compared(rows: list[ComparisonRow], estimates: Estimates, mixed: bool) -> Absent | list[ComparisonRow]:
    if mixed:
        return Absent(reason=MIXED)
    return rows if estimates.baseline is not None else Absent(reason=ONE_ARM)


def _arm(data: ArmData, slos: Mapping[str, Any], failures: list[Failure], mixed: bool) -> Arm:
    """`mixed`: stages that must not be pooled: only they are shown, and of all together what was sent."""
    flow = flow_of(data.frame, data.windows)
    whole = overall(data.frame, data.windows)
    if mixed:
        nothing = _group(data, flow, replace(whole, rows=whole.rows[:0], windows=()), slos)
        by = [_group(data, flow, group, slos) for group in stage_groups(data.frame, data.windows)]
        return Arm(overall=nothing.model_copy(update={"requests": _requests(data, whole)}), by=by, failures=failures)
    return Arm(
        overall=_group(data, flow, whole, slos),
        by=[_group(data, flow, group, slos) for group in groups_of(data.frame, data.windows)],
        failures=failures,
    )


def _group(data: ArmData, flow: Flow, group: Group, slos: Mapping[str, Any]) -> G:
    frame, rows = data.frame, group.rows
    speed, slow_end = latency.stream_speed(frame, rows)
    why = data.setting.facts.absent_columns
    return G(
        task_type=group.task_type,
        input_segment=group.input_segment,
        output_segment=group.output_segment,
        concurrency=group.concurrency,
        stage=group.stage,
        temperature=group.temperature,
        top_p=group.top_p,
        top_k=group.top_k,
        requests=_requests(data, group),
        stream=latency.stream(frame, rows),
        non_stream=latency.non_stream(frame, rows),
        tpot_s=latency.tpot(frame, rows),
        **latency.pace(frame, rows),
        generation_speed=speed,
        generation_speed_p5=slow_end,
        **latency.server_times(frame, rows, group.counters, why),
        throughput=throughput(frame, flow, rows, group.windows, slos),
        speculation=speculation(frame, group, data.setting),
        conditions=conditions(frame, group),
    )


def _requests(data: ArmData, group: Group) -> Requests:
    """Accounting of the group's segments where the group is all there is of them, else null."""
    names, counts = np.unique(data.frame.outcome[group.rows].astype(str), return_counts=True)
    outcomes = {outcome.value: 0 for outcome in Outcome}
    outcomes |= {str(name): int(n) for name, n in zip(names, counts, strict=True)}
    accounts = [w.phase.accounting for w in group.windows]
    known = [a for a in accounts if a is not None]
    whole = group.whole_windows and len(known) == len(accounts)
    return Requests(
        sent=len(group.rows),
        outcomes=outcomes,
        scheduled=_sum(known, "scheduled", whole),
        dropped=_sum(known, "dropped", whole),
        unsent=_sum(known, "unsent", whole),
        late=_sum(known, "late", whole),
        capped_in_flight=_sum(known, "capped_in_flight", whole),
        capped_rate=_sum(known, "capped_rate", whole),
    )


def _sum(accounts: Sequence[Accounting], name: str, whole: bool) -> int | None:
    return sum(int(getattr(a, name)) for a in accounts) if whole else None
