"""The whole run, from a scenario: segments in the order they are driven, and the hash that names them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Protocol

import numpy as np

from loadgen.plan.cases import CaseTable, Columns
from loadgen.plan.prompts import prose
from loadgen.plan.stages import StagePlan, plan_stages
from loadgen.plan.streams import Draw
from loadgen.plan.totals import Drawn, requests_of, total
from loadgen.plan.types import Case, ClosedLoop, OpenLoop, PhaseName, PlanTotals, Segment
from loadgen.scenario import LoadedScenario, OwnPrompt, Task, Workload, limits_of

#: Cases of a part without a number of requests that enter the hash and the count of reuse.
DRAWN_UNBOUNDED = 4096


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything that will be asked, and when. Pure: equal scenarios give equal plans on any machine.

    `hash`: sha256 over every array, the cases of one pass (all that are planned, the first 4096 of a part
    that ends by time alone) and the parts of the scenario that decide requests; not over where the arms are.
    `reused`: requests among those cases, of one arm and repeat, whose own prompt an earlier one has asked.
    Plans are compared by `hash`.
    """

    segments: tuple[Segment, ...]
    hash: str
    totals: PlanTotals
    reused: int
    workload: Workload
    seed: int
    _table: CaseTable = field(repr=False)
    _prefixes: dict[int, str] = field(default_factory=dict, repr=False)

    def case(self, stage_index: int, phase: PhaseName, index: int) -> Case:
        """Request `index` of a stage and phase; equal for every arm and repeat. ValueError: below 0."""
        if index < 0 or stage_index < 0:
            raise ValueError(f"no case {index} of stage {stage_index}")
        return self._table.case(stage_index, phase, index)

    def own_prompt(self, case: Case) -> OwnPrompt | None:
        """The user's prompt that a case asks; None where it is generated."""
        return self._table.own_prompt(case.task_index, case.prompt_index)

    def task(self, case: Case) -> Task:
        """The scenario's task that a case belongs to."""
        return self.workload.tasks[case.task_index]

    def shared_prefix(self, chars: int) -> str:
        """The text that begins every request with `shared_prefix`: one for each plan and length."""
        if chars not in self._prefixes:
            self._prefixes[chars] = prose(Draw(self.seed, "prefix"), chars)
        return self._prefixes[chars]


def build_plan(loaded: LoadedScenario) -> Plan:
    """The plan of a scenario that has passed its checks."""
    scenario = loaded.scenario
    table = CaseTable(loaded)
    stages = plan_stages(scenario)
    digest = sha256(_canonical(_decisive(loaded)))
    drawn, reused = _draw(table, stages, digest)
    segments = tuple(_segments(stages, list(scenario.arms), scenario.repeats))
    _add_segments(segments, digest)
    return Plan(
        segments=segments,
        hash=digest.hexdigest(),
        totals=total(stages, drawn, len(scenario.arms) * scenario.repeats, limits_of(scenario)),
        reused=reused,
        workload=scenario.workload,
        seed=scenario.seed,
        _table=table,
    )


def _segments(stages: Sequence[StagePlan], arms: list[str], repeats: int) -> Iterator[Segment]:
    """Stages in order; in each stage and repeat the arms take turns, reversed where their sum is odd (ABBA)."""
    number = 0
    for stage_index, stage in enumerate(stages):
        for repeat in range(repeats):
            for arm in arms if (stage_index + repeat) % 2 == 0 else arms[::-1]:
                if stage.warmup is not None:
                    yield _segment(number, arm, "warmup", stage_index, repeat, stage, stage.warmup)
                    number += 1
                yield _segment(number, arm, "measure", stage_index, repeat, stage, stage.load)
                number += 1


def _segment(
    number: int, arm: str, phase: PhaseName, index: int, repeat: int, stage: StagePlan, load: OpenLoop | ClosedLoop
) -> Segment:
    warming = isinstance(load, ClosedLoop) and phase == "warmup"
    return Segment(
        number=number,
        arm=arm,
        phase=phase,
        stage=stage.name,
        stage_index=index,
        repeat_idx=repeat,
        block=0,
        group=number,
        executor="concurrency" if warming else stage.executor,
        concurrency=stage.concurrency,
        rate_per_s=stage.rate_per_s,
        duration_ns=stage.warmup_ns if warming else stage.duration_ns,
        load=load,
    )


def _draw(table: CaseTable, stages: Sequence[StagePlan], digest: _Hash) -> tuple[Drawn, int]:
    """Draw one pass's cases into the hash; their tokens, and how many use an own prompt again."""
    input_tokens: int | None = 0
    output_tokens, reused = 0, 0
    asked: set[tuple[int, int]] = set()
    for stage_index, stage in enumerate(stages):
        for phase, load in _parts(stage):
            count = requests_of(load)
            for columns in table.drawn(stage_index, phase, DRAWN_UNBOUNDED if count is None else count):
                for column in columns.arrays():
                    digest.update(column.astype("<i8").tobytes())
                output_tokens += int(columns.output_len.sum())
                own = _own(columns)
                reused += len(own) - len(set(own) - asked)
                asked.update(own)
                if own or input_tokens is None:
                    input_tokens = None
                else:
                    input_tokens += int(columns.input_len.sum())
    return Drawn(input_tokens, output_tokens), reused


def _parts(stage: StagePlan) -> Iterator[tuple[PhaseName, OpenLoop | ClosedLoop]]:
    if stage.warmup is not None:
        yield "warmup", stage.warmup
    yield "measure", stage.load


def _own(columns: Columns) -> list[tuple[int, int]]:
    rows = columns.prompt_index >= 0
    return list(zip(columns.task[rows].tolist(), columns.prompt_index[rows].tolist(), strict=True))


def _decisive(loaded: LoadedScenario) -> dict[str, Any]:
    """The parts of the scenario that decide what is asked and when."""
    scenario = loaded.scenario
    return {
        "arms": list(scenario.arms),
        "prompts": {str(i): prompts.sha256 for i, prompts in loaded.prompts.items()},
        **scenario.model_dump(mode="json", include={"seed", "repeats", "sampling", "load", "warmup"}),
        "workload": scenario.workload.model_dump(
            mode="json", exclude={"keep_text": True, "tasks": {"__all__": {"prompts"}}}
        ),
    }


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _add_segments(segments: Sequence[Segment], digest: _Hash) -> None:
    """Every segment's label and arrays; arrays that segments share are hashed once."""
    known: dict[int, str] = {}

    def of(array: np.ndarray[Any, np.dtype[np.int64]]) -> str:
        if id(array) not in known:
            known[id(array)] = sha256(array.astype("<i8").tobytes()).hexdigest()
        return known[id(array)]

    for s in segments:
        load = s.load
        label = [s.number, s.arm, s.phase, s.stage, s.stage_index, s.repeat_idx, s.block, s.group, s.executor,
                 s.concurrency, s.rate_per_s, s.duration_ns]  # fmt: skip
        if isinstance(load, OpenLoop):
            label += [of(load.due_ns), of(load.index), load.max_in_flight, load.when_full]
        else:
            label += [of(load.start_ns), of(load.stop_ns), load.first_index, load.index_step, load.cases, load.end]
        digest.update(_canonical(label))
