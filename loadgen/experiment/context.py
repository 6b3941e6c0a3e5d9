"""Do the planned requests fit into the servers' context? Asked before anything is sent."""

from __future__ import annotations

from collections.abc import Iterator

from loadgen.errors import TargetUnusable
from loadgen.experiment.preflight import Preflight
from loadgen.plan import Case, PhaseName, Plan

#: Cases of a stage that are looked at.
LOOKED_AT = 512
#: A soak has long contexts where a request asks for this share of what the server takes, prompt and answer together.
LONG = 0.8


def check_context(plan: Plan, ready: Preflight, soak: bool = False) -> tuple[str, ...]:
    """Notes on requests that a server will cut short, and on a soak without long contexts.

    Raises TargetUnusable where it would refuse prompts: the rest of the run would then be of the survivors only.
    """
    notes: list[str] = []
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
        if soak:
            notes.extend(_not_long(name, limit, cases))
    return tuple(notes)


def _not_long(name: str, limit: int, cases: list[Case]) -> Iterator[str]:
    """Own prompts have no length before they are tokenised: a soak of these alone is not judged here, and says so."""
    asked = [c.input_len_requested + c.output_len_requested for c in cases if c.input_len_requested is not None]
    longest = max(asked, default=0)
    if longest >= LONG * limit:
        return
    seen = f"asks for {longest} tokens with its answer, {longest / limit:.0%} of the server's {limit}"
    which = f"the longest of the first {len(asked)} requests of known length {seen}"
    yield (
        f"{name}: no long context is known in this soak: {which if asked else 'no prompt has a known length'}; what "
        f"breaks on long sequences alone is not shown: add a task from {LONG:.0%} of the limit on"
    )


def _parts(plan: Plan) -> list[tuple[int, PhaseName]]:
    """Every stage and phase: arms and repeats ask the same."""
    return list(dict.fromkeys((s.stage_index, s.phase) for s in plan.segments))


def _cases(plan: Plan, stage: int, phase: PhaseName) -> list[Case]:
    n = plan.requests(stage, phase)
    return [plan.case(stage, phase, i) for i in range(LOOKED_AT if n is None else min(n, LOOKED_AT))]


def _tasks(cases: list[Case]) -> str:
    return ", ".join(sorted({c.task_type for c in cases}))
