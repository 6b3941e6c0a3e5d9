"""Which prompt a request asks, how long, and with what seed: a pure function of (seed, stage, phase, index).

Cases are drawn in blocks of 256, each column of a block from a stream of its own, so any case can be had
at any time at little cost and no order of access changes it.

Task mix: a block holds one point in each 256th of the weights, and each 16 cases in a row (0–15, 16–31, …)
one in each 16th (a randomised orthogonal array, Owen 1992). So every 16 cases hold each task
within 2 of its share, and so does every block; within that, the order is random.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadgen.plan.lengths import draw_lengths, draw_pairs
from loadgen.plan.streams import Floats, Words, permutation, unit, words
from loadgen.plan.types import Case, PhaseName
from loadgen.scenario import LoadedScenario, OwnPrompt, PromptSet, SamplingKeys, Task

BLOCK = 256
_SIDE = 16
_KEPT_BLOCKS = 128
_NONE = -1

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Columns:
    """Cases as arrays, (n,) int64 each; −1 stands for None, 0 and 1 for no and yes."""

    task: Ints
    input_len: Ints
    output_len: Ints
    sampling_seed: Ints
    prompt_seed: Ints
    prompt_index: Ints
    shared_prefix: Ints
    stream: Ints

    def arrays(self) -> tuple[Ints, ...]:
        return (
            self.task, self.input_len, self.output_len, self.sampling_seed,
            self.prompt_seed, self.prompt_index, self.shared_prefix, self.stream,
        )  # fmt: skip

    def first(self, n: int) -> Columns:
        return Columns(*(column[:n] for column in self.arrays()))


class CaseTable:
    """Draws the cases of a scenario, and keeps the blocks used last."""

    def __init__(self, loaded: LoadedScenario) -> None:
        scenario = loaded.scenario
        self._seed = scenario.seed
        self._workload = scenario.workload
        self._tasks: tuple[Task, ...] = tuple(scenario.workload.tasks)
        self._sampling: tuple[SamplingKeys, ...] = tuple(t.sampling or scenario.sampling for t in self._tasks)
        self._own: Mapping[int, PromptSet] = loaded.prompts
        weights = np.cumsum(np.array([t.weight for t in self._tasks]))
        self._shares: Floats = weights / weights[-1]
        self._last = max(i for i, t in enumerate(self._tasks) if t.weight > 0)
        self._blocks: OrderedDict[tuple[int, PhaseName, int], list[list[int]]] = OrderedDict()
        self._before: dict[tuple[int, PhaseName], list[Ints]] = {}
        self._orders: OrderedDict[tuple[int, int, int], Ints] = OrderedDict()

    def case(self, stage_index: int, phase: PhaseName, index: int) -> Case:
        number, row = divmod(index, BLOCK)
        key = (stage_index, phase, number)
        block = self._blocks.get(key)
        if block is None:
            columns = self.columns(stage_index, phase, number)
            block = self._blocks[key] = [list(r) for r in zip(*(c.tolist() for c in columns.arrays()), strict=True)]
            if len(self._blocks) > _KEPT_BLOCKS:
                self._blocks.popitem(last=False)
        task_index, input_len, output_len, sampling_seed, prompt_seed, prompt_index, prefix, stream = block[row]
        own = self.own_prompt(task_index, prompt_index)
        task_type = own.task_type if own else self._tasks[task_index].task_type
        return Case(
            stage_index=stage_index,
            phase=phase,
            index=index,
            case_id=own.case_id if own else f"{task_type}-{prompt_seed >> 15:012x}",
            task_index=task_index,
            task_type=task_type,
            input_len_requested=None if own else input_len,
            output_len_requested=output_len,
            sampling_seed=None if sampling_seed == _NONE else sampling_seed,
            prompt_seed=prompt_seed,
            prompt_index=None if own is None else prompt_index,
            shared_prefix=bool(prefix),
            stream=bool(stream),
        )

    def own_prompt(self, task_index: int, prompt_index: int | None) -> OwnPrompt | None:
        if prompt_index is None or prompt_index == _NONE:
            return None
        return self._own[task_index].prompts[prompt_index]

    def drawn(self, stage_index: int, phase: PhaseName, n: int) -> Iterator[Columns]:
        """The first n cases, a block at a time."""
        for number in range(-(-n // BLOCK)):
            yield self.columns(stage_index, phase, number).first(n - number * BLOCK)

    def columns(self, stage_index: int, phase: PhaseName, number: int) -> Columns:
        """Block `number` (cases 256 × number …) of a stage and phase."""
        where = (stage_index, phase, number)
        task = self._mix(*where)
        raw: Words = words(3 * BLOCK, self._seed, "case", *where).reshape(3, BLOCK)
        lengths: Floats = unit(words(2 * BLOCK, self._seed, "length", *where)).reshape(2, BLOCK)
        prefix = self._workload.shared_prefix
        columns = Columns(
            task=task,
            input_len=np.full(BLOCK, _NONE, dtype=np.int64),
            output_len=np.zeros(BLOCK, dtype=np.int64),
            sampling_seed=np.full(BLOCK, _NONE, dtype=np.int64),
            prompt_seed=(raw[0] >> np.uint64(1)).astype(np.int64),
            prompt_index=np.full(BLOCK, _NONE, dtype=np.int64),
            shared_prefix=(unit(raw[1]) < prefix.fraction).astype(np.int64),
            stream=(unit(raw[2]) < self._workload.stream_fraction).astype(np.int64),
        )
        for index in np.unique(task).tolist():
            rows = np.flatnonzero(task == index)
            self._fill(columns, index, rows, lengths[:, rows], where)
        return columns

    def _fill(self, columns: Columns, index: int, rows: Ints, u: Floats, where: tuple[int, PhaseName, int]) -> None:
        task, sampling = self._tasks[index], self._sampling[index]
        input_len, output_len = _lengths(task, u)
        if sampling.seed is not None:
            seeds = words(BLOCK, self._seed, "sampling", sampling.seed, *where) >> np.uint64(33)
            columns.sampling_seed[rows] = seeds.astype(np.int64)[rows]
        columns.output_len[rows] = output_len
        own = self._own.get(index)
        if own is None:
            tokens = self._workload.shared_prefix.tokens
            columns.input_len[rows] = input_len + tokens * columns.shared_prefix[rows]
            return
        columns.shared_prefix[rows] = 0
        first = int(self._count_before(*where)[index])
        chosen = self._own_order(index, where, first, len(rows))
        columns.prompt_index[rows] = chosen
        given = np.array([own.prompts[i].max_tokens or 0 for i in chosen.tolist()], dtype=np.int64)
        columns.output_len[rows] = np.where(given > 0, given, output_len)

    def _mix(self, stage_index: int, phase: PhaseName, number: int) -> Ints:
        """Task of each case of a block, by weight."""
        raw = words(3 * BLOCK, self._seed, "task", stage_index, phase, number).reshape(3, _SIDE, _SIDE)
        stratum = np.argsort(raw[0], axis=1, kind="stable")
        rank = np.argsort(raw[1], axis=1, kind="stable")
        within = rank[stratum, np.arange(_SIDE)[:, None]]
        u = ((stratum + (within + unit(raw[2])) / _SIDE) / _SIDE).reshape(BLOCK)
        task = np.searchsorted(self._shares, u, side="right")
        return np.minimum(task, self._last).astype(np.int64)

    def _count_before(self, stage_index: int, phase: PhaseName, number: int) -> Ints:
        """How many cases of each task come before block `number`, (tasks,)."""
        known = self._before.setdefault((stage_index, phase), [np.zeros(len(self._tasks), dtype=np.int64)])
        while len(known) <= number:
            task = self._mix(stage_index, phase, len(known) - 1)
            known.append(known[-1] + np.bincount(task, minlength=len(self._tasks)))
        return known[number]

    def _own_order(self, index: int, where: tuple[int, PhaseName, int], first: int, n: int) -> Ints:
        """Own prompts number first … first + n − 1 of a task: shuffled, each once before any comes again.

        Warm-up takes the same order from its other end, so that it meets the measured prompts last.
        """
        stage_index, phase, _ = where
        size = len(self._own[index].prompts)
        ordinal = np.arange(first, first + n)
        chosen = np.empty(n, dtype=np.int64)
        for number in np.unique(ordinal // size).tolist():
            order = self._pass(stage_index, index, number)
            inside = ordinal // size == number
            place = ordinal[inside] % size
            chosen[inside] = order[size - 1 - place if phase == "warmup" else place]
        return chosen

    def _pass(self, stage_index: int, index: int, number: int) -> Ints:
        key = (stage_index, index, number)
        if key not in self._orders:
            size = len(self._own[index].prompts)
            self._orders[key] = permutation(size, self._seed, "own", stage_index, index, number)
            if len(self._orders) > _KEPT_BLOCKS:
                self._orders.popitem(last=False)
        return self._orders[key]


def _lengths(task: Task, u: Floats) -> tuple[Ints, Ints]:
    """Input and output tokens; 0 where the task says nothing (own prompts say it themselves)."""
    if task.lengths is not None:
        return draw_pairs(task.lengths, u[0])
    nothing = np.zeros(u.shape[1], dtype=np.int64)
    return (
        nothing if task.input_len is None else draw_lengths(task.input_len, u[0]),
        nothing if task.output_len is None else draw_lengths(task.output_len, u[1]),
    )
