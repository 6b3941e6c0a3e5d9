"""Which length segments a case is in: the same in every arm (docs/method.md, "Comparison").

Segments of the answers one arm happened to give would differ between equal arms: where answers are sampled, those that
were short in one arm are longer in the other.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from loadgen.analyze.columns import Floats, Ints
from loadgen.analyze.frames import Frame
from loadgen.analyze.segments import INPUT_EDGES, OUTPUT_EDGES, segment_of

Names = NDArray[np.object_]


def output_segments(frames: Mapping[str, Frame]) -> dict[str, Names]:
    """(n,) by arm. A case is a number within a stage. Its length is the one asked for, where those asked for in the run
    are in several segments; else the mean of the arms' mean lengths of its `ok` answers, over all repeats. None: no
    answer of the case ended `ok` with a known length."""
    asked = np.concatenate([frame.output_len_requested for frame in frames.values()] or [np.zeros(0)])
    if not np.isnan(asked).any() and len(set(segment_of(asked, OUTPUT_EDGES))) > 1:
        return {name: segment_of(frame.output_len_requested, OUTPUT_EDGES) for name, frame in frames.items()}
    cases = _cases(frames)
    told = {name: frame.ok & ~np.isnan(frame.output_len) for name, frame in frames.items()}
    length = _mean_of_arms({n: (cases[n][told[n]], frame.output_len[told[n]]) for n, frame in frames.items()}, cases)
    return {name: segment_of(length[case], OUTPUT_EDGES) for name, case in cases.items()}


def input_segments(frames: Mapping[str, Frame]) -> dict[str, Names]:
    """(n,) by arm, of the prompt tokens the server counted; of a request without a count, of those that other requests
    of its case have. None: none has."""
    cases = _cases(frames)
    told = {name: ~np.isnan(frame.input_len) for name, frame in frames.items()}
    length = _mean_of_arms({n: (cases[n][told[n]], frame.input_len[told[n]]) for n, frame in frames.items()}, cases)
    return {
        name: segment_of(np.where(told[name], frame.input_len, length[cases[name]]), INPUT_EDGES)
        for name, frame in frames.items()
    }


def _cases(frames: Mapping[str, Frame]) -> dict[str, Ints]:
    """(n,) by arm: equal numbers are the same case."""
    span = 1 + max((int(frame.seq.max()) for frame in frames.values() if frame.n), default=0)
    return {name: frame.stage_index * span + frame.seq for name, frame in frames.items()}


def _mean_of_arms(lengths: Mapping[str, tuple[Ints, Floats]], cases: Mapping[str, Ints]) -> Floats:
    """(cases,) mean of the arms' means; NaN where no arm has one. `lengths`: (case, length) of the requests that
    have one."""
    size = 1 + max((int(case.max()) for case in cases.values() if len(case)), default=-1)
    total, arms = np.zeros(size), np.zeros(size)
    for case, length in lengths.values():
        count = np.bincount(case, minlength=size)
        total += np.bincount(case, weights=length, minlength=size) / np.maximum(count, 1)
        arms += count > 0
    found: Floats = np.where(arms > 0, total / np.maximum(arms, 1), np.nan)
    return found
