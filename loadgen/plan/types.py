"""What exactly happens and when: the plan and its parts. Pure data.

A plan is a tuple of segments. A segment is one stage, driven against one arm, in one
repeat: the unit between two idle edges. Its times count from the segment's own start,
which the dispatcher fixes; everything inside is absolute from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from loadgen.scenario import DesignName

PhaseName = Literal["warmup", "measure"]
Executor = Literal["concurrency", "arrival_rate"]

#: `ClosedLoop.stop_ns` of a slot that ends by number of requests alone
NEVER: int = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Case:
    """One prompt with its task type, lengths and sampling seed. The same in every arm and repeat.

    (`stage_index`, `phase`, `index`) names the request of a stage: arms and repeats are paired by it.
    `case_id` names the prompt: own prompts that are used again keep theirs, and intervals
    cluster by it. Warm-up draws other cases than the measured part. `input_len_requested` is
    None for own prompts, whose length is what it is. `prompt_seed` makes the generated text;
    own prompts have `prompt_index` into the task's prompt set instead. `stream` is drawn
    per case, so that the arms stream the same requests.
    """

    stage_index: int
    phase: PhaseName
    index: int
    case_id: str
    task_index: int
    task_type: str
    input_len_requested: int | None
    output_len_requested: int
    sampling_seed: int | None
    prompt_seed: int
    prompt_index: int | None
    shared_prefix: bool
    stream: bool


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """Arrivals of an open loop.

    `due_ns`: (n,) int64, ascending, from the segment's start. Request i of the segment has
    `index[i]`, (n,) int64: its number within the stage (and phase) before sharding, which names its case.
    """

    due_ns: NDArray[np.int64]
    index: NDArray[np.int64]
    max_in_flight: int
    #: what happens to an arrival that finds `max_in_flight` in flight: counted either way
    when_full: Literal["drop", "wait"]


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """Slots of a closed loop; a slot sends its next request when its last one has ended.

    `start_ns`, `stop_ns`: (slots,) int64: when each slot begins and stops taking requests.
    `first_index`, `index_step`: the slots take the indices first, first + step, … in order.
    `cases`: total requests of this (shard of the) segment, or None for no limit. `end` "first":
    whichever of `stop_ns` and `cases` comes first ends the segment; "both": it goes on until both
    are reached (warm-up), slots ignoring `stop_ns` while cases are left.
    """

    start_ns: NDArray[np.int64]
    stop_ns: NDArray[np.int64]
    first_index: int
    index_step: int
    cases: int | None
    end: Literal["first", "both"]


@dataclass(frozen=True, slots=True)
class Segment:
    """One stage of one arm in one repeat. `concurrency` labels the group in results:
    the plateau of a closed loop, None for an open loop or a ramp. `rate_per_s` likewise.
    `block` numbers the design block within a stage and repeat (0 where a stage is one block): the same block holds
    the same cases in every arm. Of warm-up it numbers the window: all windows of one warm-up ask the same requests,
    and those left when the server has settled are not driven. Segments with the same `group` are driven together,
    groups one after the other. `swapped`: the arm is asked where another arm is in the other half of the plan.
    """

    number: int
    arm: str
    phase: PhaseName
    stage: str
    stage_index: int
    repeat_idx: int
    block: int
    group: int
    executor: Executor
    concurrency: int | None
    rate_per_s: float | None
    duration_ns: int | None
    load: OpenLoop | ClosedLoop
    swapped: bool = False


@dataclass(frozen=True, slots=True)
class StageBlocks:
    """How a stage is cut, the same in every repeat. `requests`: of each block in order; None for one that ends by
    time. `duration_ns`: of each block; None where its length depends on the server. `order`: (repeat, block, arms) in
    the order driven; arms of a parallel design stand in the scenario's order and are driven at once."""

    stage: str
    requests: tuple[int | None, ...]
    duration_ns: int | None
    paired: bool
    order: tuple[tuple[int, int, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Design:
    """How the arms share the time. `name` is None with one arm. `marks`: what readers of the result must know of it,
    one sentence each."""

    name: DesignName | None
    baseline: str
    arms: tuple[str, ...]
    repeats: int
    stages: tuple[StageBlocks, ...]
    marks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlanTotals:
    """What the plan will ask for, before it starts. None where it depends on the server's speed. All windows of
    warm-up count, also those that a server which settles early is not asked."""

    requests: int | None
    requests_upper: int
    input_tokens: int | None
    output_tokens: int | None
    seconds: float | None
    peak_concurrency: int
    peak_rate_per_s: float | None


@dataclass(frozen=True, slots=True)
class LengthModel:
    """How much generated text gives how many prompt tokens, by task type.

    tokens ≈ base[task] + per_char[task] × characters. `source`: "server_tokenize",
    "tokenizers" or "estimate"; an estimate may have been corrected by usage ("estimate+usage").
    """

    base: dict[str, float]
    per_char: dict[str, float]
    source: str
