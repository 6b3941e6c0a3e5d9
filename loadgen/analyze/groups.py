"""Which requests belong together, and which windows they were measured in (docs/method.md, "Groups")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadgen.analyze.columns import Bools, Ints, known
from loadgen.analyze.counters import Counters, combine
from loadgen.analyze.frames import Frame
from loadgen.analyze.segments import INPUT_EDGES, OUTPUT_EDGES, segment_names, segment_of
from loadgen.analyze.windows import SegmentWindow


@dataclass(frozen=True)
class Group:
    """`rows`: indices into the frame. `whole_windows`: the group holds all requests of its windows, so
    counters and accounting, which know neither task nor length, are its own too."""

    rows: Ints
    windows: tuple[SegmentWindow, ...]
    whole_windows: bool
    task_type: str | None = None
    input_segment: str | None = None
    output_segment: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stage: str | None = None
    concurrency: int | None = None

    @property
    def counters(self) -> Counters | None:
        return combine([w.counters for w in self.windows]) if self.whole_windows else None


def overall(frame: Frame, windows: tuple[SegmentWindow, ...]) -> Group:
    return Group(rows=np.arange(frame.n), windows=windows, whole_windows=True)


def groups_of(frame: Frame, windows: tuple[SegmentWindow, ...]) -> Iterator[Group]:
    """All combinations of `G` that hold a request, plus every stage that was begun."""
    inputs = segment_of(frame.input_len, INPUT_EDGES)
    outputs = segment_of(frame.output_len, OUTPUT_EDGES)
    tasks = sorted({t for t in frame.task_type if t is not None})
    for task in tasks:
        mine = np.asarray(frame.task_type == task, dtype=np.bool_)
        yield Group(np.flatnonzero(mine), windows, False, task_type=task)
        for rows, name in _split(mine, inputs, INPUT_EDGES):
            yield Group(rows, windows, False, task_type=task, input_segment=name)
        for rows, name in _split(mine, outputs, OUTPUT_EDGES):
            yield Group(rows, windows, False, task_type=task, output_segment=name)
    everything = np.ones(frame.n, dtype=np.bool_)
    for rows, name in _split(everything, inputs, INPUT_EDGES):
        yield Group(rows, windows, False, input_segment=name)
    for rows, name in _split(everything, outputs, OUTPUT_EDGES):
        yield Group(rows, windows, False, output_segment=name)
    yield from _sampling(frame, windows, tasks)
    yield from _stages(frame, windows, tasks)


def _sampling(frame: Frame, windows: tuple[SegmentWindow, ...], tasks: list[str]) -> Iterator[Group]:
    """By what was sent; a task asked at one temperature only is one with its task group."""
    several = [t for t in tasks if len(known(frame.temperature[np.asarray(frame.task_type == t, dtype=np.bool_)])) > 1]
    for temperature in known(frame.temperature):
        rows = np.flatnonzero(frame.temperature == temperature)
        yield Group(rows, windows, False, temperature=temperature)
        for task in several:
            mine = rows[np.asarray(frame.task_type[rows] == task, dtype=np.bool_)]
            if len(mine):
                yield Group(mine, windows, False, task_type=task, temperature=temperature)
        sent = np.stack([frame.top_p[rows], frame.top_k[rows]], axis=1)
        kinds = np.unique(sent[~np.isnan(sent).any(axis=1)], axis=0)
        for top_p, top_k in kinds if len(kinds) > 1 else []:
            mine = rows[(sent == (top_p, top_k)).all(axis=1)]
            yield Group(mine, windows, False, temperature=temperature, top_p=float(top_p), top_k=int(top_k))


def _split(mine: Bools, names: NDArray[np.object_], edges: Sequence[int]) -> Iterator[tuple[Ints, str]]:
    for name in segment_names(edges):
        rows = np.flatnonzero(mine & np.asarray(names == name, dtype=np.bool_))
        if len(rows):
            yield rows, name


def stage_groups(frame: Frame, windows: tuple[SegmentWindow, ...]) -> Iterator[Group]:
    """One group a stage, in the order of the plan."""
    for index in sorted({w.phase.stage_index for w in windows}):
        own = tuple(w for w in windows if w.phase.stage_index == index)
        rows = np.flatnonzero(np.isin(frame.segment, [w.phase.segment for w in own]))
        phase = own[0].phase
        yield Group(rows, own, True, stage=phase.stage, concurrency=phase.concurrency)


def _stages(frame: Frame, windows: tuple[SegmentWindow, ...], tasks: list[str]) -> Iterator[Group]:
    for stage in stage_groups(frame, windows):
        yield stage
        for task in tasks:
            rows = stage.rows[np.asarray(frame.task_type[stage.rows] == task, dtype=np.bool_)]
            if len(rows):
                yield Group(
                    rows, stage.windows, False, task_type=task, stage=stage.stage, concurrency=stage.concurrency
                )
