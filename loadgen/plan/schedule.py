"""The whole run, from a scenario: segments in the order they are driven, and the hash that names them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Protocol

import numpy as np

from loadgen.plan.blocks import Block, block_count, cut
from loadgen.plan.cases import BLOCK, CaseTable, Columns
from loadgen.plan.design import CutStage, design_of, segments_of
from loadgen.plan.prompts import prose
from loadgen.plan.stages import StagePlan, plan_stages
from loadgen.plan.streams import Draw
from loadgen.plan.totals import Drawn, Part, requests_of, total
from loadgen.plan.types import Case, ClosedLoop, Design, OpenLoop, PhaseName, PlanTotals, Segment
from loadgen.scenario import LoadedScenario, OwnPrompt, Scenario, Task, Workload, limits_of, refuse_segments

#: Cases of a part without a number of requests that enter the hash and the count of reuse.
DRAWN_UNBOUNDED = 4096


class Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


class Cases(Protocol):
    """Which prompt a request asks: a pure function of its place."""

    def case(self, stage_index: int, phase: PhaseName, index: int) -> Case: ...

    def own_prompt(self, task_index: int, prompt_index: int | None) -> OwnPrompt | None: ...


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything that will be asked, and when. Pure: equal scenarios give equal plans on any machine.

    `hash`: sha256 over every array, the cases of one pass (all that are planned, the first 4096 of a part
    that ends by time alone) and the parts of the scenario that decide requests; not over where the arms are.
    `design`: how the arms share the time. `reused`: requests among those cases, of one arm and repeat, whose own
    prompt an earlier one has asked.
    Plans are compared by `hash`.
    """

    segments: tuple[Segment, ...]
    hash: str
    totals: PlanTotals
    reused: int
    design: Design
    workload: Workload
    seed: int
    _table: Cases = field(repr=False)
    _prefixes: dict[int, str] = field(default_factory=dict, repr=False)

    def case(self, stage_index: int, phase: PhaseName, index: int) -> Case:
        """Request `index` of a stage and phase; equal for every arm and repeat. ValueError: below 0."""
        if index < 0 or stage_index < 0:
            raise ValueError(f"no case {index} of stage {stage_index}")
        return self._table.case(stage_index, phase, index)

    def requests(self, stage_index: int, phase: PhaseName) -> int | None:
        """Requests of one arm and repeat, or of one window of warm-up; None where they depend on the server."""
        if phase == "measure":
            counts = self.design.stages[stage_index].requests
            return None if None in counts else sum(count or 0 for count in counts)
        windows = (s for s in self.segments if s.stage_index == stage_index and s.phase == "warmup")
        return next((requests_of(s.load) for s in windows), 0)

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


def run_plan(loaded: LoadedScenario) -> Plan:
    """The plan of a scenario that has passed its checks. Raises ScenarioError where its own choice of blocks makes too
    many segments of it."""
    scenario = loaded.scenario
    table = CaseTable(loaded)
    stages = plan_stages(scenario)
    digest = sha256(canonical(decisive(loaded)))
    drawn, reused = _draw(table, stages, digest)
    cut_stages = [CutStage(i, stage, _blocks(scenario, table, i, stage)) for i, stage in enumerate(stages)]
    refuse_segments(scenario.passes, sum(len(stage.blocks) for stage in cut_stages), len(scenario.arms))
    segments = segments_of(scenario, cut_stages)
    add_segments(segments, digest)
    return Plan(
        segments=segments,
        hash=digest.hexdigest(),
        totals=total(stages, segments, drawn, limits_of(scenario)),
        reused=reused,
        design=design_of(scenario, cut_stages, segments),
        workload=scenario.workload,
        seed=scenario.seed,
        _table=table,
    )


def _blocks(scenario: Scenario, table: CaseTable, index: int, stage: StagePlan) -> tuple[Block, ...]:
    """One block with one arm, unless the scenario says otherwise: there is nobody to take turns with."""
    asked = scenario.comparison.blocks
    if len(scenario.arms) == 1 and asked is None:
        return cut(stage, 1)
    looked_at = next(table.drawn(index, "measure", BLOCK))
    return cut(stage, block_count(stage, scenario.passes, asked, float(looked_at.output_len.mean())))


def _draw(table: CaseTable, stages: Sequence[StagePlan], digest: Digest) -> tuple[dict[Part, Drawn], int]:
    """Draw one pass's cases into the hash; their tokens by part, and how many use an own prompt again."""
    drawn: dict[Part, Drawn] = {}
    reused = 0
    asked: set[tuple[int, int]] = set()
    for stage_index, stage in enumerate(stages):
        for phase, load in _parts(stage):
            count = requests_of(load)
            input_tokens: int | None = 0
            output_tokens = 0
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
            drawn[stage_index, phase] = Drawn(input_tokens, output_tokens)
    return drawn, reused


def _parts(stage: StagePlan) -> Iterator[tuple[PhaseName, OpenLoop | ClosedLoop]]:
    if stage.warmup is not None:
        yield "warmup", stage.warmup
    yield "measure", stage.load


def _own(columns: Columns) -> list[tuple[int, int]]:
    rows = columns.prompt_index >= 0
    return list(zip(columns.task[rows].tolist(), columns.prompt_index[rows].tolist(), strict=True))


def decisive(loaded: LoadedScenario) -> dict[str, Any]:
    """The parts of the scenario that decide what is asked and when."""
    scenario = loaded.scenario
    return {
        "arms": list(scenario.arms),
        "prompts": {str(i): prompts.sha256 for i, prompts in loaded.prompts.items()},
        **scenario.model_dump(mode="json", include={"seed", "repeats", "sampling", "load", "warmup"}),
        "comparison": scenario.comparison.model_dump(mode="json", include={"design", "blocks", "swap", "unpaired"}),
        "workload": scenario.workload.model_dump(
            mode="json", exclude={"keep_text": True, "tasks": {"__all__": {"prompts"}}}
        ),
    }


def canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def add_segments(segments: Sequence[Segment], digest: Digest) -> None:
    """Every segment's label and arrays; arrays that segments share are hashed once."""
    known: dict[int, str] = {}

    def of(array: np.ndarray[Any, np.dtype[np.int64]]) -> str:
        if id(array) not in known:
            known[id(array)] = sha256(array.astype("<i8").tobytes()).hexdigest()
        return known[id(array)]

    for s in segments:
        load = s.load
        label = [s.number, s.arm, s.phase, s.stage, s.stage_index, s.repeat_idx, s.block, s.group, s.executor,
                 s.concurrency, s.rate_per_s, s.duration_ns, s.swapped]  # fmt: skip
        if isinstance(load, OpenLoop):
            label += [of(load.due_ns), of(load.index), load.max_in_flight, load.when_full]
        else:
            label += [of(load.start_ns), of(load.stop_ns), load.first_index, load.index_step, load.cases, load.end]
        digest.update(canonical(label))
