"""Which requests belong together, and which windows they were measured in (docs/method.md, "Groups")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from loadgen.analyze.columns import Bools, Floats, Ints
from loadgen.analyze.counters import Counters, combine
from loadgen.analyze.frames import Frame
from loadgen.analyze.windows import SegmentWindow

#: Lower edges of the length segments, tokens: as the server counted them. The last one is open.
INPUT_EDGES = (0, 128, 512, 2048, 8192)
OUTPUT_EDGES = (0, 32, 128, 512)


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
    stage: str | None = None
    concurrency: int | None = None

    @property
    def counters(self) -> Counters | None:
        return combine([w.counters for w in self.windows]) if self.whole_windows else None


def segment_names(edges: Sequence[int]) -> list[str]:
    """ "0-127", …, "8192+"."""
    inner = [f"{low}-{high - 1}" for low, high in pairwise(edges)]
    return [*inner, f"{edges[-1]}+"]


def segment_of(lengths: Floats, edges: Sequence[int]) -> NDArray[np.object_]:
    """The segment's name of each length; None where the length is not known."""
    names = np.array([*segment_names(edges), None], dtype=object)
    known = ~np.isnan(lengths)
    place = np.full(len(lengths), len(edges))
    place[known] = np.searchsorted(edges, lengths[known], side="right") - 1
    found: NDArray[np.object_] = names[place]
    return found


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
    for temperature in np.unique(frame.temperature[~np.isnan(frame.temperature)]):
        rows = np.flatnonzero(frame.temperature == temperature)
        yield Group(rows, windows, False, temperature=float(temperature))
    yield from _stages(frame, windows, tasks)


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
