"""Do the planned requests fit into the servers' context? Asked before anything is sent."""

from __future__ import annotations

from loadgen.errors import TargetUnusable
from loadgen.experiment.preflight import Preflight
from loadgen.plan import Case, ClosedLoop, Plan, Segment

#: Cases of a stage that are looked at.
LOOKED_AT = 512


def check_context(plan: Plan, ready: Preflight) -> tuple[str, ...]:
    """Notes on requests that a server will cut short.

    Raises TargetUnusable where it would refuse prompts: the rest of the run would then be of the survivors only.
    """
    notes = []
    cases = [case for segment in _first_of_each(plan) for case in _cases(plan, segment)]
    for name, arm in ready.arms.items():
        limit = arm.capabilities.max_model_len
        if limit is None:
            continue
        refused = [c for c in cases if c.input_len_requested is not None and c.input_len_requested >= limit]
        if refused:
            raise TargetUnusable(
                f"{name}: {len(refused)} of the first {len(cases)} requests ask for prompts of {limit} tokens or more "
                f"({_tasks(refused)}), and the server takes at most {limit} tokens in all: it would refuse them; "
                "shorten input_len"
            )
        cut = [c for c in cases if (c.input_len_requested or 0) + c.output_len_requested > limit]
        if cut:
            notes.append(
                f"{name}: {len(cut)} of the first {len(cases)} requests ({_tasks(cut)}) leave less than output_len "
                f"of the server's {limit} tokens: their answers will be cut short"
            )
    return tuple(notes)


def _first_of_each(plan: Plan) -> list[Segment]:
    """One segment of every stage and phase: arms and repeats ask the same."""
    seen = {(s.stage_index, s.phase): s for s in reversed(plan.segments)}
    return list(seen.values())


def _cases(plan: Plan, segment: Segment) -> list[Case]:
    load = segment.load
    n = LOOKED_AT if isinstance(load, ClosedLoop) and load.cases is None else 0
    n = n or (load.cases or 0 if isinstance(load, ClosedLoop) else int(load.due_ns.size))
    return [plan.case(segment.stage_index, segment.phase, i) for i in range(min(n, LOOKED_AT))]


def _tasks(cases: list[Case]) -> str:
    return ", ".join(sorted({c.task_type for c in cases}))
