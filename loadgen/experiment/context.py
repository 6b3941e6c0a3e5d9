"""Do the planned requests fit into the servers' context? Asked before anything is sent."""

from __future__ import annotations

from loadgen.errors import TargetUnusable
from loadgen.experiment.preflight import Preflight
from loadgen.plan import Case, PhaseName, Plan

#: Cases of a stage that are looked at.
LOOKED_AT = 512


def check_context(plan: Plan, ready: Preflight) -> tuple[str, ...]:
    """Notes on requests that a server will cut short.

    Raises TargetUnusable where it would refuse prompts: the rest of the run would then be of the survivors only.
    """
    notes = []
    cases = [case for stage, phase in _parts(plan) for case in _cases(plan, stage, phase)]
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


def _parts(plan: Plan) -> list[tuple[int, PhaseName]]:
    """Every stage and phase: arms and repeats ask the same."""
    return list(dict.fromkeys((s.stage_index, s.phase) for s in plan.segments))


def _cases(plan: Plan, stage: int, phase: PhaseName) -> list[Case]:
    n = plan.requests(stage, phase)
    return [plan.case(stage, phase, i) for i in range(LOOKED_AT if n is None else min(n, LOOKED_AT))]


def _tasks(cases: list[Case]) -> str:
    return ", ".join(sorted({c.task_type for c in cases}))
