"""The arms laid beside each other, design block by design block and case by case (docs/method.md, "Comparison").

A design block is (stage, repeat, block): in every arm it holds the same cases.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadgen.analyze.arms import ArmData
from loadgen.analyze.case_lengths import input_segments, output_segments
from loadgen.analyze.columns import Bools, Floats, Ints
from loadgen.analyze.counters import Counters, combine
from loadgen.analyze.frames import Frame
from loadgen.analyze.spec_counts import chunk_steps, countable, merged, tokens_after_first
from loadgen.analyze.throughput import Flow, flow_of
from loadgen.analyze.windows import SegmentWindow, Span

BlockKey = tuple[int, int, int]


def block_key(window: SegmentWindow) -> BlockKey:
    phase = window.phase
    return phase.stage_index, phase.repeat_idx, phase.block


def planned_blocks(comparison: Mapping[str, Any]) -> set[BlockKey]:
    """All blocks of the design, also those that were never begun. `comparison`: as in a manifest."""
    stages = comparison.get("stages") or ()
    return {(i, repeat, block) for i, stage in enumerate(stages) for repeat, block, _ in stage["order"]}


def block_keys(arms: Mapping[str, ArmData], planned: Collection[BlockKey]) -> tuple[BlockKey, ...]:
    """All blocks of all arms, and those that were `planned`, in the order of the plan."""
    return tuple(sorted({block_key(w) for data in arms.values() for w in data.windows}.union(planned)))


@dataclass(frozen=True)
class Side:
    """One arm. `block`: (n,) which of `keys` a row belongs to. `partner`: (n,) the baseline's row of the same case
    and block, -1 where it has none; for the baseline itself its own rows. `segments`: (n,) those of the case."""

    name: str
    data: ArmData
    keys: tuple[BlockKey, ...]
    block: Ints
    partner: Ints
    segments: Mapping[str, NDArray[np.object_]]

    @property
    def frame(self) -> Frame:
        return self.data.frame

    @cached_property
    def flow(self) -> Flow:
        return flow_of(self.frame, self.data.windows)

    @cached_property
    def whole(self) -> Bools:
        """(blocks,) driven to its end, not cut short."""
        found = np.zeros(len(self.keys), dtype=np.bool_)
        found[[self.keys.index(block_key(w)) for w in self.data.windows]] = True
        cut = [block_key(w) for w in self.data.windows if w.phase.ended_ns is None or w.phase.aborted is not None]
        found[[self.keys.index(key) for key in cut]] = False
        return found

    @cached_property
    def swapped(self) -> Bools:
        """(blocks,) driven after the arms of a parallel run exchanged their nodes."""
        after = {block_key(w) for w in self.data.windows if w.phase.swapped}
        return np.array([key in after for key in self.keys], dtype=np.bool_)

    @cached_property
    def counters(self) -> list[Counters | None]:
        """By block; None where it has no window."""
        found: list[Counters | None] = []
        for key in self.keys:
            mine = [w.counters for w in self.data.windows if block_key(w) == key]
            found.append(combine(mine) if mine else None)
        return found

    @cached_property
    def steps(self) -> tuple[Floats, Floats]:
        """(decode steps, tokens of them) of each row, NaN where its chunks do not tell."""
        frame, setting = self.frame, self.data.setting
        told = countable(frame, setting.facts.chunk_unit) & ~merged(frame, setting.k)
        return np.where(told, chunk_steps(frame), np.nan), np.where(told, tokens_after_first(frame), np.nan)

    @cached_property
    def labels(self) -> dict[str, NDArray[np.object_]]:
        """What a selector may ask for, as text, by row."""
        frame = self.frame
        of_stage = {w.phase.stage_index: w.phase for w in self.data.windows}
        stages = [of_stage.get(int(i)) for i in frame.stage_index]
        shown = {
            "stage": [p.stage if p else None for p in stages],
            "concurrency": [str(p.concurrency) if p and p.concurrency is not None else None for p in stages],
            "rate_per_s": [f"{p.rate_per_s:g}" if p and p.rate_per_s is not None else None for p in stages],
        }
        return {
            "task_type": frame.task_type,
            **self.segments,
            **{name: np.array([*column, None], dtype=object)[:-1] for name, column in shown.items()},
        }

    @cached_property
    def _masks(self) -> dict[tuple[str, str], Bools]:
        return {}

    def mask(self, name: str, value: str) -> Bools:
        """(n,) the rows with that label. Failed requests of a case whose length nobody knows could be in any segment
        of lengths, so they are in every one: else a server that fails fast would look better for it."""
        if (name, value) not in self._masks:
            found = np.asarray(self.labels[name] == value, dtype=np.bool_)
            if name in self.segments:
                found |= ~self.frame.ok & np.array([label is None for label in self.segments[name]], dtype=np.bool_)
            self._masks[name, value] = found
        return self._masks[name, value]

    @cached_property
    def whole_s(self) -> Floats:
        """(blocks,) from the start of a block until it was drained; NaN where it was not driven."""
        return self._lengths([(w, w.whole) for w in self.data.windows])

    @cached_property
    def steady_s(self) -> Floats:
        """(blocks,) length of the steady window; NaN where there is none."""
        return self._lengths([(w, w.steady) for w in self.data.windows if w.steady is not None])

    def _lengths(self, spans: Sequence[tuple[SegmentWindow, Span | None]]) -> Floats:
        found = np.full(len(self.keys), np.nan)
        for window, span in spans:
            if span is not None:
                at = self.keys.index(block_key(window))
                found[at] = np.nansum([found[at], (span[1] - span[0]) / 1e9])
        return found

    def sums(self, rows: Ints, values: Floats) -> Floats:
        """(blocks,) Σ of `values`, one a row of `rows`; NaN where a block has no row."""
        block = self.block[rows]
        known = block >= 0
        counts = np.bincount(block[known], minlength=len(self.keys))
        total = np.bincount(block[known], weights=values[known], minlength=len(self.keys))
        return np.where(counts > 0, total, np.nan)


def sides_of(arms: Mapping[str, ArmData], baseline: str | None, planned: Collection[BlockKey] = ()) -> dict[str, Side]:
    """Every arm beside `baseline` (None: each by itself)."""
    keys = block_keys(arms, planned)
    blocks = {name: _blocks(data, keys) for name, data in arms.items()}
    frames = {name: data.frame for name, data in arms.items()}
    inputs, outputs = input_segments(frames), output_segments(frames)
    found = {}
    for name, data in arms.items():
        base = name if baseline is None else baseline
        partner = _partners(data.frame, blocks[name], arms[base].frame, blocks[base])
        segments = {"input_segment": inputs[name], "output_segment": outputs[name]}
        found[name] = Side(name, data, keys, blocks[name], partner, segments)
    return found


def _blocks(data: ArmData, keys: tuple[BlockKey, ...]) -> Ints:
    found = np.full(data.frame.n, -1, dtype=np.int64)
    for window in data.windows:
        found[data.frame.segment == window.phase.segment] = keys.index(block_key(window))
    return found


def _partners(frame: Frame, block: Ints, base: Frame, base_block: Ints) -> Ints:
    """Row of `base` with the same number within the stage, in the same block."""
    if not base.n or not frame.n:
        return np.full(frame.n, -1, dtype=np.int64)
    span = int(max(frame.seq.max(), base.seq.max())) + 1
    codes, theirs = block * span + frame.seq, base_block * span + base.seq
    order = np.argsort(theirs, kind="stable")
    at = np.minimum(np.searchsorted(theirs[order], codes), base.n - 1)
    row = order[at]
    found: Ints = np.where((theirs[row] == codes) & (block >= 0), row, -1)
    return found
